/* SPDX-License-Identifier: Apache-2.0
 *
 * undo.h - exchanges that all workers make, or none of them.
 *
 *     begin      the vector and all memories are copied
 *     exchange   as always
 *     commit     every worker tells every other that it has the result
 *
 * A worker that has heard of all others goes on: the exchange is *committed*. One that
 * has the result, but has not heard of all, is *prepared*: it puts the vector back and
 * keeps the result. One that has no result puts everything back. If any worker has
 * committed, all others are prepared at least. So when the survivors meet again, those
 * that are prepared take the result if one of them has committed, and put everything
 * back otherwise (entry.c). No worker needs more than one copy for that. */
#ifndef GWI_UNDO_H
#define GWI_UNDO_H

#include "sync/sync.h"

/* Names an exchange: a count, and the entry after which it was made. An exchange that
 * was put back and one that took its place later have the same count. */
typedef struct gwi_deed {
    uint64_t entry, count;
} gwi_deed;

/* What is known of a worker of the last entry. */
typedef struct gwi_fellow {
    uint64_t id;
    double norm; /* of its residual, when it last told */
} gwi_fellow;

/* Which call an exchange belongs to. */
typedef enum gwi_call { GWI_NO_CALL, GWI_GRADIENT_CALL, GWI_MODEL_CALL } gwi_call;

/* What a step changes besides memories. */
typedef struct gwi_counters {
    uint64_t step, exchanged, base, finished, steps, skipped;
    double lost_mass, applied_mass;
    gwi_phase phase;
    gwi_moment now;
    gwi_guard guard;
    bool spoiled;
} gwi_counters;

struct gwi_undo {
    float *vector;         /* of the call, before it; of a prepared call, its result */
    float *kept[GWI_TAGS]; /* the memories before the call */
    float *common;         /* the last common model; NULL if the parts keep it */
    gwi_counters before;

    bool open;         /* an exchange is being made */
    gwi_call prepared; /* the result is there, but it may have to be put back */
    gwi_call ready;    /* it is certain, and the call is to be made again */
    gw_status outcome; /* that the call returns then */
    gwi_deed next;     /* of the exchange that is made, or prepared */

    gwi_deed done;      /* the last one that is committed */
    uint64_t base;      /* the step of it */
    uint64_t finished;  /* the step after which training has ended; UINT64_MAX: none */
    uint64_t last;      /* the last entry that was decided; 0: none */
    uint64_t completed; /* the last one that was made to the end */
    uint64_t id;        /* 0: it has taken part in none */
    uint64_t offered, took; /* entries at which residuals changed hands */

    int fellow_count;
    gwi_fellow *fellows; /* [fellow_count], by rank, of the last completed entry */
    uint64_t *ids;       /* [fellow_count], handed out */
    uint8_t *takes;      /* [fellow_count], likewise */
    void *words;         /* what all workers tell at a commit, and its lengths */
};

/* Makes exchanges of s all or nothing; once. GW_ERR_NOMEM, GW_ERR_SPEC. */
gw_status gwi_undo_new(gw_sync *s);
void gwi_undo_free(gw_sync *s);

/* Gets the memory for commits on the present comm. GW_ERR_NOMEM. */
gw_status gwi_undo_fit(gw_sync *s);

/* Before and after an exchange with v. The end commits, or puts back; it returns the
 * status of the call. They do nothing if s has no undo. */
void gwi_undo_begin(gw_sync *s, const float *v);
gw_status gwi_undo_end(gw_sync *s, float *v, gwi_call call, gw_status st);

/* Whether the call has been made already, or cannot be made now. Then *st is its
 * status, and v its result. */
bool gwi_undo_answers(gw_sync *s, float *v, gwi_call call, gw_status *st);

/* The call has done all it had to do, but failed after that: when it is made again,
 * there is nothing left to do. */
void gwi_undo_settle(gw_sync *s, gwi_call call, gw_status outcome);

/* Training ends with params, the average of the models, as the common model. */
void gwi_undo_finish(gw_sync *s, const float *params);

/* Decides a prepared exchange. params is this worker's model. */
void gwi_undo_take(gw_sync *s, float *params);
void gwi_undo_put_back(gw_sync *s);

/* Remembers the model as the common one, where nothing else does. */
void gwi_undo_common(gw_sync *s, const float *params);

/* The last model that all workers had; params if they still have it. */
const float *gwi_common_model(const gw_sync *s, const float *params);

#endif
