/* SPDX-License-Identifier: Apache-2.0
 *
 * study.c - runs gradient descent on a convex problem with real workers, or with
 * simulated ones for studies of many runs. */
#include "convex/convex.h"

#include <math.h>
#include <string.h>

gw_status gwt_study_init(gwt_study *out, const gwt_study_config *config)
{
    size_t width = config->problem.dim + 1;

    *out = (gwt_study){.config = *config};
    out->steps = config->gradients / (uint64_t)config->workers;
    if (out->steps == 0)
        return gw_fail(
            GW_ERR_ARG,
            "%d workers need at least one gradient each; increase --gradients",
            config->workers);
    uint64_t samples = out->steps * (uint64_t)config->workers;
    out->rows = gwt_calloc(samples, width * sizeof(float), "samples");
    out->rates = gwt_calloc(out->steps, sizeof(double), "step sizes");
    if (out->rows == NULL || out->rates == NULL)
        return GW_ERR_NOMEM;
    for (uint64_t i = 0; i < samples; i++)
        gwt_convex_sample(&config->problem, i, out->rows + i * width);
    for (uint64_t s = 0; s < out->steps; s++)
        out->rates[s] = config->rate * pow((double)(s + 1), -config->alpha);
    return GW_OK;
}

void gwt_study_free(gwt_study *study)
{
    gwt_free(study->rows);
    gwt_free(study->rates);
    study->rows = NULL;
    study->rates = NULL;
}

/* The sample that worker p takes in step s, 0 in the first. */
static const float *row_of(const gwt_study *study, int p, uint64_t s)
{
    return study->rows +
           ((uint64_t)p * study->steps + s) * (study->config.problem.dim + 1);
}

/* ---- when workers meet ----------------------------------------------------------- */

/* What a spec of local steps says. */
typedef struct plan {
    uint64_t every; /* period; 0: none before the end */
    double grow;    /* factor of growing periods; 0: they do not grow */
    int polyak;     /* whether the result is the average of all models */
} plan;

/* Sets *known if the method averages whole models, or, which is the same, whole
 * gradients in every step: that can be planned. */
static gw_status make_plan(plan *out, const char *sync, int *known)
{
    const unsigned gradients = GW_TRAIT_SENDS_GRADIENTS, models = GW_TRAIT_SENDS_MODELS;
    gw_spec_info info = {.struct_size = sizeof info};

    GWT_TRY(gw_spec_describe(sync, &info));
    *out = (plan){.every = info.growth > 0 ? 0 : info.period,
                  .grow = info.growth,
                  .polyak = (info.traits & GW_TRAIT_POLYAK) != 0};
    unsigned sends = info.traits & (gradients | models | GW_TRAIT_SENDS_CHANGES);
    *known = (sends == models || sends == gradients) &&
             !(info.traits & (GW_TRAIT_SPARSE | GW_TRAIT_CODED));
    return GW_OK;
}

/* How many steps follow before models are averaged, when s of `steps` are done. */
static uint64_t period(const plan *how, uint64_t s, uint64_t steps, int workers)
{
    uint64_t left = steps - s, n = how->every;

    if (how->grow > 0.0)
        n = (uint64_t)fmax(1.0, floor(how->grow * sqrt((double)s) / workers));
    return n == 0 || n > left ? left : n;
}

static uint64_t count_rounds(const plan *how, const gwt_study *study)
{
    uint64_t rounds = 0;

    for (uint64_t s = 0; s < study->steps; rounds++)
        s += period(how, s, study->steps, study->config.workers);
    return rounds;
}

/* ---- simulated workers -------------------------------------------------------------
 */

/* Runs n steps of worker p from w after step s, and adds its models to sum. */
static void local_steps(const gwt_study *study, int p, uint64_t s, uint64_t n,
                        double *w, double *sum)
{
    const gwt_convex *problem = &study->config.problem;
    const float *row = row_of(study, p, s);
    double grad[GWT_CONVEX_DIM_MAX];
    size_t dim = problem->dim;

    for (uint64_t i = 0; i < n; i++, row += dim + 1) {
        double rate = study->rates[s + i];
        gwt_convex_gradient(problem, row, w, grad);
        for (size_t k = 0; k < dim; k++) {
            w[k] -= rate * grad[k];
            sum[k] += w[k];
        }
    }
}

/* Runs n steps of all workers from w after step s, and sets w to the average. */
static void one_round(const gwt_study *study, uint64_t s, uint64_t n, double *w,
                      double *sum)
{
    size_t dim = study->config.problem.dim;
    double mean[GWT_CONVEX_DIM_MAX] = {0}, own[GWT_CONVEX_DIM_MAX];

    for (int p = 0; p < study->config.workers; p++) {
        memcpy(own, w, dim * sizeof *own);
        local_steps(study, p, s, n, own, sum);
        for (size_t k = 0; k < dim; k++)
            mean[k] += own[k];
    }
    for (size_t k = 0; k < dim; k++)
        w[k] = mean[k] / study->config.workers;
}

gw_status gwt_study_simulate(const gwt_study *study, const char *sync,
                             gwt_study_result *out)
{
    double sum[GWT_CONVEX_DIM_MAX] = {0}, began = gwt_now();
    const gwt_study_config *c = &study->config;
    plan how;
    int known;

    memset(out, 0, sizeof *out);
    GWT_TRY(make_plan(&how, sync, &known));
    if (!known)
        return gw_fail(GW_ERR_ARG,
                       "'%s' cannot be simulated, because simulated workers average "
                       "whole models from the first step on; use --spawn threads",
                       sync);
    for (uint64_t s = 0, n; s < study->steps; s += n, out->rounds++) {
        n = period(&how, s, study->steps, c->workers);
        one_round(study, s, n, out->w, sum);
    }
    for (size_t k = 0; how.polyak && k < c->problem.dim; k++)
        out->w[k] = sum[k] / ((double)study->steps * c->workers);
    out->seconds = gwt_now() - began;
    return GW_OK;
}

/* ---- real workers -------------------------------------------------------------------
 */

/* One run on threads; rank 0 writes the result. */
typedef struct team {
    const gwt_study *study;
    const char *sync;
    gwt_study_result *out;
} team;

/* Step s, 0 in the first, of one worker, whose model is x. */
static gw_status real_step(const gwt_study *study, gw_comm *comm, gw_sync *sync,
                           uint64_t s, float *x)
{
    const gwt_convex *problem = &study->config.problem;
    double w[GWT_CONVEX_DIM_MAX], grad[GWT_CONVEX_DIM_MAX];
    float g[GWT_CONVEX_DIM_MAX];

    for (size_t k = 0; k < problem->dim; k++)
        w[k] = (double)x[k];
    gwt_convex_gradient(problem, row_of(study, gw_comm_rank(comm), s), w, grad);
    for (size_t k = 0; k < problem->dim; k++)
        g[k] = (float)grad[k];
    GWT_TRY(gw_sync_gradient(sync, g));
    for (size_t k = 0; k < problem->dim; k++)
        x[k] = (float)(w[k] - study->rates[s] * (double)g[k]);
    return gw_sync_model(sync, x);
}

static gw_status real_steps(const gwt_study *study, gw_comm *comm, gw_sync *sync,
                            float *x)
{
    GWT_TRY(gw_sync_start(sync, x));
    for (uint64_t s = 0; s < study->steps; s++)
        GWT_TRY(real_step(study, comm, sync, s, x));
    return gw_sync_finish(sync, x);
}

static gw_status real_worker(gw_comm *comm, void *arg)
{
    const team *t = arg;
    size_t dim = t->study->config.problem.dim;
    gw_tensor tensor = {.name = "w", .rows = 1, .cols = dim};
    float x[GWT_CONVEX_DIM_MAX] = {0};
    gw_sync *sync = NULL;
    gw_layout *layout;

    GWT_TRY(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(&sync, t->sync, layout, comm, NULL);
    gw_layout_free(layout);
    if (st == GW_OK)
        st = real_steps(t->study, comm, sync, x);
    gw_sync_free(sync);
    for (size_t k = 0; gw_comm_rank(comm) == 0 && k < dim; k++)
        t->out->w[k] = (double)x[k];
    return st;
}

gw_status gwt_study_threads(const gwt_study *study, const char *sync,
                            gwt_study_result *out)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = study->config.workers,
                            .spawn = GW_SPAWN_THREADS,
                            .ring_bytes = 1 << 14};
    team t = {study, sync, out};
    double began = gwt_now();
    plan how;
    int known;

    memset(out, 0, sizeof *out);
    GWT_TRY(make_plan(&how, sync, &known));
    GWT_TRY(gw_local_run(&opt, real_worker, &t));
    out->rounds = known ? count_rounds(&how, study) : 0;
    out->seconds = gwt_now() - began;
    return GW_OK;
}
