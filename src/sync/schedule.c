/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - when workers talk: periods, growing periods, warm-up. */
#include "sync/schedule.h"

#include <math.h>

/* Densities of the warm-up of Lin et al. (Deep Gradient Compression, 2018), taken
 * one after the other down to the one that is asked for. */
static const double rungs[] = {0.25, 0.0625, 0.015625, 0.004};
enum { RUNGS = sizeof rungs / sizeof *rungs };

static double density_at(const gwi_spec *spec, uint64_t step)
{
    const gwi_options *opt = &spec->opt;

    if (opt->ladder == 0)
        return opt->density;
    uint64_t rung = (step - opt->warmup - 1) / opt->ladder;
    return rung < RUNGS && rungs[rung] > opt->density ? rungs[rung] : opt->density;
}

double gwi_schedule_most(const gwi_spec *spec)
{
    bool climbs = spec->opt.ladder > 0 && rungs[0] > spec->opt.density;

    return climbs ? rungs[0] : spec->opt.density;
}

/* Growing periods: the drift within one falls with the step size, so it may last
 * longer; floor(c sqrt(s) / P) keeps about sqrt(P T) rounds in T gradients. */
uint64_t gwi_period(const gwi_spec *spec, uint64_t done, int workers)
{
    if (spec->when != GWI_WHEN_GROW)
        return spec->opt.every;
    double steps = floor(spec->opt.grow * sqrt((double)done) / workers);
    return steps >= 1 ? (uint64_t)steps : 1;
}

static gwi_moment gradient_moment(const gwi_spec *spec, uint64_t step)
{
    bool warm = step <= spec->opt.warmup;

    return (gwi_moment){
        .gradient = true, .dense = warm, .density = warm ? 1 : density_at(spec, step)};
}

gwi_moment gwi_schedule(const gwi_spec *spec, uint64_t step, int workers,
                        gwi_phase *phase)
{
    uint64_t start = spec->opt.start;

    if (spec->when == GWI_WHEN_NEVER || spec->when == GWI_WHEN_END)
        return (gwi_moment){.density = 0};
    if (spec->what == GWI_WHAT_GRADIENT)
        return gradient_moment(spec, step);
    if (step <= start) {
        phase->begin = phase->end = start;
        return (gwi_moment){.gradient = true, .dense = true, .density = 1};
    }
    if (step > phase->end) {
        phase->begin = step - 1;
        phase->end = step - 1 + gwi_period(spec, step - 1 - start, workers);
    }
    return (gwi_moment){.model = step == phase->end, .density = density_at(spec, step)};
}
