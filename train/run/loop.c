/* SPDX-License-Identifier: Apache-2.0
 *
 * loop.c - one worker: the training loop and its clock.
 *
 *     batch -> forward, backward -> gw_sync_gradient -> optimizer -> gw_sync_model
 *
 * Clocks: compute_s is the batch, the model and the optimizer; sync_s the calls
 * into gradwire; eval_s the test set. Gathering the loss of all workers for the
 * log is in none of them, only in wall_s. */
#define _GNU_SOURCE
#include "run/advice.h"
#include "layers/compute.h"
#include "run/checkpoint.h"
#include "files/float_file.h"
#include "data/shuffle.h"
#include "run/slow_work.h"
#include "run/weights.h"
#include "run/worker.h"

#include <pthread.h>
#include <signal.h>

/* The smallest batch for evaluation. With small training batches it would be slow
 * otherwise. */
enum { EVAL_BATCH = 128 };

typedef gwt_worker worker;

/* ---- setting up ------------------------------------------------------------ */

/* The process that was started handles Ctrl-C and SIGTERM. Worker processes ignore
 * them, and worker threads leave them to the main thread. */
static void leave_signals(const gwt_config *config)
{
    sigset_t set;

    if (config->comm != NULL)
        return; /* this is the process that was started */
    if (config->spawn == GW_SPAWN_PROCESSES) {
        signal(SIGTERM, SIG_IGN);
        return;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

gw_status gwt_worker_make_model(gwt_worker *w)
{
    const gwt_job *job = w->job;
    size_t batch = (size_t)job->config.batch, count;
    size_t least = job->data.text ? GWT_EVAL_COLUMNS : EVAL_BATCH;

    GWT_TRY(gwt_model_make(&w->model, job->config.model, job->data.shape,
                           job->data.classes, batch > least ? batch : least));
    gwt_model_init(w->model, job->config.seed);
    const gw_tensor *tensors = gwt_model_tensors(w->model, &count);
    return gw_layout_new(&w->layout, tensors, count);
}

gw_sync_options gwt_sync_options_of(const gwt_job *job)
{
    const gwt_config *config = &job->config;
    /* A run that stops at a bad number ends there. */
    gw_nonfinite rule = (gw_nonfinite)config->nonfinite == GW_NONFINITE_STOP
                            ? GW_NONFINITE_END
                            : (gw_nonfinite)config->nonfinite;

    return (gw_sync_options){.struct_size = sizeof(gw_sync_options),
                             .nonfinite = rule,
                             .seed = config->seed};
}

static gw_status make_sync(worker *w)
{
    gw_sync_options opt = gwt_sync_options_of(w->job);

    return gw_sync_new(&w->sync, w->job->used.sync, w->layout, w->comm, &opt);
}

gw_status gwt_worker_make_buffers(gwt_worker *w, int differ)
{
    size_t n = gwt_model_floats(w->model), slots = w->job->optimizer->slots;
    size_t vectors = slots + (differ != 0);

    w->state = gwt_calloc(vectors * n, sizeof *w->state, "the optimizer's state");
    w->order = gwt_calloc(w->job->data.train.count, sizeof *w->order, "the order");
    w->labels = gwt_calloc((size_t)w->job->config.batch * gwt_model_outputs(w->model),
                           sizeof *w->labels, "a batch");
    if (w->state == NULL || w->order == NULL || w->labels == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < slots; i++)
        w->slot[i] = w->state + i * n;
    w->average = vectors > slots ? w->state + slots * n : NULL;
    return GW_OK;
}

/* Worker 0 reads or writes a file for all. */
static gw_status slow_work(worker *w, gw_status (*work)(void *), void *arg)
{
    return gwt_slow_work(w->comm, w->job->config.timeout, work, arg);
}

static gw_status read_weights(void *arg)
{
    worker *w = arg;

    return gwt_weights_read(w->job->config.init, w->model);
}

/* The weights of --init, read by rank 0; gw_sync_start() hands out the parameters. */
gw_status gwt_worker_take_weights(gwt_worker *w)
{
    size_t n;
    float *stats = gwt_model_stats(w->model, &n);

    if (w->job->config.init == NULL)
        return GW_OK;
    GWT_TRY(slow_work(w, read_weights, w));
    return gw_broadcast(w->comm, stats, n * sizeof *stats, 0);
}

/* At the first step, or where a checkpoint ends. */
static gw_status begin(worker *w)
{
    uint64_t metrics_len = 0;

    w->saved_at = UINT64_MAX;
    gwt_worker_watch_begin(w);
    if (w->job->config.resume) {
        GWT_TRY(gwt_checkpoint_load(w, &metrics_len));
    } else {
        GWT_TRY(gwt_worker_take_weights(w));
        GWT_TRY(gw_sync_start(w->sync, gwt_model_params(w->model)));
    }
    if (gw_comm_rank(w->comm) != 0)
        return GW_OK;
    GWT_TRY(gwt_rundir_metrics(w->job, metrics_len, &w->metrics));
    return gwt_log_open(&w->logs, w->job, w->elapsed);
}

static gw_status set_up(worker *w)
{
    leave_signals(&w->job->config);
    gwt_compute_threads(w->job->config.threads);
    GWT_TRY(gwt_worker_make_model(w));
    GWT_TRY(make_sync(w));
    GWT_TRY(gwt_worker_make_buffers(w, !gw_sync_keeps_equal(w->sync)));
    /* The first products make the engine generate its code, which must not count as
     * time of a step. */
    GWT_TRY(gwt_model_warm(w->model, (size_t)w->job->config.batch));
    GWT_TRY(begin(w));
    GWT_TRY(gw_barrier(w->comm));
    return gwt_trace_open(&w->trace, &w->job->config, w->comm);
}

void gwt_worker_tear_down(gwt_worker *w)
{
    if (w->metrics != NULL)
        fclose(w->metrics);
    gwt_log_close(&w->logs);
    gw_sync_free(w->sync);
    gw_layout_free(w->layout);
    gwt_model_free(w->model);
    gwt_trace_free(w->trace);
    gwt_free(w->state);
    gwt_free(w->order);
    gwt_free(w->labels);
}

/* ---- stepping ---------------------------------------------------------------- */

static gwt_batch batch_of(const worker *w, uint64_t t)
{
    const gwt_job *job = w->job;
    size_t in_epoch = (size_t)(t % job->epoch_steps);

    return (gwt_batch){.epoch = t / job->epoch_steps,
                       .first = gwt_shard_first(in_epoch, job->config.workers,
                                                gw_comm_rank(w->comm),
                                                (size_t)job->config.batch),
                       .begins = in_epoch == 0,
                       .step = t};
}

static gw_status write_gradient(void *arg)
{
    worker *w = arg;

    return gwt_record_floats(w->job->config.record_to, gwt_model_grad(w->model),
                             gwt_model_floats(w->model));
}

/* For --record-gradient: what worker 0 brings to the exchange of the last step. */
static gw_status record_gradient(worker *w, uint64_t t)
{
    if (w->job->config.record_to == NULL || t + 1 != w->job->total_steps)
        return GW_OK;
    return slow_work(w, write_gradient, w);
}

/* Step t = 0, 1, ... Where it is skipped, neither the optimizer nor the mean loss
 * sees it. */
static gw_status step(worker *w, uint64_t t, double *loss)
{
    gwt_batch batch = batch_of(w, t);
    gwt_score score;
    double t0 = gwt_now(), t1, t2, t3;
    gw_status st;

    GWT_TRY(gw_sync_set_rate(w->sync, gwt_rate_of(w->job, t)));
    GWT_TRY(gwt_worker_compute(w, &batch, &score));
    GWT_TRY(record_gradient(w, t));
    t1 = gwt_now();
    st = gw_sync_gradient(w->sync, gwt_model_grad(w->model));
    t2 = gwt_now();
    if (st == GW_SKIPPED) {
        w->so_far.skipped++;
    } else {
        GWT_TRY(st);
        gwt_worker_apply(w, t);
        gwt_worker_add_loss(w, t % w->job->epoch_steps == 0, &score);
    }
    t3 = gwt_now();
    GWT_TRY(gw_sync_model(w->sync, gwt_model_params(w->model)));
    w->so_far.compute_s += (t1 - t0) + (t3 - t2);
    w->so_far.sync_s += (t2 - t1) + (gwt_now() - t3);
    w->so_far.steps = t + 1;
    gwt_trace_compute(w->trace, t0, t1);
    gwt_trace_compute(w->trace, t2, t3);
    *loss = score.loss / (double)score.count;
    if (st == GW_OK)
        gwt_worker_watch(w, *loss);
    return GW_OK;
}

static int evaluation_due(const gwt_job *job, uint64_t done)
{
    return job->eval_every != 0 && done % job->eval_every == 0;
}

/* Whether step t = 1, 2, ... is to be made. */
static gw_status may_enter(worker *w, uint64_t t, int *go)
{
    gwt_stop *stop = &w->job->shared->stop;

    if (w->job->config.comm != NULL)
        return gwt_stop_together_enter(&w->together, w->comm, stop, t, go);
    *go = gwt_stop_enter(stop, t);
    return GW_OK;
}

static gw_status save(worker *w)
{
    GWT_TRY(gwt_checkpoint_save(w));
    w->saved_at = w->so_far.steps;
    return GW_OK;
}

/* The last result of a method whose results are late is applied when the training is
 * over. A checkpoint is written before: a run that goes on from there may be longer. */
static gw_status apply_late(worker *w)
{
    uint64_t last = w->so_far.steps - 1;
    double start;

    if (w->so_far.stopped || !gw_sync_pending(w->sync))
        return GW_OK;
    if (w->job->checkpoint_every != 0 && w->saved_at != w->so_far.steps)
        GWT_TRY(save(w));
    start = gwt_now();
    gw_status st = gw_sync_drain(w->sync, gwt_model_grad(w->model));
    w->so_far.sync_s += gwt_now() - start;
    if (st == GW_SKIPPED) {
        w->so_far.skipped++;
        return GW_OK;
    }
    if (st == GW_OK)
        gwt_worker_apply(w, last);
    return st;
}

static gw_status train(worker *w)
{
    const gwt_job *job = w->job;

    /* A checkpoint has the results of the average of the models, but not the average
     * itself. */
    if (w->average != NULL && w->so_far.steps > 0 && w->evaluated_at == w->so_far.steps)
        GWT_TRY(gwt_worker_evaluate(w));
    for (uint64_t t = w->so_far.steps; t < job->total_steps; t++) {
        double loss;
        int go;
        GWT_TRY(may_enter(w, t + 1, &go));
        if (!go) {
            w->so_far.stopped = 1;
            break;
        }
        GWT_TRY(step(w, t, &loss));
        if (t + 1 == job->total_steps)
            GWT_TRY(apply_late(w));
        GWT_TRY(gwt_trace_step(w->trace, w->comm));
        gwt_worker_tell(w, GWT_EVENT_STEP, loss);
        gwt_worker_publish(w, 1);
        int evaluation = evaluation_due(job, t + 1);
        if (evaluation || (t + 1) % job->log_every == 0)
            GWT_TRY(gwt_worker_record(w, evaluation));
        if (job->checkpoint_every != 0 && (t + 1) % job->checkpoint_every == 0 &&
            w->saved_at != w->so_far.steps)
            GWT_TRY(save(w));
    }
    GWT_TRY(apply_late(w)); /* of a run that was saved at its end */
    GWT_TRY(gwt_trace_end(w->trace, w->comm));
    /* The launcher may not wait for the evaluation: mpirun kills the ranks one second
     * after its request to stop. */
    if (w->so_far.stopped && job->config.comm != NULL && w->average == NULL)
        GWT_TRY(gwt_worker_sum_up(w));
    /* Save before the last record, since a run that resumes from here has not written
     * it. */
    if (job->checkpoint_every != 0 && w->saved_at != w->so_far.steps)
        GWT_TRY(save(w));
    /* Write the last record, unless it has been written. */
    if (w->evaluated_at != w->so_far.steps || w->so_far.steps == 0)
        return gwt_worker_record(w, 1);
    return GW_OK;
}

/* Lets the method finish. If the workers' models differed until now, the final model is
 * evaluated once more; the workers' own results and the drift stay those from
 * before. */
gw_status gwt_worker_finish(gwt_worker *w)
{
    gwt_evaluation before = w->evaluation;
    double start = gwt_now();

    GWT_TRY(gw_sync_finish(w->sync, gwt_model_params(w->model)));
    w->so_far.sync_s += gwt_now() - start;
    if (w->average == NULL)
        return GW_OK;
    GWT_TRY(gwt_worker_evaluate(w));
    w->evaluation.workers_accuracy = before.workers_accuracy;
    w->evaluation.workers_loss = before.workers_loss;
    w->evaluation.drift = before.drift;
    return GW_OK;
}

typedef struct weights_export {
    worker *w;
    float *stats; /* the average of the workers' */
    size_t n;
} weights_export;

static gw_status write_weights(void *arg)
{
    const weights_export *e = arg;
    size_t count;
    const gw_tensor *tensors = gwt_model_tensors(e->w->model, &count);

    return gwt_weights_write(e->w->job->config.export_to, tensors,
                             gwt_model_windows(e->w->model), count,
                             gwt_worker_result(e->w), e->stats, e->n);
}

/* Writes the weights for --export, with the average of the workers' statistics. */
gw_status gwt_worker_export(gwt_worker *w)
{
    weights_export e = {.w = w};
    gw_status st;

    if (w->job->config.export_to == NULL)
        return GW_OK;
    (void)gwt_model_stats(w->model, &e.n);
    e.stats = gwt_calloc(e.n, sizeof *e.stats, "statistics");
    if (e.stats == NULL)
        return GW_ERR_NOMEM;
    st = gwt_average_stats(w->comm, w->model, e.stats);
    if (st == GW_OK)
        st = slow_work(w, write_weights, &e);
    gwt_free(e.stats);
    return st;
}

gw_status gwt_worker_run(gw_comm *comm, void *job)
{
    worker w = {.job = job, .comm = comm};
    gw_status st;

    w.evaluation = gwt_evaluation_none;
    st = set_up(&w);
    w.mark = gwt_now();
    w.began = w.mark - w.elapsed;
    if (st == GW_OK)
        st = gwt_worker_watched(&w);
    if (st == GW_OK)
        st = train(&w);
    if (st == GW_OK && !w.so_far.stopped)
        st = gwt_worker_finish(&w);
    if (st == GW_OK)
        st = gwt_worker_sum_up(&w);
    if (st == GW_OK)
        st = gwt_worker_export(&w);
    gwt_worker_publish(&w, 0);
    gw_status watched = gwt_worker_unwatched(&w);
    gwt_worker_tear_down(&w);
    return st == GW_OK ? watched : st;
}
