/* SPDX-License-Identifier: Apache-2.0
 *
 * agreement.c - comparing the models of the workers. */
#include "sync/state/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collective/check.h"

/* A worker's word is the check of its model. */
enum { WORD_LEN = 4 };

typedef struct options {
    uint64_t every; /* steps between comparisons, 0: never */
} options;

static const gwi_key keys[] = {
    {.name = "every",
     .meaning = "steps between comparisons of the models",
     .range = "a count of steps, 0 for never",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, every),
     .value = GWI_COUNT},
    {.name = NULL},
};

/* Whether all workers have the same model at some time, be it the end. */
static bool ever_equal(const gwi_spec *spec)
{
    const gwi_exchange *exchange = gwi_exchange_of(spec);
    bool differs = exchange != NULL && exchange->differs;

    return !gwi_schedule_of(spec)->never && (!differs || gwi_resync(spec) > 0);
}

static gw_status agreement_check(const gwi_spec *spec, const gwi_stage *stage)
{
    if (ever_equal(spec))
        return GW_OK;
    return gw_fail(
        GW_ERR_SPEC,
        "'%s' cannot be used with '%s', where the workers' models are never equal",
        stage->name, spec->stages[0]->name);
}

/* A comparison costs one pass over the model and two short messages to each other
 * worker: 0.3 ms where a step takes 1.7 ms (docs/methods.md), so 0.02 % of 1000
 * steps. */
static const options defaults = {.every = 1000};

const gwi_part gwi_agreement = {
    .name = "agreement",
    .keys = keys,
    .defaults = &defaults,
    .options_size = sizeof defaults,
    .check = agreement_check,
};

const gwi_stage gwi_stage_check = {
    .name = "check",
    .summary = "how often workers compare their models, 1000 steps if not given",
    .example = "check:1000",
    .cost = "4 bytes to each other worker for each comparison, and their check",
    .expect = "fits behind all methods whose models ever meet; costs next to nothing",
    .role = GWI_ROLE_CHECK,
    .parts = {[GWI_CHECK] = &gwi_agreement},
    .keys = "every",
};

static uint64_t every_of(const gw_sync *s)
{
    return ((const options *)gwi_options_of(&s->spec, GWI_CHECK))->every;
}

/* Whether the models are equal after this step, if all is well. */
static bool equal_now(const gw_sync *s)
{
    if (s->step > 0 && gwi_repairs(s))
        return true;
    if (s->now.gradient)
        return !gwi_exchange_of(&s->spec)->differs;
    return s->now.model && !gwi_selector_of(&s->spec)->of_models;
}

static bool compares(const gw_sync *s)
{
    return s->comm->workers > 1 && every_of(s) > 0;
}

/* The last step before this one that left the models equal. */
static uint64_t equal_before(const gw_sync *s)
{
    if (s->step > 0 && gwi_repairs(s))
        return s->step - gwi_resync(&s->spec);
    return s->now.model ? s->phase.begin : s->step - 1;
}

bool gwi_agreement_due(const gw_sync *s)
{
    uint64_t every = every_of(s);

    return compares(s) && equal_now(s) && s->step / every > equal_before(s) / every;
}

bool gwi_agreement_ends(const gw_sync *s, bool averaged)
{
    return compares(s) && (averaged || equal_now(s));
}

gw_status gwi_agreement_init(gw_sync *s)
{
    size_t p = (size_t)s->comm->workers;

    if (!compares(s))
        return GW_OK;
    s->words = gwi_calloc(p, WORD_LEN + sizeof(size_t));
    if (s->words == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to compare %zu workers", p);
    /* What gw_allgather() will ask for. */
    return gwi_comm_scratch(s->comm, 2 * p * GWI_CHECK_LEN) != NULL ? GW_OK
                                                                    : GW_ERR_NOMEM;
}

/* The word that most workers have; of several, that of the lowest rank. */
static uint32_t most_common(const uint8_t *words, size_t p)
{
    size_t best = 0, votes = 0;

    for (size_t i = 0; i < p; i++) {
        size_t same = 0;
        for (size_t j = 0; j < p; j++)
            same += gwi_read_u32le(words + 4 * i) == gwi_read_u32le(words + 4 * j);
        if (same > votes) {
            votes = same;
            best = i;
        }
    }
    return gwi_read_u32le(words + 4 * best);
}

/* Lists the workers that have another word: " 2 3". */
static void list_others(const uint8_t *words, size_t p, char *text, size_t cap)
{
    uint32_t most = most_common(words, p);
    size_t len = 0;

    for (size_t r = 0; r < p && len < cap; r++)
        if (gwi_read_u32le(words + 4 * r) != most)
            len += (size_t)snprintf(text + len, cap - len, " %zu", r);
}

static gw_status fail_differ(gw_sync *s, const uint8_t *words)
{
    char others[200] = "";

    list_others(words, (size_t)s->comm->workers, others, sizeof others);
    gw_fail(GW_ERR_DIFFER,
            "the workers' models differ after step %" PRIu64
            ", but '%s' should keep them "
            "equal; workers with another model:%s",
            s->step, s->text, others);
    return gwi_comm_break(s->comm, GW_ERR_DIFFER);
}

static gw_status fail_short(gw_sync *s, int from, size_t len)
{
    gw_fail(GW_ERR_DATA, "worker %d sent %zu bytes, expected %d", from, len, WORD_LEN);
    return gwi_comm_break(s->comm, GW_ERR_DATA);
}

/* Every worker hears from every other itself: what two of them have must not depend on
 * what a third one says. */
gw_status gwi_agreement_check(gw_sync *s, const float *params)
{
    int p = s->comm->workers;
    size_t *lens = s->words;
    uint8_t *words = (uint8_t *)(lens + p), own[WORD_LEN];

    gwi_write_u32le(own, gwi_crc32c(0, params, s->layout->floats * sizeof *params));
    GWI_TRY(gw_allgather(s->comm, own, WORD_LEN, words, WORD_LEN, lens));
    for (int r = 0; r < p; r++)
        if (lens[r] != WORD_LEN)
            return fail_short(s, r, lens[r]);
    for (int r = 0; r < p; r++)
        if (memcmp(words + WORD_LEN * r, own, WORD_LEN) != 0)
            return fail_differ(s, words);
    return GW_OK;
}
