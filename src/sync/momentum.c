/* SPDX-License-Identifier: Apache-2.0
 *
 * momentum.c - momentum before the selection, in two forms.
 *
 * global   One velocity u for all workers, which is what was applied last:
 *
 *              residual += (1 - dampening) g + m u        on every worker
 *              u = the average of what is sent;  the optimizer applies u, with
 *              nesterov u + m (u - the u before)
 *
 *          If everything is sent, this is the momentum of PyTorch's SGD. What waits in
 * a residual would be applied with the learning rate of the step in which it is sent;
 * gw_sync_set_rate() rescales it so that it keeps its weight.
 *
 * local    Lin et al. (Deep Gradient Compression, 2018): each worker has its own
 *          velocity, which becomes 0 at chosen entries (mask), so that stale momentum
 *          has no further effect:
 *
 *              u = m u + g;  residual += u;  u = 0 where chosen
 *
 * Behind `update`, g is the change of the model that the worker's optimizer has made,
 * the velocity is global, and what is applied is added to the model. */
#include "sync/momentum.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/beside/late.h"
#include "sync/guard.h"
#include "sync/schedule.h"

enum { VELOCITY_GLOBAL, VELOCITY_LOCAL };

typedef struct options {
    double momentum, clip, dampening; /* 0: off */
    int mask, velocity, nesterov;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_MOMENTUM);
}

static const gwi_key keys[] = {
    {.name = "momentum",
     .meaning = "momentum before the selection; the optimizer should have none",
     .range = "from 0 to below 1",
     .least = 0,
     .most = 1 - 1e-9,
     .at = offsetof(options, momentum),
     .value = GWI_NUMBER},
    {.name = "clip",
     .meaning = "clips the gradient; each worker clips its own at clip sqrt(P)",
     .fallback = "0",
     .range = "the largest norm of a gradient, 0 for any",
     .least = 0,
     .most = 1e30,
     .at = offsetof(options, clip),
     .value = GWI_NUMBER},
    {.name = "mask",
     .meaning = "of velocity=local: whether entries that are sent lose their velocity",
     .fallback = "on",
     .words = "off|on",
     .at = offsetof(options, mask),
     .value = GWI_WORD},
    {.name = "velocity",
     .meaning = "global: that of what was applied; local: of each worker's gradients",
     .fallback = "global",
     .words = "global|local",
     .at = offsetof(options, velocity),
     .value = GWI_WORD},
    {.name = "nesterov",
     .meaning = "of velocity=global: looks ahead, as optimizers do by that name",
     .fallback = "off",
     .words = "off|on",
     .at = offsetof(options, nesterov),
     .value = GWI_WORD},
    {.name = "dampening",
     .meaning = "of velocity=global: weighs gradients by 1 - dampening after the first",
     .fallback = "0",
     .range = "from 0 to 1",
     .least = 0,
     .most = 1,
     .at = offsetof(options, dampening),
     .value = GWI_NUMBER},
    {.name = NULL},
};

bool gwi_has_momentum(const gwi_spec *spec)
{
    return options_of(spec)->momentum > 0;
}

static bool is_global(const gwi_spec *spec)
{
    return gwi_has_momentum(spec) && options_of(spec)->velocity == VELOCITY_GLOBAL;
}

static bool is_local(const gwi_spec *spec)
{
    return gwi_has_momentum(spec) && options_of(spec)->velocity == VELOCITY_LOCAL;
}

/* Of gradients, or of the changes that single steps make. */
static bool is_in_every_step(const gwi_spec *spec)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);

    return schedule->subject == GWI_GRADIENT || schedule->scale != NULL;
}

/* A velocity of changes is that of what was applied, and the outer step has the same
 * place for one. */
static gw_status check_changes(const gwi_spec *spec, const gwi_stage *stage)
{
    const options *opt = options_of(spec);

    if (opt->velocity == VELOCITY_LOCAL || opt->clip > 0)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' of changes of the model takes neither velocity=local nor "
                       "clip; those are for gradients",
                       stage->name);
    if (gwi_steps_outside(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' and the outer step both have a velocity; keep one of them",
                       stage->name);
    return GW_OK;
}

static gw_status momentum_check(const gwi_spec *spec, const gwi_stage *stage)
{
    const options *opt = options_of(spec);

    if (!gwi_sends_lists(spec) || !is_in_every_step(spec) || !gwi_keeps_residual(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' must follow topk, gtopk or drop of gradients, or of "
                       "'update', with residual=on",
                       stage->name);
    if (!gwi_chooses(spec) && gwi_has_momentum(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' has no effect if everything is sent; remove it and set "
                       "the optimizer's momentum instead",
                       stage->name);
    if (gwi_schedule_of(spec)->subject != GWI_GRADIENT)
        GWI_TRY(check_changes(spec, stage));
    if (opt->velocity == VELOCITY_LOCAL && (opt->nesterov || opt->dampening > 0))
        return gw_fail(GW_ERR_SPEC,
                       "nesterov and dampening of '%s' require velocity=global",
                       stage->name);
    return GW_OK;
}

/* ---- what is done in a step --------------------------------------------------- */

static float factor(const gw_sync *s)
{
    return (float)options_of(&s->spec)->momentum;
}

static void clip_gradient(const gw_sync *s, float *g, double most)
{
    size_t n = s->layout->floats;

    if (most > 0) {
        double norm = sqrt(gwi_sumsq(g, n));
        if (norm > most)
            gwi_scale(g, (float)(most / norm), n);
    }
}

/* The average of P gradients has 1 / sqrt(P) of their noise, so a worker's own may be
 * as much longer than the average may be. */
static void clip_own(const gw_sync *s, float *g)
{
    clip_gradient(s, g, options_of(&s->spec)->clip * sqrt((double)s->comm->workers));
}

/* v = (1 - dampening) v + m u; the first gradient has its whole weight. */
static void add_velocity(gw_sync *s, float *v)
{
    bool first = s->step == gwi_schedule_start(&s->spec) + 1;
    double dampening = first ? 0 : options_of(&s->spec)->dampening;
    size_t n = s->layout->floats;

    if (dampening > 0)
        gwi_scale(v, (float)(1 - dampening), n);
    gwi_axpy(v, factor(s), s->kept[GWI_VELOCITY], n);
}

/* u = m u + g;  v = u. */
static void take_velocity(gw_sync *s, float *v)
{
    float *u = s->kept[GWI_VELOCITY];
    size_t n = s->layout->floats;

    gwi_scale(u, factor(s), n);
    gwi_add(u, v, n);
    memcpy(v, u, n * sizeof *v);
}

void gwi_momentum_enter(gw_sync *s, float *v)
{
    clip_own(s, v);
    if (is_global(&s->spec))
        add_velocity(s, v);
    else if (is_local(&s->spec))
        take_velocity(s, v);
}

void gwi_momentum_chosen(gw_sync *s, const gwi_list *list)
{
    float *u = s->kept[GWI_VELOCITY];

    if (!is_local(&s->spec) || options_of(&s->spec)->mask == GWI_OFF)
        return;
    for (size_t i = 0; i < list->n; i++)
        u[list->index[i]] = 0;
}

void gwi_momentum_leave(gw_sync *s, float *v)
{
    float *u = s->kept[GWI_VELOCITY], m = factor(s);
    size_t n = s->layout->floats;

    if (!is_global(&s->spec))
        return;
    if (options_of(&s->spec)->nesterov == GWI_OFF) {
        memcpy(u, v, n * sizeof *u);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        float applied = v[i];
        v[i] = applied + m * (applied - u[i]);
        u[i] = applied;
    }
}

void gwi_momentum_whole(gw_sync *s, float *v)
{
    clip_gradient(s, v, options_of(&s->spec)->clip);
    if (is_local(&s->spec))
        take_velocity(s, v);
    if (!is_global(&s->spec))
        return;
    add_velocity(s, v);
    gwi_momentum_leave(s, v);
}

/* The residuals of those whose gradient was good have taken the velocity in. */
void gwi_momentum_skip(gw_sync *s)
{
    if (is_global(&s->spec))
        memset(s->kept[GWI_VELOCITY], 0, s->layout->floats * sizeof(float));
}

double gw_sync_momentum(const gw_sync *s)
{
    return s->now.model && s->spec.subject == GWI_CHANGE
               ? options_of(&s->spec)->momentum
               : 0;
}

gw_status gw_sync_set_momentum(gw_sync *s, double momentum)
{
    options *opt = (void *)s->spec.options[GWI_MOMENTUM];

    if (!gwi_has_momentum(&s->spec))
        return gw_fail(GW_ERR_ARG, "cannot set the momentum: '%s' has none", s->text);
    if (!(momentum > 0 && momentum < 1))
        return gw_fail(GW_ERR_ARG,
                       "invalid momentum %g; expected a number between 0 and 1",
                       momentum);
    gwi_late_await(s);
    opt->momentum = momentum;
    return GW_OK;
}

/* A residual is worth its entries times the rate, so it grows as the rate falls. A pass
 * over it in every step would cost as much as a selection; so it waits for 1 percent.
 */
void gwi_momentum_rate(gw_sync *s, double rate)
{
    float *last = s->kept[GWI_RATE];

    gwi_guard_rate(s, rate);
    if (last == NULL || !(rate > 0))
        return;
    double factor = *last > 0 ? *last / rate : 1;
    if (*last > 0 && fabs(factor - 1) < 0.01)
        return;
    if (factor != 1 && isfinite((float)factor))
        gwi_scale(s->kept[GWI_RESIDUAL], (float)factor, s->layout->floats);
    *last = (float)rate;
}

gw_status gw_sync_set_rate(gw_sync *s, double rate)
{
    if (!(rate >= 0) || !isfinite(rate))
        return gw_fail(GW_ERR_ARG,
                       "invalid learning rate %g; expected a finite number, 0 or more",
                       rate);
    if (!gwi_late_rate(s, rate))
        gwi_momentum_rate(s, rate);
    return GW_OK;
}

/* Changes of the model have the rate of their step in them. */
static bool is_rated(const gwi_spec *spec)
{
    return is_global(spec) && spec->subject == GWI_GRADIENT;
}

static size_t one_float(const gwi_spec *spec, const gw_layout *layout)
{
    (void)spec, (void)layout;
    return 1;
}

static const gwi_remembered memories[] = {
    {.name = "velocity",
     .what = "velocity",
     .tag = GWI_VELOCITY,
     .handing = GW_HANDING_COMMON,
     .wanted = is_global},
    {.name = "velocity",
     .what = "velocity",
     .tag = GWI_VELOCITY,
     .handing = GW_HANDING_ADDED,
     .wanted = is_local},
    {.name = "rate",
     .what = "learning rate",
     .tag = GWI_RATE,
     .handing = GW_HANDING_COMMON,
     .wanted = is_rated,
     .floats = one_float},
    {.name = NULL},
};

const gwi_part gwi_momentum = {
    .name = "momentum",
    .keys = keys,
    .check = momentum_check,
    .memories = memories,
};

const gwi_stage gwi_stage_momentum = {
    .name = "momentum",
    .summary = "momentum before the selection, where late entries do no harm",
    .example = "momentum:0.9",
    .cost = "nothing",
    .expect = "fits behind topk, gtopk and drop of gradients with residual=on",
    .role = GWI_ROLE_MOMENTUM,
    .parts = {[GWI_MOMENTUM] = &gwi_momentum},
    .keys = "momentum clip mask velocity nesterov dampening",
};
