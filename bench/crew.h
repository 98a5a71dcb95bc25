/* SPDX-License-Identifier: Apache-2.0
 *
 * crew.h - several local workers that measure something together. */
#ifndef GWB_CREW_H
#define GWB_CREW_H

#include "bench.h"
#include "comm.h"

typedef struct gwb_task gwb_task;

/* What all workers of a crew see; rank 0 writes it unless it says otherwise, and
 * barriers part writing from reading. */
typedef struct gwb_board {
    const gwb_settings *set;
    const gwb_task *task;
    int more; /* whether another round is wanted */
    unsigned rounds;
    double start, end; /* of this round; by whoever starts or ends it */
    double took[GWB_ROUNDS_MAX];
    double limit[GWB_ROUNDS_MAX]; /* of copying as much memory */
} gwb_board;

struct gwb_task {
    gw_spawn spawn;
    int workers;
    const char *link; /* as in gw_comm_link(), or NULL */
    size_t len;       /* of each of the two buffers, in bytes */
    unsigned repeat;  /* how often act() does it, one after the other */
    int copies;       /* whether rank 0 also copies one buffer to the other */

    /* Does what is measured on one worker and sets board->start and ->end. Buffers
     * are those of the worker, zeroed at first. */
    gw_status (*act)(gw_comm *comm, gwb_board *board, uint8_t *out, uint8_t *in);
};

/* The best of the rounds and the median, in seconds for one repetition; limit is
 * NaN unless the task copies. ratio is that of the best. */
typedef struct gwb_crew_result {
    double best, median, limit_best, ratio, ratio_median;
} gwb_crew_result;

gw_status gwb_crew_run(const gwb_settings *set, const gwb_task *task,
                       gwb_crew_result *result);

/* For act(): rank 0 sends `out` to rank 1. */
gw_status gwb_act_message(gw_comm *comm, gwb_board *board, uint8_t *out, uint8_t *in);

#endif
