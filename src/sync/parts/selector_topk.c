/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_topk.c - the k entries of the largest magnitude; of those that tie, the ones
 * with the lowest indices. */
#include "kernels/pool.h"
#include "kernels/select.h"
#include "sync/ramp.h"
#include "sync/selection.h"

typedef struct options {
    double density; /* part of the coordinates that is sent */
} options;

static double topk_density(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_SELECTOR))->density;
}

static const gwi_key keys[] = {
    {.name = "density",
     .meaning = "part of the coordinates that is sent",
     .range = "above 0, at most 1 (1: all)",
     .least = 1e-9,
     .most = 1,
     .at = offsetof(options, density),
     .value = GWI_NUMBER},
    {.name = NULL},
};

static bool topk_off(const gwi_spec *spec)
{
    return topk_density(spec) == 1;
}

static size_t topk_most(const gwi_spec *spec, size_t n)
{
    return gwi_entries(gwi_ramp_most(spec), n);
}

typedef struct topk {
    gwi_topk_guess guess;
    gwi_topk_work work;
    void *memory;
} topk;

static gw_status topk_init(gw_sync *s)
{
    topk *x = gwi_state(s, GWI_SELECTOR);
    size_t n = s->layout->floats, most = topk_most(&s->spec, n);
    size_t work = (gwi_topk_work_bytes(n, most, gwi_threads()) + 63) & ~(size_t)63;

    x->memory = gwi_calloc(1, work + most * 8);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to select %zu of %zu", most, n);
    gwi_topk_work_init(&x->work, x->memory, n, most, gwi_threads());
    s->list = gwi_list_in((uint8_t *)x->memory + work, most);
    return GW_OK;
}

static void topk_fini(gw_sync *s)
{
    topk *x = gwi_state(s, GWI_SELECTOR);

    gwi_free(x->memory);
}

static void topk_run(gw_sync *s, float *r, const float *g)
{
    topk *x = gwi_state(s, GWI_SELECTOR);

    s->list.n = gwi_select_topk(&x->guess, &x->work, r, g, s->layout->floats,
                                gwi_wanted(s), s->list.index, s->list.value);
}

const gwi_selector gwi_selector_topk = {
    .part = {.name = "topk",
             .keys = keys,
             .off = topk_off,
             .state_size = sizeof(topk),
             .init = topk_init,
             .fini = topk_fini},
    .density = topk_density,
    .most = topk_most,
    .run = topk_run,
    .shows_bad = true,
};

const gwi_stage gwi_stage_topk = {
    .name = "topk",
    .summary = "the largest entries of each gradient, gathered; the rest stays behind",
    .example = "topk:0.001",
    .cost = "at most density n entries, to each of the P-1 others",
    .expect =
        "bytes grow with the number of workers; with many of them gtopk sends less",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density residual warmup ladder dense_below",
};
