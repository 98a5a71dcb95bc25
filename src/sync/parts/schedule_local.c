/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_local.c - local SGD (Patel & Dieuleveut 2019): models are averaged after
 * every so many local steps, or after periods that grow. */
#include "sync/parts.h"

#include <math.h>

typedef struct options {
    uint64_t every; /* steps of a period; GWI_COUNT_WORD: it grows */
    uint64_t start; /* local steps begin after this one, dense before */
    double grow;    /* factor of growing periods */
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_SCHEDULE);
}

static const gwi_key keys[] = {
    {.name = "every",
     .meaning = "steps between averages of the models; grow: longer and longer periods",
     .words = "grow",
     .range = "a count of steps from 1, or grow",
     .least = 1,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, every),
     .value = GWI_COUNT},
    {.name = "grow",
     .meaning = "factor c of growing periods: c sqrt(s) / P steps after step s",
     .fallback = "1",
     .range = "a factor above 0",
     .least = 1e-6,
     .most = 1e6,
     .at = offsetof(options, grow),
     .value = GWI_NUMBER},
    {.name = "start",
     .meaning = "dense steps before the first local one",
     .fallback = "0",
     .range = "a count of steps",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, start),
     .value = GWI_COUNT},
    {.name = NULL},
};

static bool grows(const gwi_spec *spec)
{
    return options_of(spec)->every == GWI_COUNT_WORD;
}

static bool local_off(const gwi_spec *spec)
{
    return options_of(spec)->every == 1;
}

/* Growing periods: the drift within one falls with the step size, so it may last
 * longer; floor(c sqrt(s) / P) keeps about sqrt(P T) rounds in T gradients. */
static uint64_t local_period(const gwi_spec *spec, uint64_t done, int workers)
{
    const options *opt = options_of(spec);

    if (!grows(spec))
        return opt->every;
    double steps = floor(opt->grow * sqrt((double)done) / workers);
    return steps >= 1 ? (uint64_t)steps : 1;
}

static uint64_t local_start(const gwi_spec *spec)
{
    return options_of(spec)->start;
}

static double local_growth(const gwi_spec *spec)
{
    return grows(spec) ? options_of(spec)->grow : 0;
}

static const options defaults = {.every = 1};

const gwi_schedule gwi_schedule_local = {
    .part = {.name = "local",
             .keys = keys,
             .defaults = &defaults,
             .options_size = sizeof defaults,
             .off = local_off},
    .subject = GWI_MODEL,
    .talks = true,
    .period = local_period,
    .start = local_start,
    .growth = local_growth,
};

const gwi_stage gwi_stage_local = {
    .name = "local",
    .summary = "local steps, then the average of the models (Patel & Dieuleveut 2019)",
    .example = "local:8",
    .cost = "dense / every; once more at the end, if a period has begun",
    .expect = "models differ between averages, which costs accuracy or more steps",
    .role = GWI_ROLE_WHEN,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_local.part, [GWI_LATE] = &gwi_stream},
    .keys = "every grow start average fragments delay mix cut",
};
