/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.h - lets workers that may not be exchanging messages stop after the same step.
 *
 * All workers share one word. Its top bit says that a stop was requested; the rest is
 * the highest step that any worker has entered. After the request no worker raises the
 * highest step, and every worker continues until it has finished that step. */
#ifndef GWT_STOP_H
#define GWT_STOP_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct gwt_stop {
    _Atomic uint64_t word; /* 0 at first; lock-free, so also between processes */
} gwt_stop;

/* Asks for the stop. Safe in signal handlers. */
void gwt_stop_request(gwt_stop *stop);

/* Whether it was asked for. */
int gwt_stop_requested(const gwt_stop *stop);

/* Whether this worker may enter step t = 1, 2, .... If not, it has to end, and all
 * others will end before the same step. */
int gwt_stop_enter(gwt_stop *stop, uint64_t t);

#endif
