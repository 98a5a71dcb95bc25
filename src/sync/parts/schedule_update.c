/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_update.c - every worker steps its own optimizer on its own gradient, and
 * what is exchanged in every step is the change of the model that this made: for
 * optimizers that divide by the size of gradients, or take their signs, and so must
 * not see them late and summed up.
 *
 *     up to step `start`   gradients are averaged, whole
 *     afterwards           c = the average of what is sent of x - reference
 *                          x = reference + scale * c;  reference = x
 *
 * A worker's own batch is P times smaller than that of all, so that the noise in its
 * own gradient makes steps of Adam up to sqrt(P) times shorter; `scale` undoes that. */
#include "sync/parts.h"

typedef struct options {
    uint64_t start;
    double scale;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_SCHEDULE);
}

static const gwi_key keys[] = {
    {.name = "start",
     .meaning = "steps at the beginning in which gradients are averaged, whole",
     .fallback = "64",
     .range = "a count of steps",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, start),
     .value = GWI_COUNT},
    {.name = "scale",
     .meaning = "factor of the average change; up to sqrt(P) for Adam and its kin",
     .fallback = "1",
     .range = "above 0, at most 1000",
     .least = 1e-6,
     .most = 1000,
     .at = offsetof(options, scale),
     .value = GWI_NUMBER},
    {.name = NULL},
};

static uint64_t update_period(const gwi_spec *spec, uint64_t done, int workers)
{
    (void)spec, (void)done, (void)workers;
    return 1;
}

static uint64_t update_start(const gwi_spec *spec)
{
    return options_of(spec)->start;
}

static double update_scale(const gwi_spec *spec)
{
    return options_of(spec)->scale;
}

static const gwi_schedule update = {
    .part = {.name = "update", .keys = keys},
    .subject = GWI_CHANGE,
    .talks = true,
    .period = update_period,
    .start = update_start,
    .scale = update_scale,
};

const gwi_stage gwi_stage_update = {
    .name = "update",
    .summary = "each worker's own optimizer steps, and the changes are exchanged",
    .example = "update",
    .cost = "as what follows it; dense in the first steps",
    .expect = "for Adam and its kin; follow it by topk, gtopk, drop, randk or a coding",
    .role = GWI_ROLE_WHEN,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &update.part},
    .keys = "start scale",
};
