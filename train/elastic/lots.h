/* SPDX-License-Identifier: Apache-2.0
 *
 * lots.h - which batches a worker gets where workers come and go.
 *
 * Batches have numbers, from the first epoch on. Each worker has a lot: the batches of
 * its steps until the next exchange. When that is made, the batches are used, and all
 * get new lots:
 *
 *     P workers, H steps      worker r has next + r, next + r + P, ...; H of them
 *
 * So P workers use the same batches in the same steps as in a run whose workers do not
 * change. When a worker is gone, its lot is returned, and given to the next worker that
 * needs one of this length. A slower worker may have shorter lots; what is left of its
 * batches is returned, too. Every worker keeps the same table of all lots. */
#ifndef GWT_LOTS_H
#define GWT_LOTS_H

#include "common.h"

enum { GWT_MOST_LOTS = 1024, GWT_MOST_RETURNED = 256 };

/* The batches first, first + stride, ...; count of them. */
typedef struct gwt_lot {
    uint64_t id; /* of the worker; 0: returned */
    uint64_t first, stride, count;
    uint64_t share; /* the worker gets so many at most; 0: as many as others */
} gwt_lot;

typedef struct gwt_lots {
    uint64_t next;     /* batches from here on nobody has got yet */
    uint64_t used;     /* how many have been used */
    uint64_t skipped;  /* how many were returned and nobody took */
    uint64_t exchange; /* the last exchange that is counted in here */
    uint64_t count, returned_count;
    gwt_lot lots[GWT_MOST_LOTS]; /* by rank */
    gwt_lot returned[GWT_MOST_RETURNED];
} gwt_lots;

/* Begins after so many batches, with nobody. */
void gwt_lots_begin(gwt_lots *lots, uint64_t batches, uint64_t exchange);

/* The workers are now these. Whoever is new gets a lot of `steps` batches. */
void gwt_lots_follow(gwt_lots *lots, const uint64_t *ids, size_t count, uint64_t steps);

/* An exchange was made after step `exchange`; all get lots of `steps` batches. */
void gwt_lots_use(gwt_lots *lots, uint64_t exchange, uint64_t steps);

/* The batch of a worker's i-th step since the last exchange. If its lot is shorter, it
 * begins again. */
uint64_t gwt_lots_batch(const gwt_lots *lots, size_t rank, uint64_t i);

/* Whether a table that came from another worker can be used. */
int gwt_lots_good(const gwt_lots *lots);

#endif
