/* SPDX-License-Identifier: Apache-2.0
 *
 * stop_together.h - lets workers without shared memory stop after the same step. Every
 * few steps they tell each other whether a stop was requested. Worker 0 chooses the
 * number of steps in between and sends it along, so that the cost is small and a stop
 * is still quick. */
#ifndef GWT_STOP_TOGETHER_H
#define GWT_STOP_TOGETHER_H

#include "gradwire.h"
#include "run/stop.h"

typedef struct gwt_stop_together {
    uint64_t last, next; /* steps before the last and the next exchange */
    double last_at;      /* when that was */
} gwt_stop_together;

/* Sets *go to 1 if all may enter step t = 1, 2, ..., or to 0 if all have to end. The
 * together must be zeroed at first. Collective. */
gw_status gwt_stop_together_enter(gwt_stop_together *together, gw_comm *comm,
                                  const gwt_stop *stop, uint64_t t, int *go);

#endif
