/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.h - what the schedule of a spec decides for each step. */
#ifndef GWI_SCHEDULE_H
#define GWI_SCHEDULE_H

#include "sync/sync.h"

/* What to do in `step`, 1 in the first, and moves phase on. To be asked once for
 * each step, in order. */
gwi_moment gwi_schedule_at(const gwi_spec *spec, uint64_t step, int workers,
                           gwi_phase *phase);

/* Dense steps before the first local one. */
uint64_t gwi_schedule_start(const gwi_spec *spec);

#endif
