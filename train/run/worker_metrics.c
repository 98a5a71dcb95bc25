/* SPDX-License-Identifier: Apache-2.0
 *
 * worker_metrics.c - hands the figures of worker 0 to the thread of --metrics. */
#define _GNU_SOURCE
#include "run/worker.h"

#include <math.h>
#include <time.h>

static double seconds_since_1970(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void take_work(gwt_metrics *m, const gwt_worker *w)
{
    const gwt_job *job = w->job;
    double batch = (double)job->config.batch * job->config.workers;

    m->steps = (double)w->so_far.steps;
    m->planned_steps = (double)job->total_steps;
    m->skipped_steps = (double)w->so_far.skipped;
    m->epochs = m->steps / (double)job->epoch_steps;
    m->samples = m->steps * batch;
    m->tokens =
        job->data.text ? m->samples * (double)job->config.sequence : (double)NAN;
    m->lr = w->so_far.steps > 0 ? w->lr : (double)NAN;
    if (w->logged.count > 0.0)
        m->loss = w->logged.sum / w->logged.count;
    m->warning = w->so_far.warning[0] != '\0';
}

static void take_costs(gwt_metrics *m, const gwt_worker *w)
{
    gw_stats stats = gwt_worker_stats(w);

    m->run_s = gwt_now() - w->began;
    m->compute_s = w->so_far.compute_s;
    m->sync_s = w->so_far.sync_s;
    m->eval_s = w->so_far.eval_s;
    m->encode_s = stats.encode_seconds;
    m->wait_s = stats.wait_seconds;
    m->decode_s = stats.decode_seconds;
    m->sent_bytes = (double)stats.bytes_sent;
    m->received_bytes = (double)stats.bytes_received;
    m->sent_messages = (double)stats.messages_sent;
}

static void take_results(gwt_metrics *m, const gwt_worker *w)
{
    m->test_loss = w->evaluation.loss;
    m->test_accuracy = w->evaluation.accuracy;
    m->perplexity = w->evaluation.perplexity;
    m->drift = w->evaluation.drift;
    m->valid = w->evaluation.valid;
}

static void take_all(gwt_worker *w)
{
    gwt_metrics *m = &w->metrics_now;

    take_work(m, w);
    take_costs(m, w);
    take_results(m, w);
}

gw_status gwt_worker_watched(gwt_worker *w)
{
    const gwt_config *c = &w->job->config;

    if (gw_comm_rank(w->comm) != 0)
        return GW_OK;
    w->metrics_run = (gwt_metrics_run){
        .model = c->model,
        .data = c->data,
        .sync = gw_sync_spec(w->sync),
        .optimizer = c->optimizer,
        .link = c->link,
        .directory = w->job->directory,
        .version = gw_version(),
        .workers = c->workers,
    };
    w->metrics_now = (gwt_metrics){.started = seconds_since_1970(),
                                   .stepped = (double)NAN,
                                   .loss = (double)NAN,
                                   .residual_norm = (double)NAN};
    take_all(w);
    return gwt_watch_start(&w->watch, &w->job->metrics, &w->metrics_run,
                           &w->metrics_now);
}

void gwt_worker_publish(gwt_worker *w, int stepped)
{
    if (w->watch == NULL)
        return;
    take_all(w);
    if (stepped)
        w->metrics_now.stepped = seconds_since_1970();
    else
        w->metrics_now.residual_norm = gw_sync_residual_norm(w->sync);
    gwt_watch_update(w->watch, &w->metrics_now);
}

gw_status gwt_worker_unwatched(gwt_worker *w)
{
    gwt_watch *watch = w->watch;

    w->watch = NULL;
    return gwt_watch_end(watch);
}
