/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - when workers talk. */
#ifndef GWI_SCHEDULE_H
#define GWI_SCHEDULE_H

#include "sync/spec.h"

/* What to do in one step. */
typedef struct gwi_moment {
    bool gradient;  /* exchange gradients */
    bool dense;     /* and all of them: warm-up, or steps before local ones begin */
    bool model;     /* exchange models, or their changes */
    double density; /* of the coordinates to send */
} gwi_moment;

/* Where in its periods a sync is; zeroed bytes are the beginning. */
typedef struct gwi_phase {
    uint64_t begin; /* step after which the present period began */
    uint64_t end;   /* last step of it */
} gwi_phase;

/* What to do in `step`, 1 in the first, and moves phase on. To be asked once for
 * each step, in order. */
gwi_moment gwi_schedule(const gwi_spec *spec, uint64_t step, int workers,
                        gwi_phase *phase);

/* The largest density that any step of spec asks for. */
double gwi_schedule_most(const gwi_spec *spec);

/* Local steps in a period that begins after `done` local steps. */
uint64_t gwi_period(const gwi_spec *spec, uint64_t done, int workers);

#endif
