/* SPDX-License-Identifier: Apache-2.0
 *
 * ramp.c - the first steps: warmup=W of them are dense, then ladder=L on each rung. */
#include "sync/ramp.h"

typedef struct options {
    uint64_t warmup; /* dense steps at the beginning */
    uint64_t ladder; /* steps on each rung of the density ladder */
} options;

/* Densities of the warm-up of Lin et al. (Deep Gradient Compression, 2018), taken
 * one after the other down to the one that is asked for. */
static const double rungs[] = {0.25, 0.0625, 0.015625, 0.004};
enum { RUNGS = sizeof rungs / sizeof *rungs };

static const gwi_key keys[] = {
    {.name = "warmup",
     .meaning = "dense steps at the beginning",
     .fallback = "0",
     .range = "a count of dense steps",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, warmup),
     .value = GWI_COUNT},
    {.name = "ladder",
     .meaning = "then steps at each density from 0.25 down to the one asked for",
     .fallback = "0",
     .range = "a count of steps on each rung",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, ladder),
     .value = GWI_COUNT},
    {.name = NULL},
};

const gwi_part gwi_ramp = {.name = "ramp", .keys = keys};

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_RAMP);
}

uint64_t gwi_ramp_dense_steps(const gwi_spec *spec)
{
    return options_of(spec)->warmup;
}

bool gwi_ramp_is_dense(const gwi_spec *spec, uint64_t step)
{
    return step <= gwi_ramp_dense_steps(spec);
}

double gwi_ramp_density(const gwi_spec *spec, uint64_t step)
{
    const options *opt = options_of(spec);
    double density = gwi_selector_of(spec)->density(spec);

    if (opt->ladder == 0)
        return density;
    uint64_t rung = (step - opt->warmup - 1) / opt->ladder;
    return rung < RUNGS && rungs[rung] > density ? rungs[rung] : density;
}

uint64_t gwi_ramp_length(const gwi_spec *spec)
{
    double density = gwi_selector_of(spec)->density(spec);
    uint64_t above = 0;

    while (above < RUNGS && rungs[above] > density)
        above++;
    return options_of(spec)->warmup + above * options_of(spec)->ladder;
}

double gwi_ramp_most(const gwi_spec *spec)
{
    double density = gwi_selector_of(spec)->density(spec);
    bool climbs = options_of(spec)->ladder > 0 && rungs[0] > density;

    return climbs ? rungs[0] : density;
}
