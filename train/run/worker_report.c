/* SPDX-License-Identifier: Apache-2.0
 *
 * worker_report.c - reports the training of a worker: progress, evaluations, log and
 * summary. */
#define _GNU_SOURCE
#include "files/json.h"
#include "gradwire_elastic.h"
#include "run/slow_work.h"
#include "run/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

typedef gwt_worker worker;
typedef gwt_mean mean;

/* ---- telling ------------------------------------------------------------------ */

/* So many samples in tokens; NaN if they are not of text. */
static double tokens_of(const worker *w, double samples)
{
    return w->job->data.text ? samples * (double)w->job->config.sequence : (double)NAN;
}

void gwt_worker_tell(gwt_worker *w, gwt_event event, double loss)
{
    const gwt_observer *observer = w->job->observer;
    const gwt_config *config = &w->job->config;
    double now = gwt_now();

    if (observer == NULL || gw_comm_rank(w->comm) != 0)
        return;
    double done = (double)(w->so_far.steps - w->mark_step);
    double samples = done * (double)config->batch * config->workers / (now - w->mark);
    gwt_progress p = {
        .step = w->so_far.steps,
        .steps = w->job->total_steps,
        .epoch = (double)w->so_far.steps / (double)w->job->epoch_steps,
        .loss = loss,
        .lr = w->lr,
        .seconds = now - w->began,
        .samples = samples,
        .tokens = tokens_of(w, samples),
        .test_loss = w->evaluation.loss,
        .test_accuracy = w->evaluation.accuracy,
        .perplexity = w->evaluation.perplexity,
        .valid = w->evaluation.valid,
        .bytes_sent = gw_sync_stats(w->sync).bytes_sent,
        .warning = w->so_far.warning,
    };
    observer->tell(observer->arg, event, &p);
}

/* ---- warning ------------------------------------------------------------------ */

/* A model that knows nothing has the logarithm of the number of classes. A run that
 * begins with weights, or goes on, begins with a loss that says little; where numbers
 * are predicted, there is nothing else to go by. */
void gwt_worker_watch_begin(gwt_worker *w)
{
    const gwt_config *config = &w->job->config;
    size_t classes = w->job->data.classes;

    if (classes > 1)
        w->alarm.first = log((double)classes);
    else if (config->resume || config->init != NULL)
        w->alarm.first = (double)INFINITY;
}

static void warn_of_loss(worker *w)
{
    gw_spec_info info = {.struct_size = sizeof info};
    int sparse = gw_spec_describe(w->job->used.sync, &info) == GW_OK &&
                 (info.traits & GW_TRAIT_SPARSE) != 0;

    snprintf(w->so_far.warning, sizeof w->so_far.warning,
             "step %" PRIu64 ": the loss went from %.3g up to %.3g and does not come "
             "back: lower --lr, or use --clip or --warmup%s (\"When it goes wrong\" in "
             "docs/choosing.md)",
             w->so_far.steps, w->alarm.best, w->alarm.worst,
             sparse ? ", or a longer warmup= or a higher density in --sync" : "");
}

void gwt_worker_watch(gwt_worker *w, double loss)
{
    gw_health health = {.struct_size = sizeof health};

    if (gw_comm_rank(w->comm) != 0 || w->so_far.warning[0] != '\0')
        return;
    if (gwt_alarm_sees(&w->alarm, loss))
        warn_of_loss(w);
    else if (gw_sync_health(w->sync, &health) == GW_OK && health.runs_away)
        snprintf(w->so_far.warning, sizeof w->so_far.warning, "%s", health.warning);
    if (w->so_far.warning[0] != '\0')
        gwt_worker_tell(w, GWT_EVENT_WARNING, loss);
}

/* ---- gathering ---------------------------------------------------------------- */

/* The mean over all workers; NaN if it is empty. Collective. */
static gw_status gather_mean(worker *w, const mean *m, double *out)
{
    float sum[2] = {(float)m->sum, (float)m->count};

    GWT_TRY(gw_allreduce(w->comm, sum, 2));
    *out = sum[1] > 0.0f ? (double)sum[0] / (double)sum[1] : (double)NAN;
    return GW_OK;
}

/* The part of the gradients that merging lost, as a share of what was applied; NaN if
 * the method loses nothing. Collective. */
static gw_status gather_lost(worker *w, double *out)
{
    gw_stats stats = gw_sync_stats(w->sync);
    float lost = (float)stats.lost_mass;

    GWT_TRY(gw_allreduce(w->comm, &lost, 1));
    *out = stats.applied_mass > 0.0 ? (double)lost / stats.applied_mass : (double)NAN;
    return GW_OK;
}

/* The test set at the end; before, the validation set where there is one. */
gw_status gwt_worker_evaluate(gwt_worker *w)
{
    const gwt_data *data = &w->job->data;
    int last = w->so_far.stopped || w->so_far.steps == w->job->total_steps;
    int test = last || data->valid.count == 0;
    double start = gwt_now();

    gw_comm_pause(w->comm);
    GWT_TRY(gwt_evaluate(&w->evaluation, w->comm, data,
                         test ? &data->test : &data->valid, w->model,
                         w->average == NULL, w->average));
    if (test)
        w->evaluated_at = w->so_far.steps;
    w->so_far.eval_s += gwt_now() - start;
    return GW_OK;
}

gw_stats gwt_worker_stats(const gwt_worker *w)
{
    gw_stats stats = gw_sync_stats(w->sync);

    stats.encode_seconds += w->before.encode_seconds;
    stats.wait_seconds += w->before.wait_seconds;
    stats.decode_seconds += w->before.decode_seconds;
    return stats;
}

static void write_sync(gwt_json *j, const worker *w)
{
    gw_stats stats = gwt_worker_stats(w);

    gwt_json_real(j, "encode_s", stats.encode_seconds);
    gwt_json_real(j, "wait_s", stats.wait_seconds);
    gwt_json_real(j, "decode_s", stats.decode_seconds);
    gwt_json_count(j, "bytes_sent", stats.bytes_sent);
    gwt_json_count(j, "messages_sent", stats.messages_sent);
    gwt_json_real(j, "bits_per_param",
                  gwt_bits_per_param(&stats, gwt_model_floats(w->model)));
    gwt_json_real(j, "residual_norm", gw_sync_residual_norm(w->sync));
}

/* Workers that do not change lose nobody. */
static double lost_norm(const worker *w)
{
    return w->job->config.views != NULL ? w->so_far.lost_norm : (double)NAN;
}

/* What was said since the last line; NULL if nothing was. */
static const char *new_warning(worker *w)
{
    if (w->logged_warning || w->so_far.warning[0] == '\0')
        return NULL;
    w->logged_warning = 1;
    return w->so_far.warning;
}

/* Passes on the line of metrics.jsonl that begins at byte `from`. */
static gw_status pass_on(worker *w, long from)
{
    char line[GWT_LOG_LINE_CAP];
    ssize_t len;

    if (w->job->log == 0)
        return GW_OK;
    len = pread(fileno(w->metrics), line, sizeof line - 1, from);
    if (len < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s/metrics.jsonl: %s",
                       w->job->directory, strerror(errno));
    line[len] = '\0';
    return gwt_log_add(&w->logs, w->job, line);
}

static gw_status write_record(worker *w, double loss, int evaluated)
{
    gwt_json j = {.to = w->metrics};
    const gwt_evaluation *v = evaluated ? &w->evaluation : &gwt_evaluation_none;
    long from = ftell(w->metrics);

    gwt_json_open(&j, NULL, '{');
    gwt_json_count(&j, "step", w->so_far.steps);
    gwt_json_real(&j, "epoch", (double)w->so_far.steps / (double)w->job->epoch_steps);
    gwt_json_real(&j, "loss", loss);
    gwt_json_real(&j, "lr", w->lr);
    gwt_json_real(&j, "seconds", gwt_now() - w->began);
    gwt_json_real(&j, "compute_s", w->so_far.compute_s);
    gwt_json_real(&j, "sync_s", w->so_far.sync_s);
    gwt_json_real(&j, "eval_s", w->so_far.eval_s);
    write_sync(&j, w);
    gwt_json_real(&j, "lost_norm", lost_norm(w));
    gwt_json_count(&j, "skipped", w->so_far.skipped);
    gwt_json_text(&j, "evaluated", !evaluated ? NULL : v->valid ? "valid" : "test");
    gwt_json_real(&j, "test_loss", v->loss);
    gwt_json_real(&j, "test_accuracy", v->accuracy);
    gwt_json_real(&j, "test_accuracy_workers", v->workers_accuracy);
    gwt_json_real(&j, "test_loss_workers", v->workers_loss);
    gwt_json_real(&j, "perplexity", v->perplexity);
    gwt_json_real(&j, "perplexity_workers", gwt_workers_perplexity(v));
    gwt_json_real(&j, "drift", v->drift);
    gwt_json_text(&j, "warning", new_warning(w));
    gwt_json_close(&j, '}');
    putc('\n', w->metrics);
    if (fflush(w->metrics) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s/metrics.jsonl: %s",
                       w->job->directory, strerror(errno));
    return pass_on(w, from);
}

/* One line of metrics.jsonl, after an evaluation if one is due. Collective. */
gw_status gwt_worker_record(gwt_worker *w, int evaluation)
{
    double loss;

    GWT_TRY(gather_mean(w, &w->logged, &loss));
    /* The last evaluation may follow a step that has been logged already. */
    if (w->so_far.steps != w->mark_step || w->so_far.steps == 0)
        gwt_worker_tell(w, GWT_EVENT_LOG, loss);
    if (evaluation) {
        GWT_TRY(gwt_worker_evaluate(w));
        gwt_worker_tell(w, GWT_EVENT_EVAL, loss);
    }
    if (w->metrics != NULL)
        GWT_TRY(write_record(w, loss, evaluation));
    gwt_worker_publish(w, 0);
    w->logged = (mean){0};
    w->mark = gwt_now();
    w->mark_step = w->so_far.steps;
    return GW_OK;
}

/* ---- summing up ---------------------------------------------------------------- */

/* What the run has led to. */
const float *gwt_worker_result(const gwt_worker *w)
{
    return w->average != NULL ? w->average : gwt_model_params(w->model);
}

static void fill_results(worker *w, double loss)
{
    gwt_summary *s = &w->so_far;

    s->equal = w->average == NULL;
    s->params = gwt_model_floats(w->model);
    s->epochs = (double)s->steps / (double)w->job->epoch_steps;
    s->stats = gwt_worker_stats(w);
    s->samples_per_s = (double)s->steps * (double)w->job->config.batch *
                       w->job->config.workers / (s->wall_s - s->eval_s);
    s->tokens_per_s = tokens_of(w, s->samples_per_s);
    s->residual_norm = gw_sync_residual_norm(w->sync);
    s->lost_norm = lost_norm(w);
    s->train_loss = loss;
    s->test_loss = w->evaluation.loss;
    s->test_accuracy = w->evaluation.accuracy;
    s->test_accuracy_workers = w->evaluation.workers_accuracy;
    s->test_loss_workers = w->evaluation.workers_loss;
    s->drift = w->evaluation.drift;
    s->perplexity = w->evaluation.perplexity;
    s->perplexity_workers = gwt_workers_perplexity(&w->evaluation);
    snprintf(s->sync, sizeof s->sync, "%s", gw_sync_spec(w->sync));
    snprintf(s->transport, sizeof s->transport, "%s", gw_comm_transport(w->comm));
}

/* Hashes the parameters, then the statistics that an evaluation uses. Collective. */
static gw_status hash_model(worker *w)
{
    const float *last = gwt_worker_result(w);
    size_t n;
    float *stats;
    gw_status st;

    (void)gwt_model_stats(w->model, &n);
    stats = gwt_calloc(n + 1, sizeof *stats, "a model's statistics");
    if (stats == NULL)
        return GW_ERR_NOMEM;
    st = gwt_average_stats(w->comm, w->model, stats);
    w->so_far.model_hash =
        gwt_hash_more(gwt_hash(last, gwt_model_floats(w->model)), stats, n);
    gwt_free(stats);
    return st;
}

static gw_status write_summary(void *arg)
{
    return gwt_rundir_summary(((const worker *)arg)->job);
}

gw_status gwt_worker_sum_up(gwt_worker *w)
{
    double loss;

    w->so_far.wall_s = gwt_now() - w->began;
    GWT_TRY(gather_mean(w, &w->epoch, &loss));
    GWT_TRY(gather_lost(w, &w->so_far.mass_lost));
    GWT_TRY(hash_model(w));
    if (gw_comm_rank(w->comm) == 0) {
        fill_results(w, loss);
        w->job->shared->summary = w->so_far;
    } else if (w->job->config.comm != NULL) {
        /* A process of its own has to know, too. */
        w->job->shared->summary.stopped = w->so_far.stopped;
    }
    return gwt_slow_work(w->comm, w->job->config.timeout, write_summary, w);
}
