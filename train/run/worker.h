/* SPDX-License-Identifier: Apache-2.0
 *
 * worker.h - the state of one worker while it trains. The loop (loop.c) uses it, and
 * checkpoint.c saves and restores it. */
#ifndef GWT_WORKER_H
#define GWT_WORKER_H

#include "run/alarm.h"
#include "run/job.h"
#include "run/log_files.h"
#include "run/stop_together.h"
#include "run/trace_file.h"
#include "watch/metrics_watch.h"

/* A running mean. */
typedef struct gwt_mean {
    double sum, count;
} gwt_mean;

typedef struct gwt_worker {
    const gwt_job *job;
    gw_comm *comm;
    gwt_model *model;
    gw_layout *layout;
    gw_sync *sync;

    float *state;               /* slots of the optimizer, then the average */
    float *slot[GWT_SLOTS_MAX]; /* in state: params floats each */
    float *average;             /* in state, or NULL if models stay equal */
    uint32_t *order;            /* samples of the epoch, as they come */
    uint64_t shuffled;          /* the epoch that order is of, counted from 1 */
    uint32_t *labels;           /* of the batch */
    FILE *metrics;              /* rank 0 only, like the logs */
    gwt_log_files logs;
    gwt_watch *watch; /* of --metrics; NULL: none */
    gwt_metrics_run metrics_run;
    gwt_metrics metrics_now;

    gwt_summary so_far;
    gwt_evaluation evaluation;
    uint64_t applied;           /* steps that were not skipped */
    uint64_t evaluated_at;      /* step of the last evaluation, 0: none */
    double lr;                  /* of the last step */
    gwt_mean logged, epoch;     /* losses since the last record, in this epoch */
    gwt_alarm alarm;            /* of rank 0's loss */
    int logged_warning;         /* it is in the log */
    gwt_trace *trace;           /* NULL: no timeline, or not any more */
    gwt_stop_together together; /* if workers have no shared memory */
    double began, mark;         /* when the run and the current interval began */
    uint64_t mark_step;
    uint64_t saved_at; /* step of the last checkpoint, UINT64_MAX: none */
    double elapsed;    /* of the run, before it was resumed */
    uint64_t log_len;  /* bytes of the log that a resumed run keeps */
    gw_stats before;   /* its seconds, likewise; no counts */
} gwt_worker;

/* ---- what it does by itself (stepping.c) ----------------------------------------- */

/* A batch of the training set. */
typedef struct gwt_batch {
    uint64_t epoch; /* whose order counts */
    size_t first;   /* of its samples, in this order */
    int begins;     /* it is the first of its epoch */
    uint64_t step;  /* for random numbers */
} gwt_batch;

/* Computes the gradient of a batch, up to what is exchanged. */
gw_status gwt_worker_compute(gwt_worker *w, const gwt_batch *batch, gwt_score *score);

/* The learning rate of step t = 0, 1, ..., and the optimizer's step with it. */
double gwt_rate_of(const gwt_job *job, uint64_t t);
void gwt_worker_apply(gwt_worker *w, uint64_t t);

/* Takes the loss of a step into the means; begins: an epoch begins with it. */
void gwt_worker_add_loss(gwt_worker *w, int begins, const gwt_score *score);

/* ---- one worker from start to end (loop.c) ----------------------------------------
 */

/* Makes the model and its layout; then what else belongs to a worker, with room for an
 * average of models if models differ. */
gw_status gwt_worker_make_model(gwt_worker *w);
gw_status gwt_worker_make_buffers(gwt_worker *w, int differ);
gw_sync_options gwt_sync_options_of(const gwt_job *job);
gw_status gwt_worker_take_weights(gwt_worker *w);
gw_status gwt_worker_export(gwt_worker *w);
gw_status gwt_worker_finish(gwt_worker *w);
void gwt_worker_tear_down(gwt_worker *w);

/* ---- what it says of its training (worker_report.c) --------------------------- */

/* Looks at the loss of a step and at the sync on rank 0, and warns once if one of them
 * runs away. begin() is for the first step, or the first after a resume. */
void gwt_worker_watch_begin(gwt_worker *w);
void gwt_worker_watch(gwt_worker *w, double loss);

/* Tells the observer, on rank 0. */
void gwt_worker_tell(gwt_worker *w, gwt_event event, double loss);

/* The test set at the end; before, the validation set where there is one.
 * Collective. */
gw_status gwt_worker_evaluate(gwt_worker *w);

/* One line of metrics.jsonl, after an evaluation if one is due. Collective. */
gw_status gwt_worker_record(gwt_worker *w, int evaluation);

/* Writes the summary. Collective. */
gw_status gwt_worker_sum_up(gwt_worker *w);

/* The statistics of the sync for the whole run so far. */
gw_stats gwt_worker_stats(const gwt_worker *w);

/* ---- --metrics (worker_metrics.c) ---------------------------------------------- */

/* Starts to hand out metrics on rank 0; hands out those of now, after a step or after a
 * line of the log; ends it. */
gw_status gwt_worker_watched(gwt_worker *w);
void gwt_worker_publish(gwt_worker *w, int stepped);
gw_status gwt_worker_unwatched(gwt_worker *w);

/* The parameters that the run has produced. */
const float *gwt_worker_result(const gwt_worker *w);

#endif
