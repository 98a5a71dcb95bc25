/* SPDX-License-Identifier: Apache-2.0
 *
 * runs.c - reads run directories. */
#define _GNU_SOURCE
#include "report/runs.h"
#include "common.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_CAP = 4352 };

/* A larger file is not a log of a run. */
static const off_t file_most = (off_t)1 << 30;

const char *const gwc_series_key[GWC_SERIES] = {
    [GWC_STEP] = "step",
    [GWC_SECONDS] = "seconds",
    [GWC_BYTES_SENT] = "bytes_sent",
    [GWC_LOSS] = "loss",
    [GWC_TEST_ACCURACY] = "test_accuracy",
    [GWC_TEST_LOSS] = "test_loss",
    [GWC_PERPLEXITY] = "perplexity",
    [GWC_RESIDUAL_NORM] = "residual_norm",
    [GWC_DRIFT] = "drift",
    [GWC_COMPUTE_S] = "compute_s",
    [GWC_SYNC_S] = "sync_s",
    [GWC_EVAL_S] = "eval_s",
};

/* ---- files -------------------------------------------------------------------- */

static char *copy_text(const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = gwt_calloc(len, 1, "a run's settings");

    if (copy != NULL)
        memcpy(copy, text, len);
    return copy;
}

static gw_status read_stream(FILE *file, const char *path, char **out, size_t *len)
{
    struct stat st;

    if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode))
        return gw_fail(GW_ERR_DATA, "%s is not a regular file", path);
    if (st.st_size > file_most)
        return gw_fail(GW_ERR_DATA, "%s is too large to be a file of a run", path);
    *out = gwt_calloc((size_t)st.st_size + 1, 1, "a run's files");
    if (*out == NULL)
        return GW_ERR_NOMEM;
    *len = fread(*out, 1, (size_t)st.st_size, file);
    if (ferror(file))
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    return GW_OK;
}

/* The contents of DIRECTORY/NAME; *out is released by gwt_free(), and NULL if the
 * file is not there. */
static gw_status read_file(const char *directory, const char *name, char **out,
                           size_t *len)
{
    char path[PATH_CAP];
    FILE *file;
    gw_status st;

    *out = NULL;
    *len = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    file = fopen(path, "rb");
    if (file == NULL && errno == ENOENT)
        return GW_OK;
    if (file == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    st = read_stream(file, path, out, len);
    fclose(file);
    return st;
}

/* Appends to the run's note, and truncates it if it is too long. */
static void note(gwc_run *run, const char *file, const char *what)
{
    size_t len = strlen(run->note);

    snprintf(run->note + len, sizeof run->note - len, "%s%s: %s", len > 0 ? "; " : "",
             file, what);
}

/* ---- summary.json ------------------------------------------------------------- */

static gw_status keep_setting(void *arg, const char *key, const gwc_json_value *value)
{
    gwc_run *run = arg;

    if (run->settings == GWC_SETTINGS_MAX)
        return gw_fail(GW_ERR_DATA, "the object has more than %d keys",
                       GWC_SETTINGS_MAX);
    gwc_setting *s = &run->setting[run->settings++];
    s->kind = value->kind;
    s->number = value->kind == GWC_JSON_NUMBER || value->kind == GWC_JSON_BOOL
                    ? value->number
                    : (double)NAN;
    s->key = copy_text(key);
    if (value->kind == GWC_JSON_TEXT)
        s->text = copy_text(value->text);
    if (s->key == NULL || (value->kind == GWC_JSON_TEXT && s->text == NULL)) {
        run->settings--;
        gwt_free(s->key);
        gwt_free(s->text);
        *s = (gwc_setting){0};
        return GW_ERR_NOMEM;
    }
    return GW_OK;
}

static gw_status read_summary(gwc_run *run)
{
    char *text;
    size_t len;
    gw_status st = read_file(run->directory, "summary.json", &text, &len);

    if (st == GW_OK && text == NULL)
        note(run, "summary.json", "missing; the run failed or has not finished");
    if (st == GW_OK && text != NULL)
        st = gwc_json_object(text, len, keep_setting, run);
    gwt_free(text);
    if (st == GW_ERR_NOMEM)
        return st;
    if (st != GW_OK)
        note(run, "summary.json", gw_error_message());
    run->finished = st == GW_OK && gwc_run_number(run, "stopped") == 0.0;
    return GW_OK;
}

/* ---- metrics.jsonl ------------------------------------------------------------ */

static gw_status keep_value(void *arg, const char *key, const gwc_json_value *value)
{
    gwc_run *run = arg;

    if (value->kind == GWC_JSON_TEXT && strcmp(key, "evaluated") == 0 &&
        strcmp(value->text, "valid") == 0)
        run->validated = 1;
    if (value->kind != GWC_JSON_NUMBER)
        return GW_OK;
    for (int s = 0; s < GWC_SERIES; s++)
        if (strcmp(key, gwc_series_key[s]) == 0)
            run->point[s][run->points] = value->number;
    return GW_OK;
}

/* A record counts if it says its step, and steps do not go back. */
static int record_is_sound(const gwc_run *run)
{
    double step = run->point[GWC_STEP][run->points];

    return step >= 0.0 &&
           (run->points == 0 || step >= run->point[GWC_STEP][run->points - 1]);
}

/* Older records do not say how long evaluations took. */
static void leave_out_evaluations(gwc_run *run)
{
    for (size_t i = 0; i < run->points; i++)
        if (run->point[GWC_EVAL_S][i] > 0.0)
            run->point[GWC_SECONDS][i] -= run->point[GWC_EVAL_S][i];
}

static gw_status make_room(gwc_run *run, size_t records)
{
    double *all = gwt_calloc(records * GWC_SERIES, sizeof *all, "a run's records");

    if (all == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < records * GWC_SERIES; i++)
        all[i] = (double)NAN;
    for (int s = 0; s < GWC_SERIES; s++)
        run->point[s] = all + (size_t)s * records;
    return GW_OK;
}

static void forget_record(gwc_run *run)
{
    for (int s = 0; s < GWC_SERIES; s++)
        run->point[s][run->points] = (double)NAN;
}

/* Reads all lines and returns the number of those that are not records. */
static size_t read_lines(gwc_run *run, const char *text, size_t len)
{
    const char *end = text + len;
    size_t bad = 0;

    for (const char *line = text, *next; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        next = next != NULL ? next : end;
        if (next == line)
            continue;
        if (gwc_json_object(line, (size_t)(next - line), keep_value, run) == GW_OK &&
            record_is_sound(run)) {
            run->points++;
            continue;
        }
        forget_record(run);
        bad++;
    }
    return bad;
}

static gw_status read_metrics(gwc_run *run)
{
    char *text, what[96];
    size_t len, lines = 1, bad;
    gw_status st = read_file(run->directory, "metrics.jsonl", &text, &len);

    if (st == GW_OK && text == NULL)
        note(run, "metrics.jsonl", "missing");
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    if (st == GW_OK)
        st = make_room(run, lines + 1);
    if (st == GW_OK && text != NULL && (bad = read_lines(run, text, len)) > 0) {
        snprintf(what, sizeof what, "left out %zu line%s that %s", bad,
                 bad == 1 ? "" : "s", bad == 1 ? "is not a record" : "are not records");
        note(run, "metrics.jsonl", what);
    }
    gwt_free(text);
    if (st == GW_OK)
        leave_out_evaluations(run);
    if (st == GW_ERR_SYSTEM || st == GW_ERR_DATA) {
        note(run, "metrics.jsonl", gw_error_message());
        st = make_room(run, 1);
    }
    return st;
}

/* ---- a run -------------------------------------------------------------------- */

gw_status gwc_run_read(gwc_run *run, const char *directory)
{
    *run = (gwc_run){0};
    run->directory = copy_text(directory);
    if (run->directory == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(read_summary(run));
    GWT_TRY(read_metrics(run));
    if (run->settings == 0 && run->points == 0)
        return gw_fail(GW_ERR_DATA, "%s is not a run directory: %s", directory,
                       run->note);
    return GW_OK;
}

void gwc_run_free(gwc_run *run)
{
    for (size_t i = 0; i < run->settings; i++) {
        gwt_free(run->setting[i].key);
        gwt_free(run->setting[i].text);
    }
    gwt_free(run->point[0]);
    gwt_free(run->directory);
    *run = (gwc_run){0};
}

static const gwc_setting *find(const gwc_run *run, const char *key)
{
    for (size_t i = 0; i < run->settings; i++)
        if (strcmp(run->setting[i].key, key) == 0)
            return &run->setting[i];
    return NULL;
}

double gwc_run_number(const gwc_run *run, const char *key)
{
    const gwc_setting *s = find(run, key);

    return s != NULL ? s->number : (double)NAN;
}

const char *gwc_run_text(const gwc_run *run, const char *key)
{
    const gwc_setting *s = find(run, key);

    return s != NULL ? s->text : NULL;
}

double gwc_run_per_step(const gwc_run *run, const char *key)
{
    double steps = gwc_run_number(run, "steps");

    return steps > 0.0 ? gwc_run_number(run, key) / steps : (double)NAN;
}

double gwc_run_step_seconds(const gwc_run *run)
{
    return gwc_run_per_step(run, "compute_s") + gwc_run_per_step(run, "sync_s");
}

/* The record in the middle of the run; NULL if there is none before the end. */
static const double *middle(const gwc_run *run, gwc_series series, double *step)
{
    double steps = gwc_run_number(run, "steps");

    for (size_t i = 0; i < run->points; i++) {
        *step = run->point[GWC_STEP][i];
        if (*step >= steps / 2 && *step < steps)
            return &run->point[series][i];
    }
    return NULL;
}

/* What was added to a sum per step since then. */
static double later(const gwc_run *run, gwc_series series)
{
    double step, all = gwc_run_number(run, gwc_series_key[series]);
    const double *before = middle(run, series, &step);

    if (before == NULL || isnan(*before))
        return gwc_run_per_step(run, gwc_series_key[series]);
    return (all - *before) / (gwc_run_number(run, "steps") - step);
}

double gwc_run_later_bytes(const gwc_run *run)
{
    return later(run, GWC_BYTES_SENT);
}

double gwc_run_later_seconds(const gwc_run *run)
{
    return later(run, GWC_COMPUTE_S) + later(run, GWC_SYNC_S);
}

double gwc_run_time_to(const gwc_run *run, double target)
{
    for (size_t i = 0; i < run->points; i++)
        if (run->point[GWC_TEST_ACCURACY][i] >= target)
            return run->point[GWC_SECONDS][i];
    return (double)NAN;
}
