/* SPDX-License-Identifier: Apache-2.0
 *
 * codec_clock.h - lets coding take simulated time.
 *
 * A simulated rank computes in no time; what selecting, coding and adding up cost is
 * measured and then slept. The clock sits between the library and its transport and
 * parts the processor time of one call into
 *
 *     head    before the first message is posted     slept there
 *     middle  between messages                       slept as bytes arrive
 *     tail    after the last one is over             slept at the end
 *
 * Each step is measured in several rounds; the least of each part counts, so that a
 * busy machine does not show. */
#ifndef GWS_CODEC_CLOCK_H
#define GWS_CODEC_CLOCK_H

#include "gradwire.h"

#include <stdbool.h>

typedef struct gws_cost {
    double head, middle, tail; /* seconds */
    double received;           /* bytes */
} gws_cost;

typedef struct gws_clock gws_clock;

/* Puts a clock under comm, which closes it. */
gw_status gws_clock_new(gws_clock **out, gw_comm *comm);

/* Around a call into the library. If cost is given it is slept, otherwise the call is
 * measured, and gws_clock_leave() says what it took. */
void gws_clock_enter(gws_clock *clock, const gws_cost *cost);
gws_cost gws_clock_leave(gws_clock *clock);

/* Sleeps; in simulated time where time is simulated. */
void gws_sleep(double seconds);

#endif
