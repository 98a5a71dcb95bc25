/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_ef21.c - EF21 (Richtarik et al. 2021) and EF21-SGDM (Fatkhullin et al. 2023):
 * what is compressed is the change of the gradient, and the result is an estimate of
 * the average gradient, which has all its entries in every step.
 *
 *     v_i = (1 - eta) v_i + eta (gradient of worker i)
 *     c_i = what is sent of v_i - g_i
 *     g_i = g_i + c_i
 *     g = g + mean of c_i
 *
 * g, the mean of all g_i, is what the optimizer applies. With eta = 1, v_i is the
 * gradient itself.
 *
 * g_i itself is not stored. The residual of a worker, which exchanges keep right, is
 * v_i - g_i. So the change of v_i goes into the exchange, which adds it to the residual
 * and takes c_i out of it. The invariant, g = mean of (v_i - residual), then follows
 * from conservation, whatever selects, codes and merges.
 *
 * A dense step sends v_i whole: g becomes the mean, and residuals become 0. A step that
 * is skipped on all workers begins anew from v_i = g_i = g. */
#include <string.h>

#include "kernels/vector.h"
#include "sync/sync.h"

/* It begins with the options of the residual, which this part refines. */
typedef struct options {
    int residual;
    double decay;
    double eta;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_MEMORY);
}

static const gwi_key keys[] = {
    {.name = "eta",
     .meaning = "weight of the newest gradient (EF21-SGDM); 1: there is no momentum",
     .fallback = "1",
     .range = "above 0, at most 1",
     .least = 1e-6,
     .most = 1,
     .at = offsetof(options, eta),
     .value = GWI_NUMBER},
    {.name = NULL},
};

static const options defaults = {.residual = GWI_ON, .decay = 1, .eta = 1};

static bool ef21_keeps(const gwi_spec *spec)
{
    (void)spec;
    return true;
}

static bool ef21_off(const gwi_spec *spec)
{
    return !gwi_loses(spec);
}

/* Whether the options of selection and coding leave nothing to estimate. */
static bool sends_all(const gwi_spec *spec)
{
    const gwi_part *selector = spec->part[GWI_SELECTOR];
    const gwi_part *coder = spec->part[GWI_CODER];
    bool chooses = selector->off != NULL && !selector->off(spec);
    bool codes =
        coder != &gwi_coder_f32.part && (coder->off == NULL || !coder->off(spec));

    return !chooses && !codes && !gwi_exchange_codes(spec);
}

static gw_status ef21_check(const gwi_spec *spec, const gwi_stage *stage)
{
    const gwi_stage *shows = gwi_stage_showing(spec, "residual");
    const gwi_exchange *exchange = gwi_exchange_of(spec);
    bool by_entry =
        exchange != NULL && exchange->by_entry != NULL && exchange->by_entry(spec);

    if (options_of(spec)->residual != GWI_ON)
        return gw_fail(GW_ERR_SPEC, "'%s' requires residual=on of '%s'", stage->name,
                       shows->name);
    if (options_of(spec)->decay != 1 || by_entry)
        return gw_fail(GW_ERR_SPEC, "'%s' requires decay=1 and combine=all of '%s'",
                       stage->name, shows->name);
    if (options_of(spec)->eta < 1 && sends_all(spec))
        return gw_fail(GW_ERR_SPEC,
                       "eta of '%s' has no effect if everything is sent; remove it and "
                       "set the optimizer's momentum instead",
                       stage->name);
    return GW_OK;
}

/* ---- what is done in a step --------------------------------------------------- */

/* v becomes the change of `last`, which moves towards v. */
static void take_change(float *v, float *last, float eta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float change = eta * (v[i] - last[i]);
        last[i] = eta == 1 ? v[i] : last[i] + change;
        v[i] = change;
    }
}

static void ef21_enter(gw_sync *s, float *v)
{
    size_t n = s->layout->floats;

    take_change(v, s->kept[GWI_LAST], (float)options_of(&s->spec)->eta, n);
    if (s->now.dense) {
        gwi_add(s->kept[GWI_RESIDUAL], v, n);
        memcpy(v, s->kept[GWI_LAST], n * sizeof *v);
    }
}

static void ef21_leave(gw_sync *s, float *v)
{
    size_t n = s->layout->floats;
    float *g = s->kept[GWI_ESTIMATE];

    if (s->now.dense) {
        memset(s->kept[GWI_RESIDUAL], 0, n * sizeof *v);
        memcpy(g, v, n * sizeof *g);
        return;
    }
    gwi_add(g, v, n);
    memcpy(v, g, n * sizeof *v);
}

static void ef21_skip(gw_sync *s)
{
    size_t n = s->layout->floats;

    memcpy(s->kept[GWI_LAST], s->kept[GWI_ESTIMATE], n * sizeof(float));
    memset(s->kept[GWI_RESIDUAL], 0, n * sizeof(float));
}

static void ef21_keep(gw_sync *s, const gwi_list *list)
{
    gwi_memory_residual.keep(s, list);
}

/* If all workers have the averages of what the old ones had, g is the mean of the new
 * g_i, too. */
static const gwi_remembered memories[] = {
    {.name = "residual",
     .what = "residual",
     .tag = GWI_RESIDUAL,
     .handing = GW_HANDING_AVERAGED},
    {.name = "last",
     .what = "last gradient",
     .tag = GWI_LAST,
     .handing = GW_HANDING_AVERAGED},
    {.name = "estimate",
     .what = "estimate of the gradient",
     .tag = GWI_ESTIMATE,
     .handing = GW_HANDING_COMMON},
    {.name = NULL},
};

const gwi_memory gwi_memory_ef21 = {
    .part = {.name = "ef21",
             .keys = keys,
             .defaults = &defaults,
             .options_size = sizeof(options),
             .refines = &gwi_memory_residual.part,
             .check = ef21_check,
             .off = ef21_off,
             .memories = memories},
    .keeps = ef21_keeps,
    .keep = ef21_keep,
    .enter = ef21_enter,
    .leave = ef21_leave,
    .skip = ef21_skip,
};

const gwi_stage gwi_stage_ef21 = {
    .name = "ef21",
    .summary = "sends what changes in gradients; the result is an estimate of all",
    .example = "ef21",
    .cost = "nothing",
    .expect = "results have all entries, for any optimizer; see what a leaver costs",
    .role = GWI_ROLE_MOMENTUM,
    .parts = {[GWI_MEMORY] = &gwi_memory_ef21.part},
    .keys = "eta",
};
