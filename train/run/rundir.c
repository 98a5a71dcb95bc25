/* SPDX-License-Identifier: Apache-2.0
 *
 * rundir.c - the directory of a run: metrics.jsonl, one object per line, and
 * summary.json. */
#define _GNU_SOURCE
#include "run/checkpoint.h"
#include "files/json.h"
#include "run/log_files.h"
#include "run/weights.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_CAP = GWT_PATH_CAP + 64, WORD_CAP = 48 };

static void path_of(char path[FILE_CAP], const gwt_job *job, const char *name)
{
    snprintf(path, FILE_CAP, "%s/%s", job->directory, name);
}

/* Turns text into letters, digits, dots and single dashes, at most WORD_CAP of them, so
 * that a spec can be part of a file name. */
static void sanitise(char out[WORD_CAP], const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 1 < WORD_CAP; text++)
        if (isalnum((unsigned char)*text) || *text == '.')
            out[n++] = *text;
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

static gw_status cannot_make(const char *path)
{
    return gw_fail(GW_ERR_SYSTEM, "cannot create the run directory %s: %s", path,
                   strerror(errno));
}

/* Creates every missing directory of the path. */
static gw_status make_path(const char *path)
{
    char part[GWT_PATH_CAP];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at != '\0'; at++)
        if (*at == '/') {
            *at = '\0';
            if (mkdir(part, 0777) != 0 && errno != EEXIST)
                return cannot_make(path);
            *at = '/';
        }
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
        return cannot_make(path);
    return GW_OK;
}

/* runs/MODEL-DATA-SYNC-N with the first N that is free. */
static gw_status make_numbered(gwt_job *job)
{
    char model[WORD_CAP], data[WORD_CAP], sync[WORD_CAP];

    sanitise(model, job->config.model);
    sanitise(data, job->config.data);
    sanitise(sync, job->config.sync);
    GWT_TRY(make_path("runs"));
    for (int i = 1; i < 1000000; i++) {
        snprintf(job->directory, sizeof job->directory, "runs/%s-%s-%s-%d", model, data,
                 sync, i);
        if (mkdir(job->directory, 0777) == 0)
            return GW_OK;
        if (errno != EEXIST)
            break;
    }
    return cannot_make(job->directory);
}

/* Whether the summary is one of a run that Ctrl-C ended. gwt_job_print() wrote it, so
 * the key and its value look like this, and no text in the file does. */
static int was_stopped(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[512];
    int found = 0;

    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL)
        found = strstr(line, "\"stopped\": true") != NULL;
    if (file != NULL)
        fclose(file);
    return found;
}

/* Refuses to overwrite what the user may still want. */
static gw_status keep_old_run(const gwt_job *job, const char *summary)
{
    int done = access(summary, F_OK) == 0, saved = gwt_checkpoints_any(job);

    if (!done && !saved)
        return GW_OK;
    if (!done)
        return gw_fail(GW_ERR_ARG,
                       "%s has checkpoints; add --resume to continue from them, or "
                       "--force to remove them and start again",
                       job->directory);
    if (!was_stopped(summary))
        return gw_fail(GW_ERR_ARG,
                       "%s has a finished run; choose another --out, or add --force to "
                       "overwrite it",
                       job->directory);
    if (saved)
        return gw_fail(GW_ERR_ARG,
                       "%s has a run that was stopped; add --resume to continue it, or "
                       "--force to remove it and start again",
                       job->directory);
    return gw_fail(GW_ERR_ARG,
                   "%s has a run that was stopped and left no checkpoint to resume "
                   "from; add --force to start again, and --checkpoint-every to be "
                   "able to resume",
                   job->directory);
}

/* Finds what to resume from, or removes what is obsolete. */
static gw_status make_room(gwt_job *job)
{
    char path[FILE_CAP];

    path_of(path, job, "summary.json");
    if (job->config.resume) {
        GWT_TRY(gwt_checkpoints_find(job));
    } else {
        if (!job->config.force)
            GWT_TRY(keep_old_run(job, path));
        gwt_checkpoints_clear(job);
    }
    gwt_log_remove(job);
    gwt_writer_remove(job);
    if (unlink(path) != 0 && errno != ENOENT)
        return gw_fail(GW_ERR_SYSTEM, "cannot remove %s: %s", path, strerror(errno));
    return GW_OK;
}

/* How often the lock is tried; and where workers wait for the one that tries. */
enum { TRIES = 250, TRIES_OF_JOB = 50 };

/* Two runs in one directory would overwrite each other's files. The lock belongs to the
 * open file, which the workers share, so it lasts until the last of them has ended. The
 * workers of a run that was just killed may need a moment to end. A worker of the same
 * job that neither ends nor answers does not keep the others from going on. */
static gw_status lock_directory(gwt_job *job, int force)
{
    const struct timespec nap = {.tv_nsec = 20000000};
    int tries = job->id != 0 ? TRIES_OF_JOB : TRIES, fd = job->lock;

    job->forced = 0;
    if (fd <= 0)
        fd = open(job->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot open the run directory %s: %s",
                       job->directory, strerror(errno));
    job->lock = fd;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return GW_OK; /* a file system without locks */
        if (tries-- > 0) {
            nanosleep(&nap, NULL);
            continue;
        }
        job->forced = force && gwt_writer_of_job(job);
        if (!job->forced)
            return gw_fail(GW_ERR_SYSTEM,
                           "another run is writing to %s; choose another --out or wait "
                           "for it to end",
                           job->directory);
        return GW_OK;
    }
    return GW_OK;
}

void gwt_rundir_leave(gwt_job *job)
{
    if (job->lock > 0)
        close(job->lock);
    job->lock = 0;
    job->token = 0;
}

/* Whether the model can begin with the weights of --init. */
static gw_status check_init(const gwt_job *job)
{
    gwt_model *model;
    gw_status st;

    /* A checkpoint takes precedence. */
    if (job->config.init == NULL || job->config.resume)
        return GW_OK;
    GWT_TRY(gwt_model_outline(&model, job->config.model, job->data.shape,
                              job->data.classes));
    st = gwt_weights_check(job->config.init, model);
    gwt_model_free(model);
    return st;
}

/* Checks the names of files and the port of --metrics before the run, so that a long
 * run does not fail at its end, and an old run is not removed for one that cannot
 * start. */
static gw_status check_files(gwt_job *job)
{
    const gwt_config *c = &job->config;
    const char *const outputs[] = {c->export_to, c->record_to, c->trace};

    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        if (outputs[i] != NULL)
            GWT_TRY(gwt_newfile_check(outputs[i]));
    GWT_TRY(check_init(job));
    return gwt_place_open(&job->metrics);
}

/* Creates the directory if it does not exist. */
static gw_status enter_directory(gwt_job *job)
{
    const char *out = job->config.out;

    if (out[0] == '\0' || strlen(out) >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "--out: '%s' is not a valid name of a directory",
                       out);
    snprintf(job->directory, sizeof job->directory, "%s", out);
    GWT_TRY(make_path(out));
    GWT_TRY(lock_directory(job, 1));
    if (access(out, W_OK | X_OK) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot write to the run directory %s: %s", out,
                       strerror(errno));
    return GW_OK;
}

gw_status gwt_rundir_make(gwt_job *job)
{
    const char *out = job->config.out;

    if (job->config.resume)
        GWT_TRY(gwt_resume_check(out));
    if (out == NULL) {
        GWT_TRY(check_files(job));
        return make_numbered(job);
    }
    /* The directory comes first, since files may be in it. The checks come before
     * anything in it is removed. */
    GWT_TRY(enter_directory(job));
    GWT_TRY(check_files(job));
    return make_room(job);
}

/* Whether others have ended the job while this worker, its writer, was away. */
static int ended_without(const gwt_job *job)
{
    char path[FILE_CAP];

    path_of(path, job, "summary.json");
    return job->token != 0 && gwt_writer_check(job) != GW_OK &&
           access(path, F_OK) == 0 && !was_stopped(path);
}

gw_status gwt_rundir_take_over(gwt_job *job, int force)
{
    char path[FILE_CAP];

    GWT_TRY(make_path(job->directory));
    if (ended_without(job))
        return gw_fail(GW_ERR_MISMATCH,
                       "the job has ended without this worker, which did not answer; "
                       "its results are in %s",
                       job->directory);
    GWT_TRY(lock_directory(job, force));
    /* It is written anew from metrics.jsonl. */
    path_of(path, job, "metrics.csv");
    unlink(path);
    return gwt_writer_renew(job, "metrics.jsonl");
}

/* Cuts the file to at most `keep` bytes, after the end of a line. */
static int cut_lines(FILE *file, uint64_t keep)
{
    struct stat info;

    if (fstat(fileno(file), &info) != 0)
        return -1;
    off_t len = (uint64_t)info.st_size < keep ? info.st_size : (off_t)keep;
    for (char last = 0; len > 0; len--)
        if (pread(fileno(file), &last, 1, len - 1) == 1 && last == '\n')
            break;
    if (ftruncate(fileno(file), len) != 0)
        return -1;
    return fseeko(file, 0, SEEK_END);
}

gw_status gwt_rundir_metrics(const gwt_job *job, uint64_t keep, FILE **out)
{
    char path[FILE_CAP];
    int fd;

    path_of(path, job, "metrics.jsonl");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    *out = fd >= 0 ? fdopen(fd, "r+") : NULL;
    if (*out == NULL || cut_lines(*out, keep) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return GW_OK;
}

/* The value of --augment that means this; NULL for none. */
static const char *augment_name(int what)
{
    if (what == (GWT_AUGMENT_CROP | GWT_AUGMENT_FLIP))
        return "both";
    if (what == GWT_AUGMENT_NONE)
        return NULL;
    return what == GWT_AUGMENT_CROP ? "crop" : "flip";
}

/* What the optimizer takes, by the names of the flags; null for what it does not. */
static void print_hyper(gwt_json *j, const gwt_job *job)
{
    const gwt_hyper_row *row;

    for (size_t i = 0; (row = gwt_hyper_at(i)) != NULL; i++) {
        double value = gwt_hyper_value(&job->config.hyper, row);
        char key[WORD_CAP];
        snprintf(key, sizeof key, "%s", row->name);
        for (char *at = key; (at = strchr(at, '-')) != NULL;)
            *at = '_';
        if (!gwt_optimizer_takes(job->optimizer, row->name))
            gwt_json_null(j, key);
        else if (row->is_switch)
            gwt_json_bool(j, key, value != 0.0);
        else
            gwt_json_real(j, key, value);
    }
}

static void print_settings(gwt_json *j, const gwt_job *job)
{
    const gwt_config *c = &job->config;
    const gwt_summary *s = &job->shared->summary;

    gwt_json_text(j, "model", c->model);
    gwt_json_text(j, "data", c->data);
    gwt_json_text(j, "augment", augment_name(job->augment));
    gwt_json_text(j, "sync", s->sync);
    gwt_json_text(j, "sync_asked", c->sync);
    gwt_json_text(j, "sync_advised",
                  strcmp(job->used.sync, c->sync) == 0 ? NULL : job->used.sync);
    gwt_json_count(j, "workers", (uint64_t)c->workers);
    gwt_json_count(j, "params", s->params);
    gwt_json_count(j, "steps", s->steps);
    gwt_json_real(j, "epochs", s->epochs);
    gwt_json_count(j, "seed", c->seed);
    gwt_json_count(j, "batch", c->batch);
    gwt_json_count(j, "test_samples", job->data.test.count);
    gwt_json_real(j, "lr", c->lr);
    gwt_json_text(j, "optimizer", c->optimizer);
    print_hyper(j, job);
    gwt_json_text(j, "link", c->link);
    gwt_json_text(j, "transport", s->transport);
    gwt_json_text(j, "isa", gw_isa());
}

static void print_costs(gwt_json *j, const gwt_summary *s)
{
    gwt_json_real(j, "wall_s", s->wall_s);
    gwt_json_real(j, "compute_s", s->compute_s);
    gwt_json_real(j, "sync_s", s->sync_s);
    gwt_json_real(j, "encode_s", s->stats.encode_seconds);
    gwt_json_real(j, "wait_s", s->stats.wait_seconds);
    gwt_json_real(j, "decode_s", s->stats.decode_seconds);
    gwt_json_real(j, "eval_s", s->eval_s);
    gwt_json_real(j, "samples_per_s", s->samples_per_s);
    gwt_json_real(j, "tokens_per_s", s->tokens_per_s);
    gwt_json_count(j, "bytes_sent", s->stats.bytes_sent);
    gwt_json_count(j, "bytes_received", s->stats.bytes_received);
    gwt_json_count(j, "messages_sent", s->stats.messages_sent);
    gwt_json_real(j, "bits_per_param", gwt_bits_per_param(&s->stats, s->params));
    gwt_json_real(j, "residual_norm", s->residual_norm);
    gwt_json_real(j, "mass_lost", s->mass_lost);
    gwt_json_real(j, "lost_norm", s->lost_norm);
}

static void print_results(gwt_json *j, const gwt_summary *s)
{
    char hash[17];

    snprintf(hash, sizeof hash, "%016" PRIx64, s->model_hash);
    gwt_json_real(j, "train_loss", s->train_loss);
    gwt_json_real(j, "test_loss", s->test_loss);
    gwt_json_real(j, "test_accuracy", s->test_accuracy);
    gwt_json_real(j, "test_accuracy_workers", s->test_accuracy_workers);
    gwt_json_real(j, "test_loss_workers", s->test_loss_workers);
    gwt_json_real(j, "perplexity", s->perplexity);
    gwt_json_real(j, "perplexity_workers", s->perplexity_workers);
    gwt_json_real(j, "drift", s->drift);
    gwt_json_count(j, "skipped", s->skipped);
    gwt_json_bool(j, "stopped", s->stopped);
    gwt_json_text(j, "warning", s->warning[0] != '\0' ? s->warning : NULL);
    gwt_json_text(j, "model_hash", hash);
    gwt_json_text(j, "version", gw_version());
}

void gwt_job_print(const gwt_job *job, FILE *stream)
{
    gwt_json j = {.to = stream, .indent = 2};

    gwt_json_open(&j, NULL, '{');
    print_settings(&j, job);
    print_costs(&j, &job->shared->summary);
    print_results(&j, &job->shared->summary);
    gwt_json_close(&j, '}');
    putc('\n', stream);
}

static void print_job(FILE *stream, const void *job)
{
    gwt_job_print(job, stream);
}

gw_status gwt_rundir_summary(const gwt_job *job)
{
    char path[FILE_CAP], partial[FILE_CAP];

    GWT_TRY(gwt_writer_check(job));
    path_of(path, job, "summary.json");
    path_of(partial, job, "summary.json.partial");
    return gwt_newfile_print(path, job->token != 0 ? NULL : partial, print_job, job);
}
