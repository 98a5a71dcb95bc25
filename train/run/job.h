/* SPDX-License-Identifier: Apache-2.0
 *
 * job.h - the internals of a run: what the parent prepares and the workers use. */
#ifndef GWT_JOB_H
#define GWT_JOB_H

#include "data/data.h"
#include "models/model.h"
#include "optim/optimizer.h"
#include "optim/lr_schedule.h"
#include "run/stop.h"
#include "run/train.h"
#include "watch/metrics_place.h"

#include <stdio.h>

/* Memory that the parent shares with all workers. */
typedef struct gwt_shared {
    gwt_stop stop;
    gwt_summary summary; /* written by rank 0 before it ends */
} gwt_shared;

/* The settings that the workers use; --advice may have changed them. */
typedef struct gwt_used {
    char sync[GWT_SPEC_CAP];
    double momentum; /* of the optimizer */
} gwt_used;

/* Read-only once the workers run, except for *shared. */
struct gwt_job {
    gwt_config config;
    const gwt_model_spec *model;
    const gwt_optimizer *optimizer;
    gwt_used used;
    gwt_schedule schedule;
    gwt_data data;
    int augment; /* sum of GWT_AUGMENT_... */
    size_t epoch_steps;
    uint64_t total_steps, log_every;
    uint64_t checkpoint_every; /* steps; 0: never */
    uint64_t eval_every;       /* steps; 0: at the end only */
    int log;                   /* sum of GWT_LOG_... */
    gwt_metrics_place metrics; /* of --metrics; only worker 0's is open */
    char directory[GWT_PATH_CAP];
    int lock; /* open while this run owns the directory; 0: none */
    /* With views: the job and this worker in the file "writer"; 0: not known yet, and
     * while this worker does not write the directory. */
    uint64_t id, token;
    int forced; /* the directory was taken from a worker that keeps its lock */
    char resume[GWT_PATH_CAP + 64]; /* the checkpoint to resume from, "" if none */
    uint64_t resume_step;
    char warnings[2048], notes[1024];
    gwt_shared *shared;
    const gwt_observer *observer;
};

/* Runs one worker from start to end; a gw_body whose arg is the job. */
gw_status gwt_worker_run(gw_comm *comm, void *job);

/* The same where workers come and go (train/elastic), and whether that can be. */
gw_status gwt_elastic_run(gwt_job *job);
gw_status gwt_elastic_check(const gwt_job *job);

/* ---- the run directory (rundir.c) ------------------------------------------ */

/* Sets job->directory, creates it, and checks that it is writable and, without --force,
 * that it has no finished run. */
gw_status gwt_rundir_make(gwt_job *job);

/* Goes on in job->directory, which another worker of the job has made. If one of them
 * keeps the lock, this fails, unless force is not 0. Also fails if the job has ended
 * without this worker, which has written there before. */
gw_status gwt_rundir_take_over(gwt_job *job, int force);

/* Releases the lock on the directory, which this worker does not write any more. */
void gwt_rundir_leave(gwt_job *job);

/* Opens the metrics file and truncates it to whole lines in its first `keep` bytes. */
gw_status gwt_rundir_metrics(const gwt_job *job, uint64_t keep, FILE **out);

/* Writes summary.json, completely or not at all. */
gw_status gwt_rundir_summary(const gwt_job *job);

/* ---- who writes it, with views (elastic/writer.c) ----------------------------- */

/* Makes this worker the writer of job->directory, and makes job->id if it is 0. */
gw_status gwt_writer_sign(gwt_job *job);

/* Fails with GW_ERR_PEER if another worker has become the writer since. GW_OK without
 * views. */
gw_status gwt_writer_check(const gwt_job *job);

/* Whether the writer is, or was, a worker of this job. */
int gwt_writer_of_job(const gwt_job *job);

/* Puts a copy in the place of a file, which others may have open. */
gw_status gwt_writer_renew(const gwt_job *job, const char *name);

/* A new run has no writer yet. */
void gwt_writer_remove(const gwt_job *job);

/* ---- evaluation (evaluate.c) ------------------------------------------------- */

/* The result of an evaluation. */
typedef struct gwt_evaluation {
    double loss, accuracy;   /* of the model, or of the workers' average; there is no
                                accuracy (NaN) where numbers are predicted */
    double workers_accuracy; /* mean of the workers' own; NaN if models are the same */
    double workers_loss;     /* likewise */
    double drift;            /* how far apart they are; NaN likewise */
    double perplexity;       /* exp(loss) of language models; NaN of others */
    int valid;               /* whether that is on the validation set */
} gwt_evaluation;

/* The result before the first evaluation: NaN everywhere. */
extern const gwt_evaluation gwt_evaluation_none;

/* exp() of the mean of the workers' own losses, where perplexity is a number. */
double gwt_workers_perplexity(const gwt_evaluation *evaluation);

/* Evaluates a split of the data on all workers together. equal says whether the
 * models are the same; if not, average receives the mean of the parameters (as many
 * as the model has). Collective. */
gw_status gwt_evaluate(gwt_evaluation *out, gw_comm *comm, const gwt_data *data,
                       const gwt_split *split, gwt_model *model, int equal,
                       float *average);

/* Scores one of `parts` parts of a text (evaluate_text.c). The model must allow batches
 * of at least GWT_EVAL_COLUMNS. */
enum { GWT_EVAL_COLUMNS = 20 };
gw_status gwt_score_text(gwt_score *sum, const gwt_data *data, const gwt_split *split,
                         gwt_model *model, int part, int parts);

/* Sets average (as many floats as gwt_model_stats() has) to the mean of the workers'
 * statistics. Collective. */
gw_status gwt_average_stats(gw_comm *comm, gwt_model *model, float *average);

/* The FNV-1a hash of the bytes of n floats. gwt_hash_more() continues a hash. */
uint64_t gwt_hash(const float *x, size_t n);
uint64_t gwt_hash_more(uint64_t hash, const float *x, size_t n);

#endif
