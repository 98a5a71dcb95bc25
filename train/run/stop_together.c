/* SPDX-License-Identifier: Apache-2.0
 *
 * stop_together.c - stops all workers after the same step without shared memory. */
#include "run/stop_together.h"
#include "common.h"

/* Open MPI gives a job about one second between the request to end and the kill. */
#define EVERY_SECONDS 0.1

/* The number is exact as a float. It grows slowly, since later steps may be much
 * longer. */
#define MOST_STEPS 65536.0
#define GROWTH     4.0

static double choose_steps(const gwt_stop_together *p, uint64_t t)
{
    double steps = (double)(t - p->last), seconds = gwt_now() - p->last_at, next;

    if (p->last == 0)
        return 1.0;
    next = seconds > 0 ? steps * EVERY_SECONDS / seconds : steps * GROWTH;
    next = next < steps * GROWTH ? next : steps * GROWTH;
    next = next < MOST_STEPS ? next : MOST_STEPS;
    return next < 1.0 ? 1.0 : (double)(uint64_t)next;
}

gw_status gwt_stop_together_enter(gwt_stop_together *p, gw_comm *comm,
                                  const gwt_stop *stop, uint64_t t, int *go)
{
    float words[2] = {0.0f, 0.0f}; /* how many ask for the stop; steps to the next */

    *go = 1;
    if (t < p->next)
        return GW_OK;
    words[0] = gwt_stop_requested(stop) ? 1.0f : 0.0f;
    if (gw_comm_rank(comm) == 0)
        words[1] = (float)choose_steps(p, t);
    GWT_TRY(gw_allreduce(comm, words, 2));
    *go = words[0] == 0.0f;
    *p = (gwt_stop_together){
        .last = t, .next = t + (uint64_t)words[1], .last_at = gwt_now()};
    return GW_OK;
}
