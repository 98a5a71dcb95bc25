/* SPDX-License-Identifier: Apache-2.0
 *
 * describe.c - what follows from the answers of a spec, for those who want to know it
 * and not its name. */
#include <string.h>

#include "sync/state/memories.h"
#include "sync/state/past_models.h"
#include "sync/beside/late.h"
#include "sync/beside/stream.h"
#include "sync/momentum.h"
#include "sync/schedule.h"

/* ---- what a spec does ---------------------------------------------------- */

static unsigned when(bool holds, gw_trait trait)
{
    return holds ? (unsigned)trait : 0;
}

/* What crosses the network. */
static unsigned traits_of_messages(const gwi_spec *spec)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);
    const gwi_exchange *exchange = gwi_exchange_of(spec);
    bool gradient = spec->subject == GWI_GRADIENT;
    bool coded = spec->part[GWI_CODER] != &gwi_coder_f32.part || exchange->codes;

    return when(schedule->talks && (gradient || gwi_schedule_start(spec) > 0),
                GW_TRAIT_SENDS_GRADIENTS) |
           when(spec->subject == GWI_MODEL || gwi_resync(spec) > 0,
                GW_TRAIT_SENDS_MODELS) |
           when(spec->subject == GWI_CHANGE, GW_TRAIT_SENDS_CHANGES) |
           when(gwi_leaves_out(spec), GW_TRAIT_SPARSE) |
           when(!schedule->never && !gwi_sends_lists(spec), GW_TRAIT_SAME_COORDINATES) |
           when(coded, GW_TRAIT_CODED) |
           when(exchange->gathers != NULL && exchange->gathers(spec),
                GW_TRAIT_GATHERS) |
           when(gwi_spec_is_dense(spec) && !gwi_is_late(spec), GW_TRAIT_OVERLAPS) |
           when(gwi_is_late(spec) || gwi_streams_late(spec), GW_TRAIT_LATE);
}

/* What becomes of the models. */
static unsigned traits_of_models(const gwi_spec *spec)
{
    bool same = gwi_schedule_of(spec)->talks && !gwi_exchange_of(spec)->differs;
    bool repaired = gwi_resync(spec) > 0;
    bool of_models = spec->subject != GWI_GRADIENT;
    bool always = same && !of_models;
    bool whole = !gwi_selector_of(spec)->of_models &&
                 (gwi_stream_meets(spec) || gwi_schedule_start(spec) > 0);
    bool sometimes = (same && whole) || repaired;

    return when(always, GW_TRAIT_KEEPS_EQUAL) |
           when(sometimes && !always, GW_TRAIT_MEETS) |
           when(!same && !repaired, GW_TRAIT_DRIFTS) |
           when(of_models || repaired, GW_TRAIT_NEEDS_MODEL) |
           when(of_models, GW_TRAIT_ENDS_AVERAGED) |
           when(gwi_sees_models(spec), GW_TRAIT_POLYAK) |
           when(gwi_steps_outside(spec), GW_TRAIT_OUTER_STEP);
}

/* Entries of a gradient that wait in a residual are sent as the sum of what they were
 * in many steps, as momentum would have it, unless a momentum of the spec's own knows
 * of it. A residual of rounding errors alone delays nothing. */
static unsigned traits_of_memory(const gwi_spec *spec)
{
    bool keeps = gwi_keeps_residual(spec);
    bool late = keeps && !gwi_estimates(spec) && gwi_leaves_out(spec) &&
                spec->subject == GWI_GRADIENT;

    return when(keeps, GW_TRAIT_RESIDUAL) |
           when(late && !gwi_has_momentum(spec), GW_TRAIT_LIKE_MOMENTUM);
}

/* Memories whose size depends on more than the number of parameters do not count. */
static double bytes_per_param(const gwi_spec *spec)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;
    double bytes = 0;

    while ((m = gwi_next_memory(spec, &walk)) != NULL)
        bytes += m->floats == NULL ? 4 : 0;
    return bytes;
}

static uint64_t period_of(const gwi_spec *spec)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);

    if (!schedule->talks)
        return 0;
    return schedule->period != NULL ? schedule->period(spec, 0, 1) : 1;
}

/* ---- handing out --------------------------------------------------------- */

/* The structs of version 0.1 ended with these fields. */
#define LEAST(type, last) (offsetof(type, last) + sizeof((type){0}.last))

static const gwi_remembered *memory_at(const gwi_spec *spec, size_t i)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m = gwi_next_memory(spec, &walk);

    for (; m != NULL && i > 0; i--)
        m = gwi_next_memory(spec, &walk);
    return m;
}

gw_status gw_spec_describe(const char *text, gw_spec_info *info)
{
    gw_spec_info known = {0};
    gwi_spec spec;

    GWI_TRY(gwi_spec_parse(text, &spec));
    known.traits =
        traits_of_messages(&spec) | traits_of_models(&spec) | traits_of_memory(&spec);
    known.bytes_per_param = bytes_per_param(&spec);
    known.period = period_of(&spec);
    known.resync = gwi_resync(&spec);
    known.fragments = gwi_fragments(&spec);
    known.delay = gwi_is_late(&spec) ? 1 : gwi_stream_delay(&spec);
    if (gwi_schedule_of(&spec)->growth != NULL)
        known.growth = gwi_schedule_of(&spec)->growth(&spec);
    while (memory_at(&spec, known.memories) != NULL)
        known.memories++;
    for (int i = 0; i < spec.count; i++)
        known.stages[i] = spec.stages[i]->name;
    return gwi_hand_out(info, &known, sizeof known, LEAST(gw_spec_info, stages),
                        "gw_spec_info");
}

gw_status gw_memory_describe(const char *text, size_t i, gw_memory_info *info)
{
    const gwi_remembered *m;
    gwi_spec spec;

    GWI_TRY(gwi_spec_parse(text, &spec));
    m = memory_at(&spec, i);
    if (m == NULL)
        return gw_fail(GW_ERR_ARG, "'%s' has no memory number %zu", text, i);
    gw_memory_info known = {.name = m->name, .bit = m->tag, .handing = m->handing};
    if (m->by_layout)
        known.floats = GW_FLOATS_BY_LAYOUT;
    else if (m->floats != NULL)
        known.floats = m->floats(&spec, NULL);
    return gwi_hand_out(info, &known, sizeof known, LEAST(gw_memory_info, floats),
                        "gw_memory_info");
}

gw_status gw_stage_describe(const char *name, gw_stage_info *info)
{
    gwi_shown_key shown;
    const gwi_stage *s;

    if (name == NULL)
        return gw_fail(GW_ERR_ARG,
                       "the name of the stage is missing; give one such as \"topk\"");
    GWI_TRY(gwi_stage_find(name, &s));
    gw_stage_info known = {.name = s->name,
                           .summary = s->summary,
                           .example = s->example,
                           .cost = s->cost,
                           .expect = s->expect,
                           .recipe = s->recipe};
    while (gwi_stage_key(s, known.keys, &shown))
        known.keys++;
    return gwi_hand_out(info, &known, sizeof known, LEAST(gw_stage_info, recipe),
                        "gw_stage_info");
}

gw_status gw_key_describe(const char *stage, size_t i, gw_key_info *info)
{
    gw_stage_info of = {.struct_size = sizeof of};
    gwi_shown_key shown;
    const gwi_stage *s;

    GWI_TRY(gw_stage_describe(stage, &of));
    if (i >= of.keys)
        return gw_fail(GW_ERR_ARG, "'%s' has %zu keys; there is no key %zu", stage,
                       of.keys, i);
    GWI_TRY(gwi_stage_find(stage, &s));
    gwi_stage_key(s, i, &shown);
    const gwi_key *key = shown.key;
    gw_key_info known = {.name = key->name,
                         .fallback = shown.fallback,
                         .range = key->range != NULL ? key->range : key->words,
                         .meaning = key->meaning};
    return gwi_hand_out(info, &known, sizeof known, LEAST(gw_key_info, meaning),
                        "gw_key_info");
}

const char *gw_trait_text(gw_trait trait)
{
#define GW_TEXT_(name, bit, text) \
    if (trait == (name))          \
        return (text);
    GW_TRAIT_MAP(GW_TEXT_)
#undef GW_TEXT_
    return "unknown trait";
}
