/* SPDX-License-Identifier: Apache-2.0
 *
 * describe.c - what follows from the answers of a spec, for those who want to know it
 * and not its name. */
#include <string.h>

#include "sync/sync.h"

/* ---- what a spec does ---------------------------------------------------- */

static bool selects(const gwi_spec *spec)
{
    return spec->which == GWI_WHICH_TOPK || spec->which == GWI_WHICH_ABOVE;
}

static bool talks(const gwi_spec *spec)
{
    return spec->when == GWI_WHEN_EVERY || spec->when == GWI_WHEN_GROW;
}

static bool sends_models(const gwi_spec *spec)
{
    return spec->what != GWI_WHAT_GRADIENT && spec->when != GWI_WHEN_NEVER;
}

gwi_memories gwi_spec_memories(const gwi_spec *spec)
{
    return (gwi_memories){
        .residual = gwi_exchange_for(spec)->lossy && spec->opt.residual == GWI_ON,
        .velocity = spec->opt.momentum > 0,
        .reference = spec->what == GWI_WHAT_CHANGE,
        .mean = spec->opt.average == GWI_AVERAGE_POLYAK,
    };
}

static unsigned when(bool holds, gw_trait trait)
{
    return holds ? (unsigned)trait : 0;
}

/* What crosses the network. */
static unsigned traits_of_messages(const gwi_spec *spec)
{
    bool gradient = spec->what == GWI_WHAT_GRADIENT;
    bool part = selects(spec) || spec->which == GWI_WHICH_CHUNK;
    bool gathers = spec->combine == GWI_COMBINE_GATHER &&
                   (selects(spec) || spec->opt.via == GWI_VIA_GATHER);

    return when(talks(spec) && (gradient || spec->opt.start > 0),
                GW_TRAIT_SENDS_GRADIENTS) |
           when(spec->what == GWI_WHAT_MODEL || spec->opt.resync > 0,
                GW_TRAIT_SENDS_MODELS) |
           when(spec->what == GWI_WHAT_CHANGE, GW_TRAIT_SENDS_CHANGES) |
           when(part, GW_TRAIT_SPARSE) |
           when(spec->when != GWI_WHEN_NEVER && !selects(spec),
                GW_TRAIT_SAME_COORDINATES) |
           when(spec->how != GWI_HOW_F32, GW_TRAIT_CODED) |
           when(gathers, GW_TRAIT_GATHERS) |
           when(gwi_spec_is_dense(spec), GW_TRAIT_OVERLAPS);
}

/* What becomes of the models. */
static unsigned traits_of_models(const gwi_spec *spec)
{
    bool same = talks(spec) && !gwi_exchange_for(spec)->differs;
    bool repaired = spec->opt.resync > 0;
    bool always = same && !sends_models(spec);
    bool sometimes = (same && spec->which != GWI_WHICH_CHUNK) || repaired;

    return when(always, GW_TRAIT_KEEPS_EQUAL) |
           when(sometimes && !always, GW_TRAIT_MEETS) |
           when(!same && !repaired, GW_TRAIT_DRIFTS) |
           when(sends_models(spec) || repaired, GW_TRAIT_NEEDS_MODEL) |
           when(sends_models(spec), GW_TRAIT_ENDS_AVERAGED) |
           when(spec->opt.average == GWI_AVERAGE_POLYAK, GW_TRAIT_POLYAK);
}

/* Entries of a gradient that wait in a residual are sent as the sum of what they were
 * in many steps, as momentum would have it, unless a momentum of the spec's own knows
 * of it. A residual of rounding errors alone delays nothing. */
static unsigned traits_of_memory(const gwi_spec *spec)
{
    gwi_memories keeps = gwi_spec_memories(spec);
    bool late = keeps.residual && selects(spec) && spec->what == GWI_WHAT_GRADIENT;

    return when(keeps.residual, GW_TRAIT_RESIDUAL) |
           when(late && !keeps.velocity, GW_TRAIT_LIKE_MOMENTUM);
}

static double bytes_per_param(const gwi_spec *spec)
{
    gwi_memories keeps = gwi_spec_memories(spec);

    return 4.0 * (keeps.residual + keeps.velocity + keeps.reference + keeps.mean);
}

/* ---- handing out --------------------------------------------------------- */

/* Copies what is known, `own` bytes that begin with a struct_size, to a caller's
 * struct, which says first how long it is and has never been shorter than `least`. */
static gw_status hand_out(void *to, const void *known, size_t own, size_t least,
                          const char *type)
{
    size_t cap, filled;

    if (to == NULL)
        return gw_fail(GW_ERR_ARG, "there is no %s to fill in", type);
    memcpy(&cap, to, sizeof cap);
    if (cap < least)
        return gw_fail(GW_ERR_ARG, "%s: struct_size is %zu, at least %zu are needed",
                       type, cap, least);
    filled = cap < own ? cap : own;
    memset(to, 0, cap);
    memcpy(to, known, filled);
    memcpy(to, &filled, sizeof filled);
    return GW_OK;
}

/* The structs of version 0.1 ended with these fields. */
#define LEAST(type, last) (offsetof(type, last) + sizeof((type){0}.last))

gw_status gw_spec_describe(const char *text, gw_spec_info *info)
{
    gw_spec_info known = {0};
    gwi_spec spec;

    GWI_TRY(gwi_spec_parse(text, &spec));
    known.traits =
        traits_of_messages(&spec) | traits_of_models(&spec) | traits_of_memory(&spec);
    known.bytes_per_param = bytes_per_param(&spec);
    known.period = spec.when == GWI_WHEN_EVERY  ? spec.opt.every
                   : spec.when == GWI_WHEN_GROW ? 1
                                                : 0;
    known.growth = spec.when == GWI_WHEN_GROW ? spec.opt.grow : 0;
    for (int i = 0; i < spec.count; i++)
        known.stages[i] = spec.stages[i]->name;
    return hand_out(info, &known, sizeof known, LEAST(gw_spec_info, stages),
                    "gw_spec_info");
}

gw_status gw_stage_describe(const char *name, gw_stage_info *info)
{
    const gwi_stage *s;

    if (name == NULL)
        return gw_fail(GW_ERR_ARG, "a stage needs a name, such as \"topk\"");
    GWI_TRY(gwi_stage_find(name, &s));
    gw_stage_info known = {.name = s->name,
                           .summary = s->summary,
                           .example = s->example,
                           .cost = s->cost,
                           .expect = s->expect,
                           .recipe = s->recipe};
    while (s->keys[known.keys] != NULL)
        known.keys++;
    return hand_out(info, &known, sizeof known, LEAST(gw_stage_info, recipe),
                    "gw_stage_info");
}

gw_status gw_key_describe(const char *stage, size_t i, gw_key_info *info)
{
    gw_stage_info of = {.struct_size = sizeof of};
    const gwi_stage *s;

    GWI_TRY(gw_stage_describe(stage, &of));
    if (i >= of.keys)
        return gw_fail(GW_ERR_ARG, "'%s' has %zu keys, there is no number %zu", stage,
                       of.keys, i);
    GWI_TRY(gwi_stage_find(stage, &s));
    const gwi_key *key = s->keys[i];
    gw_key_info known = {.name = key->name,
                         .fallback = key->fallback,
                         .range = key->range != NULL ? key->range : key->words,
                         .meaning = key->meaning};
    return hand_out(info, &known, sizeof known, LEAST(gw_key_info, meaning),
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
