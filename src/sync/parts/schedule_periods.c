/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_periods.c - changes of the models are exchanged after every so many steps.
 */
#include "sync/parts.h"

typedef struct options {
    uint64_t every;
} options;

static const gwi_key keys[] = {
    {.name = "every",
     .meaning = "steps between exchanges",
     .range = "a count of steps from 1",
     .least = 1,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, every),
     .value = GWI_COUNT},
    {.name = NULL},
};

static uint64_t periods_period(const gwi_spec *spec, uint64_t done, int workers)
{
    (void)done, (void)workers;
    return ((const options *)gwi_options_of(spec, GWI_SCHEDULE))->every;
}

static bool periods_off(const gwi_spec *spec)
{
    return periods_period(spec, 0, 1) == 1;
}

const gwi_schedule gwi_schedule_periods = {
    .part = {.name = "periods", .keys = keys, .off = periods_off},
    .subject = GWI_CHANGE,
    .talks = true,
    .period = periods_period,
};
