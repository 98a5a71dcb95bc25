/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - the inside of a gw_sync, and what an exchange is.
 *
 *     when    schedule.c   is this a step to talk in, dense or not, how densely
 *     what    sync.c       hands over the gradient, the change of the model, or it
 *     which   selector.c   takes coordinates out of the residual
 *     how     coder.c      writes them
 *     combine exchange_*.c sends, receives, adds
 *
 * An exchange replaces a vector by its average over the workers, or by the part of
 * it that was sent. It is one file whose only external symbol is its gwi_exchange. */
#ifndef GWI_SYNC_H
#define GWI_SYNC_H

#include "collective/collective.h"
#include "comm.h"
#include "layout.h"
#include "sync/coder.h"
#include "sync/schedule.h"
#include "sync/spec.h"

typedef struct gwi_exchange {
    const char *name;

    /* Whether it can do what spec asks for; the first in the table is taken. Pure. */
    bool (*fits)(const gwi_spec *spec);

    /* Bytes of zeroed private state that sync->state points to. */
    size_t state_size;

    /* Prepares the state. On failure it must be left so that fini() is safe.
     * Optional, like fini(). */
    gw_status (*init)(gw_sync *sync);
    void (*fini)(gw_sync *sync);

    /* Replaces v (as many floats as the layout has). *note is this worker's and must
     * be the least of all workers' afterwards; if it is not 0 then, v is undefined
     * and what was selected is back in the residual. May block. v is NULL if the
     * gradient is in the residual already and the result belongs into pieces. */
    gw_status (*run)(gw_sync *sync, float *v, gwi_note *note);

    bool lossy;        /* has a use for a residual; otherwise all is sent whole */
    bool closes_up;    /* is given v and residual without small tensors: gwi_rest() */
    bool takes_pieces; /* knows what to do when v is NULL */
    bool differs;      /* does not leave the same vector on all workers */
} gwi_exchange;

extern const gwi_exchange gwi_exchange_dense;
extern const gwi_exchange gwi_exchange_gather;
extern const gwi_exchange gwi_exchange_tree;
extern const gwi_exchange gwi_exchange_coded;
extern const gwi_exchange gwi_exchange_means;

/* The exchange that does what spec asks for. */
const gwi_exchange *gwi_exchange_for(const gwi_spec *spec);

/* Tensors that are sent whole because they are small (dense_below). */
typedef struct gwi_small {
    float *values; /* count of them, one tensor after the other */
    size_t count;
} gwi_small;

/* A gradient in pieces, during the call that brings it. */
typedef struct gwi_pieces {
    const gw_piece *list;
    size_t count;
} gwi_pieces;

struct gw_sync {
    gw_comm *comm;
    gw_layout *layout;
    const gwi_exchange *exchange;
    void *state; /* of the exchange */
    gwi_spec spec;
    gw_nonfinite nonfinite;
    uint64_t seed;
    uint64_t step;      /* 1 in the first */
    uint64_t exchanged; /* the last one of which models were exchanged */
    gwi_phase phase;
    gwi_moment now; /* what the schedule says of this step */
    gw_stats stats;

    /* What is remembered, n floats each, NULL where not needed. */
    float *residual;  /* of what was not sent */
    float *velocity;  /* of the momentum correction */
    float *reference; /* the last common model */
    float *mean;      /* of all models so far (Polyak) */
    bool started;     /* the reference is there */
    bool spoiled;     /* NaN or infinity has got into the residual: it is of no use */

    gwi_pieces pieces;
    float *gathered; /* where they are put together if they must be; NULL until then */
    gwi_small small;
    void *words; /* of all workers, for comparing models (agreement.c) */
    struct gwi_overlap *overlap; /* made by the first part fed */
    double encoded;  /* seconds of the current call so far that were encoding */
    double entered;  /* when the current call began */
    double waited;   /* comm's waiting when the current call began */
    char asked[256]; /* canonical spec, before the number of workers was looked at */
    char text[256];  /* the same with every choice made */
};

/* Whether models that drift apart are averaged after this step. */
static inline bool gwi_repairs(const gw_sync *s)
{
    return s->spec.opt.resync > 0 && s->step % s->spec.opt.resync == 0;
}

/* An exchange whose note is 0 has what was selected looked at, and sends the note that
 * this returns. Where a bad number ends the run anyway (GW_NONFINITE_END), exact top-k
 * does not read the gradient an extra time to find it: NaN and infinity are larger than
 * everything, so they are among what was selected; the residual is then spoiled.
 * Otherwise the gradient was good, and the residual has overflowed. */
gwi_note gwi_sync_look_later(gw_sync *sync, const gwi_list *selected);

/* An exchange calls this when its own data is encoded and messages begin. */
void gwi_sync_encoded(gw_sync *sync);

/* The average of v over the workers by whole buckets of tensors, as dense does it. */
gw_status gwi_average_dense(gw_sync *sync, float *v, gwi_note *note);

/* The key of random rounding for this worker and step; `second` for the second
 * rounding within a step. */
uint64_t gwi_sync_key(const gw_sync *sync, bool second);

#endif
