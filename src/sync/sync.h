/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.h - the inside of a gw_sync, and what parts may use of it. */
#ifndef GWI_SYNC_H
#define GWI_SYNC_H

#include "comm.h"
#include "sync/coder.h"
#include "sync/parts.h"

/* What to do in one step. */
typedef struct gwi_moment {
    bool gradient;  /* exchange gradients */
    bool dense;     /* and all of them: warm-up, or steps before local ones begin */
    bool model;     /* exchange models, or their changes */
    bool begins;    /* of streams: an exchange begins, which ends with `model` */
    double density; /* of the coordinates to send */
} gwi_moment;

/* Where in its periods a sync is; zeroed bytes are the beginning. */
typedef struct gwi_phase {
    uint64_t begin; /* step after which the present period began */
    uint64_t end;   /* last step of it */
} gwi_phase;

/* Tensors that are sent whole because they are small (small.h). */
typedef struct gwi_small {
    float *values; /* count of them, one tensor after the other */
    size_t count;
} gwi_small;

/* The clock of one call (measure.h). */
typedef struct gwi_measure {
    gw_traffic before;    /* the comm's counts when the call began */
    double since, waited; /* when the present activity began; waiting until then */
    double spent[2];      /* seconds of encoding, and of everything else */
    int activity;         /* which of them the present one is */
} gwi_measure;

/* What a residual was once (guard.h). */
typedef struct gwi_mark {
    uint64_t step; /* 0: none */
    double size;
} gwi_mark;

typedef struct gwi_guard {
    uint64_t exchanges;        /* that had a residual */
    bool due, grown;           /* measured now; too long at the last measurement */
    double vector;             /* norm of what the present exchange began with */
    double rate, highest_rate; /* learning rates that were told; 0: none */
    gwi_mark older, newer;
    gw_health health;
} gwi_guard;

typedef struct gwi_undo gwi_undo;

struct gw_sync {
    gw_comm *comm;
    gw_layout *layout;
    gwi_spec spec;
    gw_nonfinite nonfinite;
    uint64_t seed;
    uint64_t step;      /* 1 in the first */
    uint64_t exchanged; /* the last one of which models were exchanged */
    gwi_phase phase;
    gwi_moment now; /* what the schedule says of this step */
    gw_stats stats;
    gwi_guard guard; /* of the whole */

    /* Vectors that are too long for messages are cut (segments.h). */
    struct gw_sync *whole;     /* what this is a segment of; itself if it is none */
    struct gw_sync **segments; /* of the whole; `alone`, itself, if it is not cut */
    struct gw_sync *alone;
    size_t segment_count;
    size_t number, base; /* of the segments, and where in the vector it begins */
    size_t fragment;     /* that it belongs to (beside/stream.h) */
    bool gave;           /* its last exchange had a result */
    bool away;           /* exchanged beside the caller: it stays in the step in which
                          * that began */

    void *state[GWI_KINDS]; /* of the parts, state_size bytes each */
    float *kept[GWI_TAGS];  /* what is remembered, NULL where not wanted; of the whole,
                             * and segments point into it */
    gwi_list list;          /* what the selector chose last, indices ascending */
    gwi_coding coding;      /* of messages; made by exchanges that have any */
    bool started;           /* the reference is there */
    bool spoiled; /* NaN or infinity has got into the residual: it is of no use */

    float
        *gathered; /* where pieces are put together if they must be; NULL until then */
    gwi_small small;
    void *words; /* of all workers, for comparing models (agreement.c) */
    struct gwi_overlap *overlap; /* made by the first part fed */
    struct gwi_aside *aside;     /* made by the first step of entries (entries.h) */
    gwi_undo *undo; /* what to go back to; NULL: failures are for good (elastic/undo.h)
                     */
    struct gwi_late *late;     /* NULL: gradients are used in their own step */
    struct gwi_stream *stream; /* NULL: whole changes, used in their own step */
    gwi_measure measure;
    char asked[256]; /* canonical spec, before the number of workers was looked at */
    char text[256];  /* the same with every choice made */
};

/* The state of the part that answers a question. */
static inline void *gwi_state(const gw_sync *sync, gwi_kind kind)
{
    return sync->state[kind];
}

/* Steps between averages of models that drift apart; 0: never. */
static inline uint64_t gwi_resync(const gwi_spec *spec)
{
    const gwi_exchange *exchange = gwi_exchange_of(spec);

    return exchange != NULL && exchange->resync != NULL ? exchange->resync(spec) : 0;
}

/* Whether models that drift apart are averaged after this step. */
static inline bool gwi_repairs(const gw_sync *s)
{
    uint64_t every = gwi_resync(&s->spec);

    return every > 0 && s->step % every == 0;
}

/* The key of random rounding for this worker and step; `second` for the second
 * rounding within a step. The same for any worker and any number of roundings before.
 * And one of this step that is the same on all workers. */
uint64_t gwi_sync_key(const gw_sync *sync, bool second);
uint64_t gwi_group_key(const gw_sync *sync, int worker, int number);
uint64_t gwi_common_key(const gw_sync *sync, uint64_t seed);

/* Zeroed, but for the spec, and its own only segment. NULL without a message. */
gw_sync *gwi_sync_allocate(const gwi_spec *spec);

#endif
