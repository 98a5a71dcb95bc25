/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_random.c - random-k: coordinates chosen at random, the same on all workers,
 * so that no positions travel and values are added up on their way.
 *
 *     k = max(1, floor(density n));  cell i = [i n / k, (i + 1) n / k), rounded down
 *     coordinate i = one of cell i, by random bits of (seed, step, i)
 *
 * Every coordinate is chosen as often as any other, k entries are chosen in every step,
 * and they ascend by construction. With order=turns, random bits of (seed, i) alone
 * choose where a cell begins, and it goes on by one coordinate in each step. So every
 * coordinate is chosen once in ceil(n / k) steps.
 *
 * Of gradients this is the stage randk, of models sparta (Baioumy & Cheema 2025). */
#include "kernels/random.h"
#include "sync/ramp.h"
#include "sync/selection.h"
#include "sync/small.h"

typedef struct options {
    double density; /* part of the coordinates that is sent */
    uint64_t seed;  /* of the choice; added to the sync's own */
    int order;      /* of the coordinates of a cell */
} options;

enum { ORDER_RANDOM, ORDER_TURNS };

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_SELECTOR);
}

static const gwi_key keys[] = {
    {.name = "density",
     .meaning = "part of the coordinates that is sent",
     .range = "above 0, at most 1 (1: all)",
     .least = 1e-9,
     .most = 1,
     .at = offsetof(options, density),
     .value = GWI_NUMBER},
    {.name = "seed",
     .meaning = "of the choice; it is added to the seed of the sync",
     .fallback = "0",
     .range = "a count",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, seed),
     .value = GWI_COUNT},
    {.name = "order",
     .meaning = "random in each step, or in turns: each once in 1/density steps",
     .fallback = "random",
     .words = "random|turns",
     .at = offsetof(options, order),
     .value = GWI_WORD},
    {.name = NULL},
};

static double random_density(const gwi_spec *spec)
{
    return options_of(spec)->density;
}

static bool random_off(const gwi_spec *spec)
{
    return random_density(spec) == 1;
}

static size_t random_most(const gwi_spec *spec, size_t n)
{
    return gwi_entries(gwi_ramp_most(spec), n);
}

typedef struct choice {
    uint32_t *index;
} choice;

static gw_status random_init(gw_sync *s)
{
    choice *x = gwi_state(s, GWI_SELECTOR);
    size_t most = random_most(&s->spec, s->layout->floats);

    x->index = gwi_calloc(most, sizeof *x->index);
    return x->index != NULL
               ? GW_OK
               : gw_fail(GW_ERR_NOMEM, "not enough memory to choose %zu coordinates",
                         most);
}

static void random_fini(gw_sync *s)
{
    choice *x = gwi_state(s, GWI_SELECTOR);

    gwi_free(x->index);
}

/* No step has the number 0. */
static uint64_t key_of(const gw_sync *s)
{
    const options *opt = options_of(&s->spec);

    return opt->order == ORDER_TURNS
               ? gwi_random_key(s->seed + opt->seed, 0, UINT64_MAX)
               : gwi_common_key(s, opt->seed);
}

static void random_agree(gw_sync *s, gwi_common *out)
{
    choice *x = gwi_state(s, GWI_SELECTOR);
    uint64_t n = gwi_rest(s), k = n > 0 ? gwi_wanted(s) : 0, begin = 0;
    uint64_t key = key_of(s);
    uint64_t turn = options_of(&s->spec)->order == ORDER_TURNS ? s->step : 0;

    for (uint64_t i = 0; i < k; i++) {
        uint64_t end = (i + 1) * n / k, len = end - begin;
        uint64_t inside = (gwi_random64(key, i) >> 32) * len >> 32;
        x->index[i] = (uint32_t)(begin + (inside + turn) % len);
        begin = end;
    }
    *out = (gwi_common){.index = x->index, .count = k};
}

/* Of models: whole ones are averaged by resync, not by a schedule. */
static gw_status models_check(const gwi_spec *spec, const gwi_stage *stage)
{
    for (int i = 0; i < spec->count; i++) {
        const gwi_stage *other = spec->stages[i];
        if (other->role == GWI_ROLE_WHEN)
            return gw_fail(
                GW_ERR_SPEC,
                "'%s' cannot come before '%s'; '%s,resync=30' averages whole "
                "models, too, and '+outer' may follow it",
                other->name, stage->name, stage->example);
        if (other->role == GWI_ROLE_MOMENTUM)
            return gw_fail(GW_ERR_SPEC,
                           "'%s' cannot follow '%s', which averages models",
                           other->name, stage->name);
    }
    return GW_OK;
}

const gwi_selector gwi_selector_random = {
    .part = {.name = "random",
             .keys = keys,
             .off = random_off,
             .state_size = sizeof(choice),
             .init = random_init,
             .fini = random_fini},
    .density = random_density,
    .most = random_most,
    .agree = random_agree,
};

static const gwi_selector selector_of_models = {
    .part = {.name = "random of models",
             .keys = keys,
             .check = models_check,
             .off = random_off,
             .state_size = sizeof(choice),
             .init = random_init,
             .fini = random_fini},
    .density = random_density,
    .most = random_most,
    .agree = random_agree,
    .of_models = true,
};

const gwi_stage gwi_stage_randk = {
    .name = "randk",
    .summary = "random entries, the same on all workers; the rest stays behind",
    .example = "randk:0.1",
    .cost = "8 density n (P-1)/P bytes, by all-reduce, and no positions",
    .expect = "needs several times the density of topk for the same accuracy",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_random.part,
              [GWI_EXCHANGE] = &gwi_exchange_common.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density residual warmup ladder dense_below seed delay lead",
};

const gwi_stage gwi_stage_sparta = {
    .name = "sparta",
    .summary = "a random share of the models averaged per step (SPARTA)",
    .example = "sparta:0.05",
    .cost = "8 density n (P-1)/P bytes, by all-reduce, and no positions",
    .expect = "models differ by what about 1/density steps change",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_local.part,
              [GWI_SELECTOR] = &selector_of_models.part,
              [GWI_EXCHANGE] = &gwi_exchange_common.part},
    .keys = "density order seed resync",
};
