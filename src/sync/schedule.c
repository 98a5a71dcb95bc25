/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule.c - when workers talk: in every step, or at the end of a period. */
#include "sync/schedule.h"

#include "sync/beside/stream.h"
#include "sync/ramp.h"

static gwi_moment gradient_moment(const gwi_spec *spec, uint64_t step)
{
    bool warm = gwi_ramp_is_dense(spec, step);

    return (gwi_moment){.gradient = true,
                        .dense = warm,
                        .density = warm ? 1 : gwi_ramp_density(spec, step)};
}

/* A turn of a stream: its fragment is exchanged with the last step. */
static gwi_moment stream_moment(const gwi_spec *spec, uint64_t step, gwi_phase *phase)
{
    uint64_t start = gwi_schedule_start(spec);
    gwi_turn turn = gwi_turn_at(spec, step - start);
    bool warm = gwi_ramp_is_dense(spec, step);

    *phase = (gwi_phase){start + turn.begin, start + turn.end};
    return (gwi_moment){.model = step == phase->end,
                        .begins = gwi_turn_begins(spec, &turn, step - start),
                        .dense = warm,
                        .density = warm ? 1 : gwi_ramp_density(spec, step)};
}

uint64_t gwi_schedule_start(const gwi_spec *spec)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);

    return schedule->start != NULL ? schedule->start(spec) : 0;
}

gwi_moment gwi_schedule_at(const gwi_spec *spec, uint64_t step, int workers,
                           gwi_phase *phase)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);
    uint64_t start = gwi_schedule_start(spec);

    if (!schedule->talks)
        return (gwi_moment){.density = 0};
    if (spec->subject == GWI_GRADIENT)
        return gradient_moment(spec, step);
    if (step <= start) {
        phase->begin = phase->end = start;
        return (gwi_moment){.gradient = true, .dense = true, .density = 1};
    }
    if (gwi_streams(spec))
        return stream_moment(spec, step, phase);
    if (step > phase->end) {
        phase->begin = step - 1;
        phase->end = step - 1 + schedule->period(spec, step - 1 - start, workers);
    }
    bool warm = gwi_ramp_is_dense(spec, step);
    return (gwi_moment){.model = step == phase->end,
                        .dense = warm,
                        .density = warm ? 1 : gwi_ramp_density(spec, step)};
}
