/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_dir.c - the checkpoints in a run directory: checkpoint-000001.gwc and so
 * on; the highest number is the newest. The numbers are not steps, because a job that
 * is resumed with another number of workers counts its steps differently. */
#define _GNU_SOURCE
#include "run/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX  "checkpoint-"
#define SUFFIX  ".gwc"
#define PARTIAL "checkpoint.partial"
#define DAMAGED ".damaged"

static void name_in(char path[GWT_FILE_CAP], const char *directory, uint64_t number,
                    const char *end)
{
    snprintf(path, GWT_FILE_CAP, "%s/" PREFIX "%06" PRIu64 SUFFIX "%s", directory,
             number, end);
}

static void path_of(char path[GWT_FILE_CAP], const gwt_job *job, uint64_t number,
                    const char *end)
{
    name_in(path, job->directory, number, end);
}

static void partial_path(char path[GWT_FILE_CAP], const gwt_job *job)
{
    if (job->token == 0)
        snprintf(path, GWT_FILE_CAP, "%s/" PARTIAL, job->directory);
    else /* a former writer may still have its own */
        snprintf(path, GWT_FILE_CAP, "%s/" PREFIX "%016" PRIx64 ".partial",
                 job->directory, job->token);
}

/* The number in the name of a checkpoint; 0 for any other file. */
static uint64_t number_of(const char *name)
{
    uint64_t number = 0;
    size_t digits;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    name += strlen(PREFIX);
    digits = strspn(name, "0123456789");
    if (digits == 0 || digits > 18 || strcmp(name + digits, SUFFIX) != 0)
        return 0;
    for (size_t i = 0; i < digits; i++)
        number = 10 * number + (uint64_t)(name[i] - '0');
    return number;
}

/* The highest number below `below`, 0 if there is none. */
static uint64_t newest_in(const char *directory, uint64_t below)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;
    uint64_t best = 0;

    if (stream == NULL)
        return 0;
    while ((entry = readdir(stream)) != NULL) {
        uint64_t number = number_of(entry->d_name);
        if (number < below && number > best)
            best = number;
    }
    closedir(stream);
    return best;
}

static uint64_t newest(const gwt_job *job, uint64_t below)
{
    return newest_in(job->directory, below);
}

gw_status gwt_checkpoints_next(const gwt_job *job, char path[GWT_FILE_CAP],
                               char partial[GWT_FILE_CAP])
{
    path_of(path, job, newest(job, UINT64_MAX) + 1, "");
    partial_path(partial, job);
    return GW_OK;
}

static void remove_number(const gwt_job *job, uint64_t number)
{
    char path[GWT_FILE_CAP];

    path_of(path, job, number, "");
    unlink(path);
}

void gwt_checkpoints_prune(const gwt_job *job)
{
    uint64_t number = UINT64_MAX;

    for (int i = 0; i < job->config.keep && number != 0; i++)
        number = newest(job, number);
    while (number != 0 && (number = newest(job, number)) != 0)
        remove_number(job, number);
}

int gwt_checkpoints_any(const gwt_job *job)
{
    return newest(job, UINT64_MAX) != 0;
}

int gwt_checkpoints_any_in(const char *directory)
{
    return newest_in(directory, UINT64_MAX) != 0;
}

void gwt_checkpoints_clear(const gwt_job *job)
{
    char path[GWT_FILE_CAP];
    uint64_t number;

    partial_path(path, job);
    unlink(path);
    while ((number = newest(job, UINT64_MAX)) != 0) {
        path_of(path, job, number, "");
        if (unlink(path) != 0)
            return;
    }
}

/* ---- --resume ------------------------------------------------------------------- */

static void warn(gwt_job *job, const char *format, const char *what)
{
    size_t len = strlen(job->warnings);

    snprintf(job->warnings + len, sizeof job->warnings - len, format, what);
}

/* Renames damaged files, since new checkpoints will be newer than they are. They are
 * never removed, in case somebody can use them. */
static gw_status set_aside(const gwt_job *job, uint64_t number)
{
    char path[GWT_FILE_CAP], aside[GWT_FILE_CAP];

    for (uint64_t bad = UINT64_MAX; (bad = newest(job, bad)) > number;) {
        path_of(path, job, bad, "");
        path_of(aside, job, bad, DAMAGED);
        if (rename(path, aside) != 0)
            return gw_fail(
                GW_ERR_SYSTEM,
                "%s is damaged and cannot be renamed to %s: %s; move it away", path,
                aside, strerror(errno));
    }
    return GW_OK;
}

gw_status gwt_checkpoint_settings(const gwt_sections *in, char text[GWT_SETTINGS_CAP],
                                  size_t *len)
{
    const gwt_section *section = gwt_sections_find(in, GWT_KIND_SETTINGS, 0);

    if (section->len > GWT_SETTINGS_CAP)
        return gw_fail(GW_ERR_DATA, "the settings in %s are too long", in->from.name);
    *len = (size_t)section->len;
    return gwt_sections_read(in, section, 0, text, *len);
}

static gw_status check_settings(gwt_job *job, const gwt_sections *in)
{
    char text[GWT_SETTINGS_CAP];
    size_t len;

    GWT_TRY(gwt_checkpoint_settings(in, text, &len));
    if (gwt_settings_lack_threads(text, len))
        warn(job,
             "%s does not record its --threads; with another number, the model becomes "
             "a different one\n",
             in->from.name);
    GWT_TRY(gwt_settings_take(job, in->from.name, text, len));
    return gwt_settings_compare(job, in->from.name, text, len);
}

static gw_status check_place(gwt_job *job, const char *path,
                             const gwt_checkpoint_job *saved)
{
    uint64_t steps = gwt_checkpoint_steps(saved, job);
    char log[GWT_FILE_CAP];
    struct stat info;

    if (steps > job->total_steps)
        return gw_fail(GW_ERR_ARG,
                       "%s is from step %" PRIu64
                       ", but this run ends after step %" PRIu64
                       "; increase --steps or --epochs",
                       path, steps, job->total_steps);
    job->resume_step = steps;
    snprintf(log, sizeof log, "%s/metrics.jsonl", job->directory);
    if (stat(log, &info) != 0 || (uint64_t)info.st_size < saved->metrics_len)
        warn(job, "some lines are missing from %s\n", log);
    return GW_OK;
}

/* Opens checkpoint `number` and checks whether this job can resume from it. A file that
 * cannot be read is not taken for a damaged one. */
static gw_status try_number(gwt_job *job, uint64_t number, int *damaged)
{
    gwt_checkpoint_job saved;
    gwt_sections in;
    gw_status st;

    path_of(job->resume, job, number, "");
    st = gwt_checkpoint_open(&in, job->resume, &saved);
    *damaged = st == GW_ERR_DATA;
    if (st != GW_OK)
        return st;
    st = check_settings(job, &in);
    if (st == GW_OK)
        st = check_place(job, job->resume, &saved);
    gwt_sections_close(&in);
    return st;
}

gw_status gwt_checkpoints_find(gwt_job *job)
{
    uint64_t number = UINT64_MAX;
    int damaged = 0;

    while ((number = newest(job, number)) != 0) {
        gw_status st = try_number(job, number, &damaged);
        if (st == GW_OK)
            return set_aside(job, number);
        if (!damaged)
            return st;
        warn(job, "%s; it is ignored\n", gw_error_message());
    }
    if (damaged)
        return gw_fail(GW_ERR_DATA, "%s has no good checkpoint; the last error was: %s",
                       job->directory, strdupa(gw_error_message()));
    return gw_fail(
        GW_ERR_SYSTEM,
        "there is no checkpoint in %s; leave out --resume to start a new run",
        job->directory);
}

gw_status gwt_checkpoints_newest(const char *directory, char path[GWT_FILE_CAP])
{
    uint64_t number = UINT64_MAX;
    gwt_checkpoint_job job;
    gwt_sections in;

    while ((number = newest_in(directory, number)) != 0) {
        name_in(path, directory, number, "");
        gw_status st = gwt_checkpoint_open(&in, path, &job);
        if (st == GW_OK)
            gwt_sections_close(&in);
        if (st != GW_ERR_DATA)
            return st;
    }
    return gw_fail(GW_ERR_SYSTEM, "there is no good checkpoint in %s", directory);
}
