/* SPDX-License-Identifier: Apache-2.0
 *
 * train.h - one training run, from its settings to its summary. The command is
 * built on this header.
 *
 *     gwt_job_new()       checks every setting, loads the data, makes the directory
 *     gwt_job_run()       starts the workers and waits for them
 *     gwt_job_summary()   what came out
 */
#ifndef GWT_TRAIN_H
#define GWT_TRAIN_H

#include "optim/optimizer.h"

#include <stdio.h>

enum {
    GWT_SPEC_CAP = 256,
    GWT_NAME_CAP = 64,
    GWT_WARNING_CAP = 320,
    GWT_SETTINGS_CAP = 16384
};

/* How training images are augmented; AUTO is what is usual for the data set. */
typedef enum gwt_augment_word {
    GWT_AUGMENT_WORD_AUTO,
    GWT_AUGMENT_WORD_NONE,
    GWT_AUGMENT_WORD_CROP,
    GWT_AUGMENT_WORD_FLIP,
    GWT_AUGMENT_WORD_BOTH,
} gwt_augment_word;

/* Where the workers of a job come from that may die, join and leave. */
typedef struct gwt_views {
    void *ctx;
    /* Waits for enough workers and makes a comm of all that are there. */
    gw_status (*next)(void *ctx, gw_comm **out);
    /* Returns whether others should be let in, or are gone. */
    int (*due)(void *ctx);
    /* Says one line about the workers that are there now. */
    void (*tell)(void *ctx, const char *line);
} gwt_views;

/* Settings, with their names on the command line. Strings are borrowed until
 * gwt_job_free(). 0 or NULL is a valid value only where a comment says so. */
typedef struct gwt_config {
    const char *model, *data;
    const char *data_dir; /* NULL: see data.c */
    const char *sync;
    int advice;            /* 1: use the spec that gw_spec_advise() returns */
    const char *link;      /* NULL: do not emulate a network */
    const char *optimizer; /* its name; optimizer.c has all */
    const char *schedule, *warmup;
    const char *out;              /* run directory; NULL: a new one under runs/ */
    int force;                    /* overwrite a run in out */
    const char *checkpoint_every; /* a length, see gwt_parse_length(); NULL: never */
    int keep;                     /* number of checkpoints to keep */
    int resume;                   /* resume from the newest checkpoint in out */
    const char *init;             /* initial weights, safetensors; NULL: random */
    const char *export_to;        /* file for the trained weights; NULL: none */
    const char *record_to;        /* file for the last step's gradient; NULL: none */
    int workers;
    int least; /* workers that a job with views needs */
    int spawn /* gw_spawn */, threads;
    gw_comm *comm; /* this process is one worker of it, and `workers` is their number;
                      NULL: gwt_job_run() starts the workers */
    const gwt_views *views; /* this process is one worker of a job with at most
                               `workers`, which may change; NULL: they do not */
    int uneven;             /* with views: slower workers make fewer local steps */
    double pace;            /* with views: a step takes so many seconds at least */
    int native;             /* comm uses its transport's own all-reduce */
    double timeout;
    uint64_t epochs;
    uint64_t steps; /* instead of epochs, if not 0 */
    uint64_t limit; /* use only so many training samples, the first ones; 0: all */
    uint64_t batch; /* per worker */
    uint64_t seed;
    const char *metrics; /* file or port for OpenMetrics text; NULL: none */
    const char *log;     /* other formats of the log, a list with commas; NULL: none */
    uint64_t log_every;  /* steps; 0: about fifty times in the run */
    const char *eval_every; /* a length, too; "0" or NULL: at the end only */
    double lr;
    gwt_hyper hyper;      /* momentum and the like */
    double clip;          /* largest norm of a gradient; 0: no limit */
    double dropout;       /* fraction of values dropped in language models */
    uint64_t sequence;    /* tokens of a sample of text */
    int nonfinite;        /* gw_nonfinite */
    int augment;          /* gwt_augment_word */
    const char *trace;    /* file for a timeline of the first steps; NULL: none */
    uint64_t trace_steps; /* steps in the timeline */
} gwt_config;

/* What a run was and what came out, as in summary.json; docs/runs.md explains each.
 * Counts and seconds are those of rank 0. NaN stands for "does not apply". */
typedef struct gwt_summary {
    char sync[GWT_SPEC_CAP], transport[GWT_NAME_CAP];
    int equal;              /* whether the workers' models stay the same */
    uint64_t params, steps; /* steps: done, the skipped ones included */
    uint64_t skipped;
    double epochs; /* steps by steps of an epoch */
    double wall_s, compute_s, sync_s, eval_s;
    double samples_per_s, tokens_per_s; /* of all workers, without evaluations */
    gw_stats stats;
    double residual_norm; /* of rank 0, at the end */
    double mass_lost;     /* by all workers, as a share of what was applied */
    double lost_norm;     /* of the residuals of workers that are gone */
    double train_loss;    /* mean over the last epoch, or what there was of it */
    double test_loss, test_accuracy, test_accuracy_workers, drift;
    double test_loss_workers; /* mean of the workers' own, like the accuracy */
    double perplexity, perplexity_workers;
    uint64_t model_hash;
    int stopped;                   /* by gwt_job_stop() */
    int left;                      /* this worker left, and others go on */
    int first;                     /* this process was worker 0 of changing ones */
    char warning[GWT_WARNING_CAP]; /* what ran away first, and what to do; "" */
} gwt_summary;

typedef enum gwt_event {
    GWT_EVENT_STEP,    /* after every step; loss is rank 0's own */
    GWT_EVENT_LOG,     /* a line was added to metrics.jsonl; loss is over all workers */
    GWT_EVENT_EVAL,    /* the test set was evaluated */
    GWT_EVENT_WARNING, /* the residual or the loss runs away; once in a run */
} gwt_event;

/* The progress of a run, after `step` of `steps`. */
typedef struct gwt_progress {
    uint64_t step, steps;
    double epoch; /* epochs done, with fraction */
    double loss, lr;
    double seconds; /* since the first step began */
    double samples; /* per second, over all workers, since the last event LOG */
    double tokens;  /* the same in tokens of text; NaN for other data */
    double test_loss, test_accuracy; /* the last known, NaN before that */
    double perplexity;               /* of language models, else NaN */
    int valid;                       /* whether these are on the validation set */
    uint64_t bytes_sent;             /* by rank 0 for synchronisation, so far */
    const char *warning;             /* as in the summary; "" */
} gwt_progress;

/* Called on rank 0, in that worker's process or thread, with the progress of the
 * run. */
typedef struct gwt_observer {
    void (*tell)(void *arg, gwt_event event, const gwt_progress *progress);
    void *arg;
} gwt_observer;

typedef struct gwt_job gwt_job;

/* Checks that model, data set, method, link, optimizer and schedules exist. Reads no
 * file. GW_ERR_ARG, GW_ERR_SPEC, GW_ERR_NOMEM. */
gw_status gwt_config_check(const gwt_config *config);

/* If config resumes a run, sets flags to lines "--flag value" with the settings of its
 * newest good checkpoint, otherwise to "". It uses only config's resume, out, comm and
 * timeout; with comm all workers call it together, and only worker 0 reads. If no
 * checkpoint is good, flags is "" as well, and gwt_job_new() says what is wrong with
 * them. GW_ERR_ARG, GW_ERR_SYSTEM: there is nothing to resume. */
gw_status gwt_resume_flags(const gwt_config *config, char flags[GWT_SETTINGS_CAP]);

/* Prepares a run: loads the data and creates the run directory, but starts nothing. On
 * success the caller releases *out with gwt_job_free(). GW_ERR_ARG and GW_ERR_SPEC mean
 * that a setting is wrong. With config->comm, all its workers call it together, and
 * their settings are compared: it succeeds on all, or fails on all with the same
 * message (unless comm itself fails). */
gw_status gwt_job_new(gwt_job **out, const gwt_config *config);
void gwt_job_free(gwt_job *job);

/* Runs the job; call it once. observer may be NULL. GW_OK if the run finished or was
 * stopped. Otherwise returns the status of gw_local_run() or, with config->comm, this
 * worker's failure, which the other workers have been told about. */
gw_status gwt_job_run(gwt_job *job, const gwt_observer *observer);

/* Asks a run to stop. All workers end after the same step, one or two from now at most,
 * evaluate, and write the summary. It is safe in signal handlers, in any thread and in
 * any process of the job. */
void gwt_job_stop(gwt_job *job);

/* The result, once gwt_job_run() has succeeded; valid as long as the job. */
const gwt_summary *gwt_job_summary(const gwt_job *job);
const char *gwt_job_directory(const gwt_job *job);

/* The spec that workers use; warnings, one per line, or ""; what --advice changed and
 * why, in one line, or ""; what to know about the data, in one line, or ""; where
 * metrics are handed out, or ""; and the checkpoint that the run resumes from, or NULL,
 * with its step. All are valid as soon as the job is made. */
const char *gwt_job_sync(const gwt_job *job);
const char *gwt_job_warnings(const gwt_job *job);
const char *gwt_job_notes(const gwt_job *job);
const char *gwt_job_data_note(const gwt_job *job);
const char *gwt_job_metrics(const gwt_job *job);
const char *gwt_job_resumed(const gwt_job *job, uint64_t *step);

/* Writes the summary as JSON, as in summary.json, to a stream. */
void gwt_job_print(const gwt_job *job, FILE *stream);

/* Bits that a worker sent per parameter and step, on average. */
double gwt_bits_per_param(const gw_stats *stats, uint64_t params);

/* The bytes that dense synchronisation sends per step and worker: the payload of a ring
 * all-reduce. 0 for one worker. */
double gwt_dense_bytes(uint64_t params, int workers);

#endif
