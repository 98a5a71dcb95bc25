/* SPDX-License-Identifier: Apache-2.0
 *
 * entry.h - how the workers of a new comm come to one state.
 *
 *     undo.c     exchanges that all workers make, or none
 *     decide.c   who has what, and what follows from it
 *     entry.c    the call: all of it, in order
 *     handing.c  the state goes to those who join, residuals of those who leave go to
 *                one that stays
 *
 * All workers first tell each other what they have (gwi_claim). Everybody then decides
 * the same, since everybody knows the same: which exchange was the last that counts,
 * who has made it, who takes the result that is prepared, and whose state those take
 * that have not made it. At the end all compare the common model. */
#ifndef GWI_ENTRY_H
#define GWI_ENTRY_H

#include "gradwire_elastic.h"
#include "sync/elastic/undo.h"

/* What a worker says of itself. */
typedef struct gwi_claim {
    gwi_deed done;     /* the last exchange that it has committed */
    gwi_deed prepared; /* the one it is prepared for; 0: none */
    gwi_phase phase;
    uint64_t last, completed, id, base;
    uint64_t offered, took;
    double norm; /* of its residual */
    bool waits;  /* its model lacks a result that it has got */
    bool leaves;
} gwi_claim;

/* One run of gw_sync_enter(). */
typedef struct gwi_meet {
    gw_sync *sync;
    gw_comm *comm;
    float *params;
    const gw_enter_options *opt;
    gwi_claim *claims; /* [workers] by rank */
    uint8_t *takes;    /* [workers]: it takes the state */
    uint64_t *ids;     /* [workers] */
    gwi_deed target;   /* the last exchange that counts */
    uint64_t base;     /* the step of it */
    int heir;          /* takes what leavers hand over; -1: nobody */
    int survivors;
    bool given;   /* this worker has handed over what it had */
    float *model; /* that a worker takes; params gets it at the end */
    gw_entry entry;
} gwi_meet;

/* Gathers the claims of all workers, and decides. Collective. */
gw_status gwi_gather_claims(gwi_meet *m);
void gwi_decide(gwi_meet *m);

/* Forgets what belongs to the common state: half of one is of no use to anybody, should
 * this worker have to begin anew. */
void gwi_forget(gw_sync *s);

/* Hands the state over, then what leavers leave behind, which counts once
 * gwi_inherit() was called. Collective. */
gw_status gwi_hand_state(gwi_meet *m);
gw_status gwi_hand_legacies(gwi_meet *m);
void gwi_inherit(gwi_meet *m);

/* Whether a claim's worker offers something that nobody has taken yet. */
bool gwi_offers(const gwi_meet *m, int rank);

#endif
