/* SPDX-License-Identifier: Apache-2.0
 *
 * outer_sgd.c - an optimizer steps on the average change, as if that was a gradient
 * with its sign turned: DiLoCo (Douillard et al. 2023). With c the average change since
 * the last common model z, as PyTorch's SGD defines it:
 *
 *     u = momentum u + c
 *     z = z + lr (c + momentum u)        nesterov=on
 *     z = z + lr u                       nesterov=off
 *
 * u begins with 0. With lr 1 and momentum 0 nothing is left but z + c, and the part is
 * off. */
#include "sync/sync.h"

typedef struct options {
    double lr, momentum;
    int nesterov;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_OUTER);
}

static const gwi_key keys[] = {
    {.name = "lr",
     .meaning = "learning rate of the outer step, a factor of the average change",
     .fallback = "0.7",
     .range = "above 0, at most 100",
     .least = 1e-6,
     .most = 100,
     .at = offsetof(options, lr),
     .value = GWI_NUMBER},
    {.name = "momentum",
     .meaning = "momentum of the outer step; 0: plain SGD",
     .fallback = "0.9",
     .range = "from 0 to below 1",
     .least = 0,
     .most = 1 - 1e-9,
     .at = offsetof(options, momentum),
     .value = GWI_NUMBER},
    {.name = "nesterov",
     .meaning = "whether the outer momentum looks ahead",
     .fallback = "on",
     .words = "off|on",
     .at = offsetof(options, nesterov),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool has_momentum(const gwi_spec *spec)
{
    return options_of(spec)->momentum > 0;
}

static bool outer_off(const gwi_spec *spec)
{
    return options_of(spec)->lr == 1 && !has_momentum(spec);
}

/* Of a share of the models there is no common model to step from: workers agree about
 * these entries alone, and not about when they were common before. */
static gw_status check_shares(const gwi_spec *spec, const gwi_stage *stage)
{
    const gwi_selector *selector = gwi_selector_of(spec);

    if (!selector->of_models)
        return GW_OK;
    if (gwi_exchange_of(spec)->resync(spec) == 0)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' steps on changes of whole models; say how often '%s' "
                       "averages these, as in '%s,resync=30+outer'",
                       stage->name, spec->stages[0]->name, spec->stages[0]->example);
    if (selector->part.off(spec))
        return gw_fail(GW_ERR_SPEC,
                       "'%s' averages whole models in every step; use 'local:1+%s'",
                       spec->stages[0]->name, stage->name);
    return GW_OK;
}

static gw_status outer_check(const gwi_spec *spec, const gwi_stage *stage)
{
    const gwi_schedule *schedule = gwi_schedule_of(spec);

    for (int i = 0; i < spec->count; i++)
        if (spec->stages[i] != stage && spec->stages[i]->parts[GWI_OUTER] != NULL)
            return gw_fail(GW_ERR_SPEC,
                           "'%s' and '%s' both have an outer step; keep one of them",
                           spec->stages[0]->name, spec->stages[i]->name);
    if (schedule->subject == GWI_GRADIENT)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' steps on changes of the model; begin with a stage that "
                       "exchanges them, as in 'local:30+outer'",
                       stage->name);
    return check_shares(spec, stage);
}

static void plain_step(float *x, float *z, float lr, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = z[i] + lr * x[i];
        z[i] = x[i];
    }
}

/* What is applied is lr (ahead u + now c). */
static void momentum_step(float *x, float *z, float *u, const options *opt, size_t n)
{
    float lr = (float)opt->lr, m = (float)opt->momentum;

    for (size_t i = 0; i < n; i++) {
        u[i] = m * u[i] + x[i];
        float applied = opt->nesterov == GWI_ON ? x[i] + m * u[i] : u[i];
        x[i] = z[i] + lr * applied;
        z[i] = x[i];
    }
}

static void outer_step(gw_sync *s, float *x)
{
    const options *opt = options_of(&s->spec);
    float *z = s->kept[GWI_REFERENCE], *u = s->kept[GWI_VELOCITY];

    if (u != NULL)
        momentum_step(x, z, u, opt, s->layout->floats);
    else
        plain_step(x, z, (float)opt->lr, s->layout->floats);
}

static const gwi_remembered memories[] = {
    {.name = "velocity",
     .what = "velocity of the outer step",
     .tag = GWI_VELOCITY,
     .handing = GW_HANDING_COMMON,
     .wanted = has_momentum},
    {.name = NULL},
};

const gwi_outer gwi_outer_sgd = {
    .part = {.name = "sgd",
             .keys = keys,
             .options_size = sizeof(options),
             .check = outer_check,
             .off = outer_off,
             .memories = memories},
    .step = outer_step,
};

const gwi_stage gwi_stage_outer = {
    .name = "outer",
    .summary = "an outer optimizer steps on the average change of the models",
    .example = "outer",
    .cost = "nothing of its own",
    .expect = "follows local or update; lr=1,momentum=0 is off, momentum=0 plain SGD",
    .role = GWI_ROLE_OUTER,
    .parts = {[GWI_OUTER] = &gwi_outer_sgd.part},
    .keys = "lr momentum nesterov",
};

const gwi_stage gwi_stage_diloco = {
    .name = "diloco",
    .summary = "local steps, then Nesterov on their average change (Douillard 2023)",
    .example = "diloco:30",
    .cost = "dense / every; once more at the end, if a period has begun",
    .expect = "for AdamW on each worker; a selection or coding may follow",
    .role = GWI_ROLE_WHEN,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_local.part,
              [GWI_OUTER] = &gwi_outer_sgd.part,
              [GWI_LATE] = &gwi_stream},
    .keys = "every lr momentum nesterov start average fragments delay mix cut",
};

/* Its authors call for an outer step without momentum: what the residual keeps, and
 * loses by and by, plays that part. */
const gwi_stage gwi_stage_sparseloco = {
    .name = "sparseloco",
    .summary = "local steps, then the largest changes of each tile in 2 bits",
    .example = "sparseloco:30",
    .cost = "less than 10 bits of density n entries / every, to each of the P-1 others",
    .expect = "for AdamW on each worker and slow links (Sarfi et al. 2025)",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_local.part,
              [GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_CODER] = &gwi_coder_2bit.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part,
              [GWI_OUTER] = &gwi_outer_sgd.part,
              [GWI_LATE] = &gwi_stream},
    .keys = "every density tile decay combine centre residual lr momentum nesterov "
            "start fragments delay mix cut code",
    .but = {{"density", "0.015625"},
            {"tile", "4096"},
            {"decay", "0.95"},
            {"combine", "senders"},
            {"centre", "best"},
            {"lr", "1"},
            {"momentum", "0"}},
};
