/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.h - reads run directories. Tables and pages are made only from these files, so
 * every figure can be traced. */
#ifndef GWC_RUNS_H
#define GWC_RUNS_H

#include "json_read.h"

/* What is kept of each line of metrics.jsonl; the keys are in runs.c. Seconds are kept
 * without those of evaluations, which are not part of training. */
typedef enum gwc_series {
    GWC_STEP,
    GWC_SECONDS,
    GWC_BYTES_SENT,
    GWC_LOSS,
    GWC_TEST_ACCURACY,
    GWC_TEST_LOSS,
    GWC_PERPLEXITY,
    GWC_RESIDUAL_NORM,
    GWC_DRIFT,
    GWC_SHOWN, /* those before it are on the page */
    GWC_COMPUTE_S = GWC_SHOWN,
    GWC_SYNC_S,
    GWC_EVAL_S,
    GWC_SERIES
} gwc_series;

extern const char *const gwc_series_key[GWC_SERIES];

enum { GWC_RUN_NAME_CAP = 512, GWC_SETTINGS_MAX = 96, GWC_NOTE_CAP = 640 };

/* One value of summary.json. */
typedef struct gwc_setting {
    char *key, *text; /* text: NULL unless it is one */
    gwc_json_kind kind;
    double number; /* NaN if it is none */
} gwc_setting;

typedef struct gwc_run {
    char *directory;
    char name[GWC_RUN_NAME_CAP]; /* for people; see gwc_runs_name() */
    gwc_setting setting[GWC_SETTINGS_MAX];
    size_t settings;
    size_t points;             /* records of metrics.jsonl */
    double *point[GWC_SERIES]; /* NaN where a record has null */
    char note[GWC_NOTE_CAP];   /* what is wrong with it, "" if nothing */
    int finished;              /* has a summary, and was not stopped */
    int validated;             /* a record is of the validation set */
} gwc_run;

/* Reads the run in a directory. Damaged parts are left out, and run->note says which.
 * It fails only if nothing can be read (GW_ERR_DATA, GW_ERR_SYSTEM). Call
 * gwc_run_free() even after a failure. */
gw_status gwc_run_read(gwc_run *run, const char *directory);
void gwc_run_free(gwc_run *run);

/* Values of the summary: NaN and NULL if the key is not there or is null. */
double gwc_run_number(const gwc_run *run, const char *key);
const char *gwc_run_text(const gwc_run *run, const char *key);

/* Per step, of worker 0; NaN if the summary does not say. */
double gwc_run_per_step(const gwc_run *run, const char *key);

/* Time of a step: computing and synchronising, without tests and the log. */
double gwc_run_step_seconds(const gwc_run *run);

/* The same in the second half of the run, past what is different at its beginning:
 * bytes that worker 0 sent per step, and the time of a step. Those of the whole run if
 * nothing was recorded in the middle of it. */
double gwc_run_later_bytes(const gwc_run *run);
double gwc_run_later_seconds(const gwc_run *run);

/* Seconds until the test accuracy first reached target, NaN if it never did. */
double gwc_run_time_to(const gwc_run *run, double target);

/* Names the runs by method. If that does not tell them apart, adds link, number of
 * workers, model, rate, momentum, seed and finally directory, as far as needed. */
void gwc_runs_name(gwc_run *runs, size_t count);

#endif
