/* SPDX-License-Identifier: Apache-2.0
 *
 * elastic_enter.c - how a worker comes to the state that all workers have. */
#define _GNU_SOURCE
#include "elastic/elastic.h"
#include "run/agree.h"
#include "run/checkpoint.h"
#include "run/slow_work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int gwt_elastic_lost(gw_status status)
{
    return status == GW_ERR_PEER || status == GW_ERR_TIMEOUT;
}

/* ---- what is handed over besides the model ----------------------------------------
 */

typedef struct baton {
    uint64_t steps, skipped, applied, evaluated_at, rate_at, job;
    double elapsed, lr, lost;
    gwt_evaluation evaluation;
    char directory[GWT_PATH_CAP];
    gwt_used used;
} baton;

/* What was lost when this entry is complete: residuals of different workers are taken
 * to be orthogonal. */
static double lost_after(const gwt_elastic *e, const gw_entry *entry)
{
    return hypot(e->w.so_far.lost_norm, entry->lost);
}

static baton make_baton(const gwt_elastic *e, const gw_entry *entry)
{
    const gwt_worker *w = &e->w;
    baton b = {.steps = w->so_far.steps,
               .skipped = w->so_far.skipped,
               .applied = w->applied,
               .evaluated_at = w->evaluated_at,
               .rate_at = e->rate_at,
               .job = e->job->id,
               .elapsed = gwt_now() - w->began,
               .lr = w->lr,
               .lost = lost_after(e, entry),
               .evaluation = w->evaluation,
               .used = e->job->used};

    memcpy(b.directory, e->job->directory, sizeof b.directory);
    return b;
}

static void take_baton(gwt_elastic *e, const baton *b)
{
    gwt_worker *w = &e->w;

    w->so_far.steps = w->mark_step = b->steps;
    w->so_far.skipped = b->skipped;
    w->applied = b->applied;
    w->evaluated_at = b->evaluated_at;
    w->began = gwt_now() - b->elapsed;
    w->mark = gwt_now();
    w->lr = b->lr;
    w->so_far.lost_norm = b->lost;
    w->evaluation = b->evaluation;
    w->logged = w->epoch = (gwt_mean){0};
    e->rate_at = b->rate_at;
    e->job->id = b->job;
    e->job->used = b->used;
    memcpy(e->job->directory, b->directory, sizeof b->directory);
    e->job->directory[sizeof b->directory - 1] = '\0';
}

static gw_status hand_baton(gwt_elastic *e, gw_comm *comm, const gw_entry *entry)
{
    baton b = make_baton(e, entry);

    GWT_TRY(gw_entry_hand(comm, entry, &b, sizeof b));
    if (entry->joined)
        take_baton(e, &b);
    return GW_OK;
}

static gw_status hand_vectors(gwt_elastic *e, gw_comm *comm, const gw_entry *entry)
{
    gwt_worker *w = &e->w;
    size_t n = gwt_model_floats(w->model) * e->job->optimizer->slots, kept;
    float *stats = gwt_model_kept(w->model, &kept);

    GWT_TRY(gw_entry_hand(comm, entry, stats, kept * sizeof *stats));
    return gw_entry_hand(comm, entry, w->state, n * sizeof *w->state);
}

void gwt_elastic_count(gwt_elastic *e)
{
    uint64_t exchange = gw_sync_exchanged(e->w.sync);

    if (exchange > e->lots.exchange)
        gwt_lots_use(&e->lots, exchange, gw_sync_period(e->w.sync));
}

/* All take the table of the source, which has counted everything that was exchanged. */
static gw_status hand_lots(gwt_elastic *e, gw_comm *comm, const gw_entry *entry)
{
    uint64_t most = (uint64_t)e->job->config.workers;

    if (entry->rank == entry->source) {
        if (entry->number == 1)
            gwt_lots_begin(&e->lots, e->w.so_far.steps * most,
                           gw_sync_exchanged(e->w.sync));
        gwt_elastic_count(e);
        gwt_lots_follow(&e->lots, entry->ids, (size_t)entry->workers,
                        gw_sync_period(e->w.sync));
    }
    GWT_TRY(gw_broadcast(comm, &e->lots, sizeof e->lots, entry->source));
    if (!gwt_lots_good(&e->lots) || e->lots.count != (uint64_t)entry->workers)
        return gw_fail(GW_ERR_DATA, "worker %d sent lots that cannot be used",
                       entry->source);
    return GW_OK;
}

static gw_status hand(void *arg, gw_comm *comm, const gw_entry *entry)
{
    gwt_elastic *e = arg;

    if (entry->number == 1 && entry->rank == entry->source && e->torn)
        return gw_fail(GW_ERR_STOPPED, "all workers that had the model are gone");
    e->torn = e->torn || entry->joined;
    GWT_TRY(hand_baton(e, comm, entry));
    GWT_TRY(hand_vectors(e, comm, entry));
    return hand_lots(e, comm, entry);
}

/* ---- the run directory ------------------------------------------------------------
 */

static void say(const gwt_elastic *e, const char *line)
{
    const gwt_views *views = e->job->config.views;

    if (views->tell != NULL)
        views->tell(views->ctx, line);
}

static gw_status make_directory(void *arg)
{
    gwt_elastic *e = arg;

    /* Those who wait elsewhere keep what is theirs. */
    GWT_TRY(e->job->directory[0] != '\0' ? gwt_rundir_take_over(e->job, !e->alone)
                                         : gwt_rundir_make(e->job));
    return gwt_writer_sign(e->job);
}

static void close_log(gwt_worker *w)
{
    if (w->metrics != NULL)
        fclose(w->metrics);
    w->metrics = NULL;
    gwt_log_close(&w->logs);
}

/* Another worker has the directory from now on. */
static void give_back(gwt_elastic *e)
{
    close_log(&e->w);
    gwt_rundir_leave(e->job);
}

/* Worker 0 has the directory. It may be another worker than before, or one that was
 * away while another one had it. */
static gw_status share_directory(gwt_elastic *e)
{
    gw_comm *comm = e->w.comm;
    int first = gw_comm_rank(comm) == 0, has = 0;

    if (!first)
        give_back(e);
    has = first && gwt_writer_check(e->job) == GW_OK;
    GWT_TRY(gw_broadcast(comm, &has, sizeof has, 0));
    if (has)
        return GW_OK;
    if (first)
        close_log(&e->w);
    GWT_TRY(gwt_agree(comm,
                      gwt_slow_work(comm, e->job->config.timeout, make_directory, e)));
    if (first && e->job->forced)
        say(e,
            "a worker that does not answer keeps the lock on the run directory; this "
            "one writes there now, and that one does not any more");
    return GW_OK;
}

static gw_status open_log(gwt_elastic *e)
{
    gwt_worker *w = &e->w;

    if (gw_comm_rank(w->comm) != 0)
        return GW_OK;
    if (w->metrics != NULL)
        return GW_OK;
    GWT_TRY(gwt_rundir_metrics(e->job, e->trained ? UINT64_MAX / 2 : w->log_len,
                               &w->metrics));
    GWT_TRY(gwt_log_open(&w->logs, e->job, gwt_now() - w->began));
    return w->watch == NULL ? gwt_worker_watched(w) : GW_OK;
}

/* ---- entering ---------------------------------------------------------------------
 */

/* Before anybody has trained: a checkpoint, or weights, if there are any. */
static gw_status begin(gwt_elastic *e)
{
    gwt_worker *w = &e->w;

    GWT_TRY(share_directory(e));
    GWT_TRY(gw_broadcast(w->comm, &e->job->id, sizeof e->job->id, 0));
    if (!e->job->config.resume)
        return gwt_worker_take_weights(w);
    GWT_TRY(gw_broadcast(w->comm, &e->job->used, sizeof e->job->used, 0));
    return gwt_checkpoint_load(w, &w->log_len);
}

static gw_status make_sync(gwt_elastic *e)
{
    gw_sync_options opt = gwt_sync_options_of(e->job);

    if (e->w.sync != NULL)
        return GW_OK;
    return gw_sync_new(&e->w.sync, e->job->used.sync, e->w.layout, e->w.comm, &opt);
}

static void go_on_from(gwt_elastic *e)
{
    gwt_worker *w = &e->w;

    if (!e->entry.joined)
        w->so_far.lost_norm = lost_after(e, &e->entry);
    if (e->entry.joined || !e->trained) {
        e->stage = GWT_COMPUTES;
        e->steps = e->entry.step;
        gwt_uneven_begin(&e->uneven, gwt_model_params(w->model),
                         gwt_model_floats(w->model));
    }
    e->base = gw_sync_exchanged(w->sync);
    /* Whatever follows an exchange depends on what all have in common, and not on how
     * far each of them got after the last one. */
    e->told_at = e->lots.used / (uint64_t)e->job->config.workers;
    w->saved_at = UINT64_MAX;
    e->trained = 1;
    e->torn = 0;
    /* If all of them leave, nobody goes on: the run ends like one that was stopped. */
    e->left = e->entry.left && e->entry.leavers < e->entry.workers;
    if (e->entry.left && !e->left)
        w->so_far.stopped = 1;
}

static void tell(const gwt_elastic *e)
{
    const gw_entry *n = &e->entry;
    char line[200], lost[64] = "", check[24] = "one step behind";

    /* A result that waits to be applied is in nobody's model but that of others. */
    if (e->steps >= gw_sync_exchanged(e->w.sync))
        snprintf(check, sizeof check, "%08" PRIx32, n->check);
    if (n->gone > 0 && n->lost > 0)
        snprintf(lost, sizeof lost, ", residuals of norm %.3g are lost", n->lost);
    snprintf(line, sizeof line,
             "entry %" PRIu64 ": %d worker%s, %d new, %d gone%s; step %" PRIu64
             ", model %s",
             n->number, n->workers, n->workers == 1 ? "" : "s", n->joiners, n->gone,
             lost, gw_sync_exchanged(e->w.sync), check);
    say(e, line);
}

static gw_status enter_view(gwt_elastic *e)
{
    gwt_worker *w = &e->w;
    gw_enter_options opt = {
        .struct_size = sizeof opt, .leaves = e->leaves, .hand = hand, .arg = e};
    int any_trained;

    e->entry.struct_size = sizeof e->entry;
    if (e->job->config.link != NULL)
        GWT_TRY(gw_comm_link(w->comm, e->job->config.link));
    GWT_TRY(gwt_agree_entering(e->job, w->comm, e->trained, &any_trained));
    GWT_TRY(make_sync(e));
    if (!any_trained)
        GWT_TRY(begin(e));
    GWT_TRY(
        gw_sync_enter(&w->sync, w->comm, gwt_model_params(w->model), &opt, &e->entry));
    go_on_from(e);
    if (e->left) {
        give_back(e);
        return GW_OK;
    }
    GWT_TRY(share_directory(e));
    GWT_TRY(open_log(e));
    tell(e);
    return GW_OK;
}

/* What this worker has not sent goes nowhere: others wait for more workers, or for the
 * meeting, and one of them has the run directory. */
static gw_status leave_behind(const gwt_elastic *e)
{
    char line[160];

    snprintf(line, sizeof line,
             "this worker leaves others that wait; a residual of norm %.3g is lost",
             gw_sync_residual_norm(e->w.sync));
    say(e, line);
    return gw_fail(GW_ERR_STOPPED, "this worker has left");
}

/* A worker that was asked to leave, and has no others to hand anything over to, goes on
 * alone to its next exchange, and ends there like one that was alone before. */
static gw_status next_comm(gwt_elastic *e)
{
    const gwt_views *views = e->job->config.views;
    gwt_worker *w = &e->w;
    gw_comm_options opt = {.struct_size = sizeof opt,
                           .timeout_seconds = e->job->config.timeout};
    const int none = -1;

    gw_comm_free(w->comm);
    w->comm = NULL;
    e->leaves = gwt_elastic_may_leave(e) && gwt_stop_requested(&e->job->shared->stop);
    gw_status st = views->next(views->ctx, &w->comm);
    e->alone = st == GW_ERR_STOPPED && e->trained;
    if (e->alone) {
        e->leaves = 0;
        st = gw_comm_sockets(&w->comm, &none, NULL, 0, 1, &opt);
    }
    e->job->config.comm = w->comm;
    return st;
}

gw_status gwt_elastic_enter(gwt_elastic *e)
{
    double since = gwt_now();
    gw_status st;

    do {
        GWT_TRY(next_comm(e));
        st = enter_view(e);
        if (st != GW_OK && e->alone)
            return leave_behind(e);
    } while (gwt_elastic_lost(st) ||
             (st == GW_OK && e->entry.leavers > 0 && !e->entry.left));
    e->waited += gwt_now() - since;
    return st;
}
