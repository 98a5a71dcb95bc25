/* SPDX-License-Identifier: Apache-2.0
 *
 * gathering.h - the workers of a comm meet, and each says two numbers to all others. */
#ifndef GWI_GATHERING_H
#define GWI_GATHERING_H

#include "comm.h"

/* How many floats a worker sums, and a word of whatever the meeting is about. */
typedef struct gwi_gathering {
    gw_comm *comm;
    size_t n;
    uint8_t *tokens; /* the own one, then one of each worker */
} gwi_gathering;

/* GW_ERR_NOMEM. */
gw_status gwi_gathering_init(gwi_gathering *g, gw_comm *c, size_t n);

/* Returns when all workers have come, and what they have written before is seen.
 * Breaks the comm if one of them sums another number of floats. */
gw_status gwi_meet(gwi_gathering *g, uint64_t word);

/* What another worker has said at the last meeting. */
uint64_t gwi_word_of(const gwi_gathering *g, int rank);

/* The worker so many places further on. */
static inline int gwi_after(const gw_comm *c, int rank, int by)
{
    return (rank + by) % c->workers;
}

#endif
