/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic_run.c - the training loop of a worker whose fellows come and go.
 *
 *     enter -> batch -> forward, backward -> gw_sync_gradient -> optimizer
 *           -> gw_sync_model -> log, evaluation, checkpoint -> batch ...
 *
 * A call that fails because a worker is gone leads to an entry, and is made again. What
 * follows an exchange, such as an evaluation, is not: when it fails it is left out,
 * since others may have it behind them. So the workers of an entry all go on with the
 * next exchange. */
#define _GNU_SOURCE
#include "elastic/elastic.h"
#include "layers/compute.h"
#include "run/checkpoint.h"

#include <string.h>
#include <time.h>

static uint64_t most_of(const gwt_elastic *e)
{
    return (uint64_t)e->job->config.workers;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static int is_over(const gwt_elastic *e)
{
    return e->w.so_far.steps >= e->job->total_steps;
}

gw_status gwt_elastic_check(const gwt_job *job)
{
    const gwt_config *c = &job->config;
    gwt_model *model;
    size_t carry;

    if (c->trace != NULL || c->record_to != NULL)
        return gw_fail(GW_ERR_ARG, "--trace and --record-gradient need workers that do "
                                   "not change; give --workers one number");
    GWT_TRY(gwt_model_outline(&model, c->model, job->data.shape, job->data.classes));
    gwt_model_carry(model, &carry);
    gwt_model_free(model);
    if (carry > 0)
        return gw_fail(GW_ERR_ARG,
                       "model %s carries a state from batch to batch, so its workers "
                       "cannot change; give --workers one number",
                       c->model);
    return GW_OK;
}

/* ---- one step ---------------------------------------------------------------------
 */

/* Local steps since the last exchange. */
static uint64_t local_steps(const gwt_elastic *e)
{
    return e->steps - gw_sync_exchanged(e->w.sync);
}

static gwt_batch batch_of(const gwt_elastic *e)
{
    const gwt_job *job = e->job;
    uint64_t number =
        gwt_lots_batch(&e->lots, (size_t)gw_comm_rank(e->w.comm), local_steps(e));
    uint64_t per_epoch = job->epoch_steps * most_of(e);

    return (gwt_batch){.epoch = number / per_epoch,
                       .first = (size_t)(number % per_epoch * job->config.batch),
                       .begins = 0,
                       .step = e->steps};
}

/* Whether this worker has made its steps of the round, and others make more. */
static int is_idle(const gwt_elastic *e)
{
    return e->uneven.from != NULL &&
           local_steps(e) >= e->lots.lots[gw_comm_rank(e->w.comm)].count;
}

/* A step takes --pace seconds at least. */
static void keep_pace(const gwt_elastic *e, double start)
{
    double left = e->job->config.pace - (gwt_now() - start);
    struct timespec t = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};

    if (left > 0)
        nanosleep(&t, NULL);
}

/* If the result of this step is there already, nobody needs another gradient. */
static gw_status compute(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    double start = gwt_now();

    e->idle = gw_sync_exchanged(w->sync) <= e->steps && is_idle(e);
    if (gw_sync_exchanged(w->sync) > e->steps || e->idle) {
        e->score = (gwt_score){0};
        e->stage = GWT_EXCHANGES;
        memset(gwt_model_grad(w->model), 0, gwt_model_floats(w->model) * sizeof(float));
        return GW_OK;
    }
    gwt_batch batch = batch_of(e);
    e->rate_at = (e->lots.used + local_steps(e) * e->lots.count) / most_of(e);
    GWT_TRY(gw_sync_set_rate(w->sync, gwt_rate_of(e->job, e->rate_at)));
    GWT_TRY(gwt_worker_compute(w, &batch, &e->score));
    keep_pace(e, start);
    gwt_uneven_count(&e->uneven, gwt_now() - start);
    w->so_far.compute_s += gwt_now() - start;
    e->stage = GWT_EXCHANGES;
    return GW_OK;
}

static gw_status exchange(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    double start = gwt_now();
    gw_status st = gw_sync_gradient(w->sync, gwt_model_grad(w->model));

    w->so_far.sync_s += gwt_now() - start;
    start = gwt_now();
    if (st == GW_SKIPPED) {
        w->so_far.skipped++;
    } else {
        GWT_TRY(st);
        if (!e->idle)
            gwt_worker_apply(w, e->rate_at);
        if (e->score.count > 0)
            gwt_worker_add_loss(w, e->rate_at % e->job->epoch_steps == 0, &e->score);
    }
    w->so_far.compute_s += gwt_now() - start;
    e->stage = GWT_ENDS;
    return GW_OK;
}

/* A round has ended. Those who made its exchange in this view agree on the next one;
 * others take what was agreed at the entry. */
static gw_status end_round(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    uint64_t exchange = gw_sync_exchanged(w->sync);
    gw_status st = GW_OK;

    if (e->uneven.from == NULL || exchange != e->steps)
        return GW_OK;
    if (exchange > e->base)
        st = gwt_uneven_agree(&e->uneven, w, &e->lots);
    gwt_uneven_begin(&e->uneven, gwt_model_params(w->model),
                     gwt_model_floats(w->model));
    return st;
}

static gw_status end_step(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    float *params = gwt_model_params(w->model);
    double start = gwt_now();

    if (gw_sync_model_due(w->sync) && gw_sync_exchanged(w->sync) <= e->steps)
        gwt_uneven_weigh(&e->uneven, &e->lots, gw_comm_rank(w->comm), params,
                         gwt_model_floats(w->model));
    GWT_TRY(gw_sync_model(w->sync, params));
    w->so_far.sync_s += gwt_now() - start;
    e->steps++;
    e->stage = GWT_COMPUTES;
    GWT_TRY(end_round(e));
    gwt_elastic_count(e);
    w->so_far.steps = lesser(e->job->total_steps, e->lots.used / most_of(e));
    double loss = e->score.count > 0 ? e->score.loss / (double)e->score.count : 0;
    gwt_worker_tell(w, GWT_EVENT_STEP, loss);
    gwt_worker_publish(w, 1);
    return GW_OK;
}

/* ---- after an exchange ------------------------------------------------------------
 */

static int passed(const gwt_elastic *e, uint64_t every)
{
    return every != 0 && e->w.so_far.steps / every > e->told_at / every;
}

/* Workers that have come together by an exchange in this view are all here. */
static gw_status meet(gwt_elastic *e)
{
    const gwt_job *job = e->job;
    gwt_worker *w = &e->w;
    uint64_t exchange = gw_sync_exchanged(w->sync);
    int evaluation = passed(e, job->eval_every), log = passed(e, job->log_every);
    int save = passed(e, job->checkpoint_every);

    if (exchange != e->steps || exchange <= e->base || is_over(e))
        return GW_OK;
    e->told_at = w->so_far.steps;
    if (evaluation || log)
        GWT_TRY(gwt_worker_record(w, evaluation));
    if (save) {
        GWT_TRY(gwt_checkpoint_save(w));
        w->saved_at = w->so_far.steps;
    }
    return GW_OK;
}

int gwt_elastic_may_leave(const gwt_elastic *e)
{
    return e->trained && e->stage == GWT_COMPUTES && local_steps(e) == 0 && !is_over(e);
}

/* Between two exchanges this worker may leave, and others may come. */
static gw_status look_around(gwt_elastic *e)
{
    const gwt_views *views = e->job->config.views;

    if (!gwt_elastic_may_leave(e))
        return GW_OK;
    e->leaves = gwt_stop_requested(&e->job->shared->stop);
    if (e->leaves && gw_comm_workers(e->w.comm) == 1)
        e->w.so_far.stopped = 1;
    else if (e->leaves || views->due(views->ctx))
        return gw_fail(GW_ERR_PEER, "the next view is due");
    return GW_OK;
}

static gw_status step(gwt_elastic *e)
{
    GWT_TRY(look_around(e));
    if (e->w.so_far.stopped)
        return GW_OK;
    if (e->stage == GWT_COMPUTES)
        GWT_TRY(compute(e));
    if (e->stage == GWT_EXCHANGES)
        GWT_TRY(exchange(e));
    GWT_TRY(end_step(e));
    return meet(e);
}

/* ---- from start to end ------------------------------------------------------------
 */

static gw_status set_up(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    gw_spec_info info = {.struct_size = sizeof info};

    gwt_compute_threads(e->job->config.threads);
    GWT_TRY(gw_spec_describe(e->job->used.sync, &info));
    GWT_TRY(gwt_worker_make_model(w));
    GWT_TRY(gwt_worker_make_buffers(w, (info.traits & GW_TRAIT_KEEPS_EQUAL) == 0));
    GWT_TRY(gwt_model_warm(w->model, (size_t)e->job->config.batch));
    if (e->job->config.uneven)
        GWT_TRY(gwt_uneven_new(&e->uneven, w));
    w->saved_at = UINT64_MAX;
    w->began = w->mark = gwt_now();
    gwt_worker_watch_begin(w);
    return gwt_elastic_enter(e);
}

/* All that the end of a training takes. If a worker is lost on the way, all that are
 * left begin this anew. */
static gw_status finish(gwt_elastic *e)
{
    const gwt_job *job = e->job;
    gwt_worker *w = &e->w;

    if (job->checkpoint_every != 0 && w->saved_at != w->so_far.steps) {
        GWT_TRY(gwt_checkpoint_save(w));
        w->saved_at = w->so_far.steps;
    }
    GWT_TRY(gwt_worker_record(w, 1));
    if (!w->so_far.stopped)
        GWT_TRY(gwt_worker_finish(w));
    GWT_TRY(gwt_worker_sum_up(w));
    GWT_TRY(gwt_worker_export(w));
    return gw_barrier(w->comm);
}

static gw_status train(gwt_elastic *e)
{
    gw_status st = GW_OK;

    while (st == GW_OK && !e->left) {
        int ends = is_over(e) || e->w.so_far.stopped;
        st = ends ? finish(e) : step(e);
        if (gwt_elastic_lost(st))
            st = gwt_elastic_enter(e);
        else if (st == GW_OK && ends)
            break;
    }
    return st;
}

gw_status gwt_elastic_run(gwt_job *job)
{
    gwt_elastic *e = gwt_calloc(1, sizeof *e, "a worker");
    gw_status st;

    if (e == NULL)
        return GW_ERR_NOMEM;
    e->job = job;
    e->w.job = job;
    e->w.evaluation = gwt_evaluation_none;
    st = set_up(e);
    if (st == GW_OK)
        st = train(e);
    job->shared->summary.left = e->left;
    job->shared->summary.first =
        st == GW_OK && !e->left && e->w.comm != NULL && gw_comm_rank(e->w.comm) == 0;
    gw_status watched = gwt_worker_unwatched(&e->w);
    gw_comm *comm = e->w.comm;
    gwt_worker_tear_down(&e->w);
    if (st != GW_OK && comm != NULL)
        st = gw_comm_fail(comm, st);
    gw_comm_free(comm);
    job->config.comm = NULL;
    gwt_uneven_free(&e->uneven);
    gwt_free(e);
    return st == GW_OK ? watched : st;
}
