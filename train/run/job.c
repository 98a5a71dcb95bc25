/* SPDX-License-Identifier: Apache-2.0
 *
 * job.c - the parent's part of a run. Everything that can be checked is checked here,
 * before a worker starts. The parent must not compute anything; compute.h says why. */
#define _GNU_SOURCE
#include "run/advice.h"
#include "run/agree.h"
#include "data/augment.h"
#include "run/job.h"
#include "run/log_files.h"
#include "data/shuffle.h"
#include "run/slow_work.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

static gw_status check_length(const char *flag, const char *text)
{
    gwt_length length;

    return text != NULL ? gwt_parse_length(flag, text, &length) : GW_OK;
}

/* Slower workers make fewer local steps, so there must be some. */
static gw_status check_uneven(const gwt_job *job)
{
    gw_spec_info info = {.struct_size = sizeof info};

    GWT_TRY(gw_spec_describe(job->used.sync, &info));
    if (job->config.uneven && (info.period < 2 || (info.traits & GW_TRAIT_MEETS) == 0 ||
                               (info.traits & GW_TRAIT_SENDS_GRADIENTS) != 0))
        return gw_fail(GW_ERR_ARG,
                       "--uneven needs a method with local steps, such as local:8 or "
                       "diloco:30, and not '%s'",
                       job->used.sync);
    return GW_OK;
}

static gw_status check_config(gwt_job *job)
{
    const gwt_config *c = &job->config;
    const gwt_data_source *source;
    const char *rest;

    GWT_TRY(gwt_model_find(c->model, &job->model));
    GWT_TRY(gwt_data_find(c->data, &source, &rest));
    GWT_TRY(gw_spec_check(c->sync, NULL, 0));
    if ((c->uneven || c->pace > 0) && c->views == NULL)
        return gw_fail(GW_ERR_ARG,
                       "--uneven and --pace need --join and --workers MIN:MAX");
    if (c->link != NULL)
        GWT_TRY(gw_link_parse(c->link, NULL, NULL));
    GWT_TRY(gwt_optimizer_find(c->optimizer, &job->optimizer));
    GWT_TRY(gwt_hyper_check(&c->hyper, job->optimizer));
    GWT_TRY(gwt_advise(job));
    GWT_TRY(check_uneven(job));
    GWT_TRY(gwt_log_parse(c->log, &job->log));
    GWT_TRY(gwt_place_parse(&job->metrics, c->metrics));
    GWT_TRY(check_length("--eval-every", c->eval_every));
    GWT_TRY(check_length("--checkpoint-every", c->checkpoint_every));
    return gwt_schedule_parse(&job->schedule, c->schedule, c->warmup);
}

gw_status gwt_config_check(const gwt_config *config)
{
    gwt_job *job = gwt_calloc(1, sizeof *job, "a run");
    gw_status st;

    if (job == NULL)
        return GW_ERR_NOMEM;
    job->config = *config;
    st = check_config(job);
    gwt_free(job);
    return st;
}

/* A length of training in steps. It has at least one step unless it is 0, which only
 * may_be_0 allows. */
static gw_status plan_length(const gwt_job *job, const char *flag, const char *text,
                             int may_be_0, uint64_t *out)
{
    gwt_length length;

    GWT_TRY(gwt_parse_length(flag, text, &length));
    *out = gwt_length_steps(length, job->epoch_steps);
    if (*out == 0 && length.count > 0.0)
        *out = 1;
    if (*out == 0 && !may_be_0)
        return gw_fail(GW_ERR_ARG, "%s: %s is less than a step", flag, text);
    return GW_OK;
}

static gw_status plan_intervals(gwt_job *job)
{
    const gwt_config *c = &job->config;

    if (c->checkpoint_every != NULL)
        GWT_TRY(plan_length(job, "--checkpoint-every", c->checkpoint_every, 0,
                            &job->checkpoint_every));
    if (c->eval_every != NULL)
        GWT_TRY(plan_length(job, "--eval-every", c->eval_every, 1, &job->eval_every));
    return GW_OK;
}

/* Checks that the model fits the data set, and cuts text into rows. */
static gw_status fit_data(gwt_job *job)
{
    const gwt_config *c = &job->config;

    if (job->model->text != job->data.text)
        return gw_fail(GW_ERR_ARG,
                       "model %s needs %s, which data set %s does not have; 'gradwire "
                       "list' shows what each one is",
                       c->model, job->model->text ? "text" : "images or vectors",
                       c->data);
    if (c->dropout > 0.0 && !job->model->text)
        return gw_fail(GW_ERR_ARG, "model %s has no dropout; leave out --dropout",
                       c->model);
    return job->data.text ? gwt_text_cut(&job->data, (size_t)c->sequence) : GW_OK;
}

/* --limit */
static void limit_data(gwt_job *job)
{
    uint64_t limit = job->config.limit;

    if (limit != 0 && limit < job->data.train.count)
        job->data.train.count = (size_t)limit;
}

static gw_status plan_steps(gwt_job *job)
{
    const gwt_config *c = &job->config;
    size_t n = job->data.train.count;

    job->epoch_steps = gwt_epoch_steps(n, c->workers, (size_t)c->batch);
    if (job->epoch_steps == 0)
        return gw_fail(
            GW_ERR_ARG,
            "%d workers with batches of %" PRIu64
            " need more than the %zu samples of %s for one step; make --batch smaller",
            c->workers, c->batch, n, c->data);
    job->total_steps = c->steps != 0 ? c->steps : c->epochs * job->epoch_steps;
    job->log_every = c->log_every;
    if (job->log_every == 0)
        job->log_every = job->total_steps < 50 ? 1 : job->total_steps / 50;
    GWT_TRY(plan_intervals(job));
    job->schedule.epoch_steps = (double)job->epoch_steps;
    job->schedule.total_steps = (double)job->total_steps;
    return GW_OK;
}

static gw_status choose_augment(gwt_job *job)
{
    static const int of_word[] = {
        [GWT_AUGMENT_WORD_NONE] = GWT_AUGMENT_NONE,
        [GWT_AUGMENT_WORD_CROP] = GWT_AUGMENT_CROP,
        [GWT_AUGMENT_WORD_FLIP] = GWT_AUGMENT_FLIP,
        [GWT_AUGMENT_WORD_BOTH] = GWT_AUGMENT_CROP | GWT_AUGMENT_FLIP,
    };
    int word = job->config.augment;

    job->augment = word == GWT_AUGMENT_WORD_AUTO ? job->data.augment : of_word[word];
    return gwt_augment_check(job->augment, job->data.shape);
}

/* Whether the model, with its options, can be made for the data. */
static gw_status check_model(const gwt_job *job)
{
    gwt_model *model;
    gw_status st = gwt_model_outline(&model, job->config.model, job->data.shape,
                                     job->data.classes);

    gwt_model_free(model);
    return st;
}

static gw_status make_shared(gwt_job *job)
{
    void *memory = mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return gw_fail(GW_ERR_SYSTEM, "no shared memory for the run: %s",
                       strerror(errno));
    job->shared = memory;
    return GW_OK;
}

/* Prepares everything that needs no other worker. */
static gw_status prepare_own(gwt_job *job)
{
    GWT_TRY(check_config(job));
    GWT_TRY(gwt_data_load(&job->data, job->config.data, job->config.data_dir));
    GWT_TRY(fit_data(job));
    limit_data(job);
    GWT_TRY(choose_augment(job));
    GWT_TRY(check_model(job));
    GWT_TRY(plan_steps(job));
    GWT_TRY(gwt_warn(job));
    return make_shared(job);
}

static gw_status make_rundir(void *job)
{
    return gwt_rundir_make(job);
}

static gw_status prepare(gwt_job *job)
{
    gw_comm *comm = job->config.comm;
    gw_status st = prepare_own(job);

    if (job->config.views != NULL)
        return st == GW_OK ? gwt_elastic_check(job) : st;
    if (comm == NULL)
        return st == GW_OK ? gwt_rundir_make(job) : st;
    GWT_TRY(gwt_agree(comm, st));
    GWT_TRY(gwt_agree_settings(job));
    GWT_TRY(gwt_agree_link(job));
    /* Only worker 0 touches the directory and its files. */
    GWT_TRY(
        gwt_agree(comm, gwt_slow_work(comm, job->config.timeout, make_rundir, job)));
    /* Worker 0 may have changed these to match the checkpoint. */
    return gw_broadcast(comm, &job->used, sizeof job->used, 0);
}

gw_status gwt_job_new(gwt_job **out, const gwt_config *config)
{
    gwt_job *job;
    gw_status st;

    *out = NULL;
    job = gwt_calloc(1, sizeof *job, "a run");
    if (job == NULL)
        return GW_ERR_NOMEM;
    job->config = *config;
    st = prepare(job);
    if (st != GW_OK) {
        gwt_job_free(job);
        return st;
    }
    *out = job;
    return GW_OK;
}

void gwt_job_free(gwt_job *job)
{
    if (job == NULL)
        return;
    gwt_data_free(&job->data);
    gwt_rundir_leave(job);
    gwt_place_close(&job->metrics);
    if (job->shared != NULL)
        munmap(job->shared, sizeof *job->shared);
    gwt_free(job);
}

/* Runs as one worker of an existing comm. */
static gw_status run_over(gwt_job *job, gw_comm *comm)
{
    gw_status st = GW_OK;

    if (job->config.link != NULL)
        st = gw_comm_link(comm, job->config.link);
    if (st == GW_OK)
        st = gwt_worker_run(comm, job);
    return st == GW_OK ? GW_OK : gw_comm_fail(comm, st);
}

gw_status gwt_job_run(gwt_job *job, const gwt_observer *observer)
{
    gw_local_options opt = {
        .struct_size = sizeof opt,
        .workers = job->config.workers,
        .spawn = (gw_spawn)job->config.spawn,
        .timeout_seconds = job->config.timeout,
        .link = job->config.link,
    };

    job->observer = observer;
    if (job->config.views != NULL)
        return gwt_elastic_run(job);
    if (job->config.comm != NULL)
        return run_over(job, job->config.comm);
    return gw_local_run(&opt, gwt_worker_run, job);
}

void gwt_job_stop(gwt_job *job)
{
    gwt_stop_request(&job->shared->stop);
}

const gwt_summary *gwt_job_summary(const gwt_job *job)
{
    return &job->shared->summary;
}

const char *gwt_job_warnings(const gwt_job *job)
{
    return job->warnings;
}

const char *gwt_job_metrics(const gwt_job *job)
{
    return job->metrics.name;
}

const char *gwt_job_sync(const gwt_job *job)
{
    return job->used.sync;
}

const char *gwt_job_notes(const gwt_job *job)
{
    return job->notes;
}

const char *gwt_job_data_note(const gwt_job *job)
{
    return job->data.note;
}

const char *gwt_job_resumed(const gwt_job *job, uint64_t *step)
{
    *step = job->resume_step;
    return job->resume[0] != '\0' ? job->resume : NULL;
}

const char *gwt_job_directory(const gwt_job *job)
{
    return job->directory;
}

double gwt_bits_per_param(const gw_stats *stats, uint64_t params)
{
    double floats = (double)stats->steps * (double)params;

    return floats > 0 ? 8.0 * (double)stats->bytes_sent / floats : 0.0;
}

double gwt_dense_bytes(uint64_t params, int workers)
{
    return 8.0 * (double)params * (double)(workers - 1) / (double)workers;
}
