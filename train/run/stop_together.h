/* SPDX-License-Identifier: Apache-2.0
 *
 * stop_together.h - how workers without common memory stop after the same step: now and
 * then they tell each other whether a stop was asked for. How many steps lie between is
 * worker 0's choice, told along, so that it costs next to nothing and a stop is
 * quick all the same. */
#ifndef GWT_STOP_TOGETHER_H
#define GWT_STOP_TOGETHER_H

#include "gradwire.h"
#include "run/stop.h"

typedef struct gwt_pact {
    uint64_t last, next; /* steps before which they told, and will tell, each other */
    double last_at;      /* when that was */
} gwt_pact;

/* Whether all may enter step t = 1, 2, ... (*go = 1), or all are to end. Begins with a
 * zeroed pact. Collective. */
gw_status gwt_pact_enter(gwt_pact *pact, gw_comm *comm, const gwt_stop *stop,
                         uint64_t t, int *go);

#endif
