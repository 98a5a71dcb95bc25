/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_residual.c - what is not sent waits in a residual and is added to the next
 * vector; with the momentum correction (Lin et al. 2018), what waits is a velocity.
 *
 *     u = m u + g            the gradient, clipped, moves the velocity
 *     residual += u          so that momentum acts on entries that are sent late as if
 *                            they had been sent in time
 *     u = 0 where sent       stale momentum must not go on pushing */
#include "sync/sync.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"

typedef struct options {
    double momentum, clip; /* of the momentum correction; 0: off */
    int residual, mask;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_MEMORY);
}

static const gwi_key keys[] = {
    {.name = "residual",
     .meaning = "whether what was not sent, or not exactly, is kept for later",
     .fallback = "on",
     .words = "off|on",
     .at = offsetof(options, residual),
     .value = GWI_WORD},
    {.name = "momentum",
     .meaning = "momentum before the selection; the optimizer should have none",
     .range = "from 0 to below 1",
     .least = 0,
     .most = 1 - 1e-9,
     .at = offsetof(options, momentum),
     .value = GWI_NUMBER},
    {.name = "clip",
     .meaning = "clips the gradient; each worker clips its own at clip / sqrt(P)",
     .fallback = "0",
     .range = "the largest norm of a gradient, 0 for any",
     .least = 0,
     .most = 1e30,
     .at = offsetof(options, clip),
     .value = GWI_NUMBER},
    {.name = "mask",
     .meaning = "whether entries that are sent lose their velocity",
     .fallback = "on",
     .words = "off|on",
     .at = offsetof(options, mask),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool is_on(const gwi_spec *spec)
{
    return options_of(spec)->residual == GWI_ON;
}

static bool has_momentum(const gwi_spec *spec)
{
    return options_of(spec)->momentum > 0;
}

static bool residual_off(const gwi_spec *spec)
{
    return !is_on(spec) || !gwi_loses(spec);
}

/* Keys of the momentum correction are those of its own stage. */
static gw_status residual_check(const gwi_spec *spec, const gwi_stage *stage)
{
    if (stage->role != GWI_ROLE_MOMENTUM)
        return GW_OK;
    if (!gwi_sends_lists(spec) || gwi_schedule_of(spec)->subject != GWI_GRADIENT ||
        !is_on(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' fits behind topk, gtopk or drop of gradients, residual=on",
                       stage->name);
    if (!gwi_chooses(spec) && has_momentum(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' has no effect where everything is sent; leave it out and "
                       "give the optimizer its momentum",
                       stage->name);
    return GW_OK;
}

/* ---- what is done in a step --------------------------------------------------- */

/* A worker clips its own gradient, of which the average has 1 / sqrt(P) the noise. */
static void clip_gradient(const gw_sync *s, float *g)
{
    double most = options_of(&s->spec)->clip / sqrt((double)s->comm->workers);
    size_t n = s->layout->floats;

    if (most > 0) {
        double norm = sqrt(gwi_sumsq(g, n));
        if (norm > most)
            gwi_scale(g, (float)(most / norm), n);
    }
}

static void move_velocity(gw_sync *s, const float *g)
{
    float *u = s->kept[GWI_VELOCITY];

    gwi_scale(u, (float)options_of(&s->spec)->momentum, s->layout->floats);
    gwi_add(u, g, s->layout->floats);
}

static const float *residual_enter(gw_sync *s, float *g)
{
    if (s->kept[GWI_VELOCITY] == NULL)
        return g;
    clip_gradient(s, g);
    move_velocity(s, g);
    return s->kept[GWI_VELOCITY];
}

static void residual_sent(gw_sync *s, const gwi_list *list)
{
    float *u = s->kept[GWI_VELOCITY];

    if (u == NULL || options_of(&s->spec)->mask == GWI_OFF)
        return;
    for (size_t i = 0; i < list->n; i++)
        u[list->index[i]] = 0;
}

/* In steps in which all is sent: ordinary momentum, on the average. */
static void residual_sent_all(gw_sync *s, float *v)
{
    if (s->kept[GWI_VELOCITY] == NULL)
        return;
    move_velocity(s, v);
    memcpy(v, s->kept[GWI_VELOCITY], s->layout->floats * sizeof *v);
}

static void residual_keep(gw_sync *s, const gwi_list *list)
{
    gwi_vector()->scatter_add(s->kept[GWI_RESIDUAL], list->index, list->value, list->n);
}

static const gwi_remembered memories[] = {
    {.name = "residual",
     .what = "residual",
     .tag = GWI_RESIDUAL,
     .handing = GW_HANDING_ADDED},
    {.name = "velocity",
     .what = "velocity",
     .tag = GWI_VELOCITY,
     .handing = GW_HANDING_ADDED,
     .wanted = has_momentum},
    {.name = NULL},
};

const gwi_memory gwi_memory_residual = {
    .part = {.name = "residual",
             .keys = keys,
             .check = residual_check,
             .off = residual_off,
             .memories = memories},
    .keeps = is_on,
    .enter = residual_enter,
    .changes = has_momentum,
    .sent = residual_sent,
    .sent_all = residual_sent_all,
    .keep = residual_keep,
};

const gwi_stage gwi_stage_momentum = {
    .name = "momentum",
    .summary = "momentum before the selection, corrected and masked (Lin et al. 2018)",
    .example = "momentum:0.9",
    .cost = "nothing",
    .expect = "fits behind topk, gtopk and drop of gradients with residual=on",
    .role = GWI_ROLE_MOMENTUM,
    .parts = {[GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "momentum clip mask",
};
