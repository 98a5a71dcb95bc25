/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_checkpoint.c - checkpoints: what is in them, what becomes of damaged
 * ones, of those of another run, of a full disk, and of another number of workers.
 * Runs that are killed are in test_cli_resume.py. */
#define _GNU_SOURCE
#include "checkpoint.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static int make_directory(void **state)
{
    (void)state;
    snprintf(directory, sizeof directory, "gradwire-checkpoint-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command);
}

/* 700 / (4 x 8) = 21 steps per epoch. */
static gwt_config small(void)
{
    return (gwt_config){
        .model = "softmax",
        .data = "synthetic:train=700,test=90,dim=30,classes=4",
        .sync = "dense",
        .optimizer = "sgd",
        .schedule = "constant",
        .warmup = "0",
        .out = directory,
        .checkpoint_every = "10",
        .keep = 2,
        .workers = 4,
        .spawn = GW_SPAWN_THREADS,
        .threads = 1,
        .timeout = 60,
        .steps = 25,
        .batch = 8,
        .seed = 3,
        .log_every = 7,
        .eval_every = 1,
        .lr = 0.1,
        .momentum = 0.9,
    };
}

static gwt_summary run_with(const gwt_config *config, char *warnings)
{
    gwt_summary summary;
    gwt_job *job;

    if (gwt_job_new(&job, config) != GW_OK || gwt_job_run(job, NULL) != GW_OK)
        fail_msg("%s", gw_error_message());
    summary = *gwt_job_summary(job);
    if (warnings != NULL)
        snprintf(warnings, 2048, "%s", gwt_job_warnings(job));
    gwt_job_free(job);
    return summary;
}

static gwt_summary run(const gwt_config *config)
{
    return run_with(config, NULL);
}

/* The run fails while it is prepared, with these words in its message. */
static void refuse(const gwt_config *config, gw_status status, const char *a,
                   const char *b)
{
    gwt_job *job;

    assert_int_equal(gwt_job_new(&job, config), status);
    if (strstr(gw_error_message(), a) == NULL || strstr(gw_error_message(), b) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", gw_error_message(), a, b);
}

static const char *name_of(int number)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/checkpoint-%06d.gwc", directory, number);
    return path;
}

static int is_there(int number)
{
    return access(name_of(number), F_OK) == 0;
}

static uint8_t *read_all(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 22);

    if (file == NULL || bytes == NULL)
        fail_msg("no file %s", path);
    *len = fread(bytes, 1, 1 << 22, file);
    fclose(file);
    return bytes;
}

static void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 16, file);
    fclose(file);
}

/* ---- what is written ------------------------------------------------------------- */

static void kept_and_numbered(void **state)
{
    gwt_config c = small();

    (void)state;
    run(&c);
    /* After 10, 20 and 25 steps; two are kept. */
    assert_false(is_there(1));
    assert_true(is_there(2) && is_there(3));
    assert_false(is_there(4));
    c.force = 1;
    c.keep = 1;
    c.checkpoint_every = "1epochs";
    run(&c); /* after 21 and 25 steps, once those of before are gone */
    assert_false(is_there(1) || is_there(3));
    assert_true(is_there(2));
    c.checkpoint_every = NULL;
    run(&c);
    assert_false(is_there(1) || is_there(2));
}

static void sections_are_there(void **state)
{
    gwt_config c = small();
    gwt_checkpoint_job job;
    gwt_sections in;

    (void)state;
    c.sync = "local:4";
    run(&c);
    assert_int_equal(gwt_checkpoint_open(&in, name_of(3), &job), GW_OK);
    assert_int_equal(job.steps, 25);
    assert_int_equal(job.epoch_steps, 21);
    assert_int_equal(job.workers, 4);
    assert_int_equal(job.models, 4);
    assert_int_equal(job.floats, 124);
    assert_null(gwt_sections_find(&in, GWT_KIND_MODEL, 4));
    gwt_sections_close(&in);
    c.force = 1;
    c.sync = "dense";
    run(&c);
    assert_int_equal(gwt_checkpoint_open(&in, name_of(3), &job), GW_OK);
    assert_int_equal(job.models, 1);
    gwt_sections_close(&in);
}

static void write_text(const char *name, int lines)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < lines; i++)
        fprintf(file, "the %s of %s is a %s\n", i % 3 ? "end" : "rest",
                i % 5 ? "it" : "all", i % 2 ? "rest" : "end");
    fclose(file);
}

/* Statistics, hidden states, dropout and clipping: nothing of a model is forgotten,
 * in the middle of an epoch and where models differ. */
static void every_kind_of_model_goes_on(void **state)
{
    static const char *const model[] = {"resnet20", "lstm:200", "resnet20"};
    static const char *const sync[] = {"dense", "gtopk:0.1", "local:3"};
    char data[128];

    (void)state;
    write_text("train.txt", 60);
    write_text("valid.txt", 30);
    write_text("test.txt", 30);
    snprintf(data, sizeof data, "text:%s", directory);
    for (size_t i = 0; i < 3; i++) {
        gwt_config c = small();
        c.model = model[i];
        c.sync = sync[i];
        c.workers = 2;
        c.batch = 2;
        c.sequence = 4;
        c.steps = 7;
        c.lr = 0.05;
        c.force = 1;
        if (i == 1) {
            c.data = data;
            c.dropout = 0.2;
            c.clip = 0.25;
        }
        gwt_summary whole = run(&c);
        c.steps = 4;
        run(&c);
        c.force = 0;
        c.resume = 1;
        c.steps = 7;
        gwt_summary resumed = run(&c);
        assert_true(whole.model_hash == resumed.model_hash);
        assert_true(whole.test_loss == resumed.test_loss);
        assert_true(whole.train_loss == resumed.train_loss);
        if (i == 1)
            assert_true(whole.perplexity == resumed.perplexity);
        c.workers = 3;
        c.steps = 9;
        run(&c);
    }
}

/* What the published gTop-k loses is counted over the parts of a run. */
static void losses_add_up(void **state)
{
    gwt_config c = small();

    (void)state;
    c.sync = "gtopk:0.1,putback=paper";
    gwt_summary whole = run(&c);
    assert_true(whole.mass_lost > 0.0 && whole.mass_lost < 1.0);
    c.force = 1;
    c.steps = 20;
    run(&c);
    c.force = 0;
    c.steps = 25;
    c.resume = 1;
    assert_true(run(&c).mass_lost == whole.mass_lost);
    c = small();
    c.force = 1;
    c.sync = "gtopk:0.1";
    assert_true(isnan(run(&c).mass_lost));
}

/* Writes the checkpoint anew as it was when a worker had `words` words. */
static void cut_words(const char *path, size_t words)
{
    gwt_sections_out out;
    gwt_sections in;
    char partial[128];

    snprintf(partial, sizeof partial, "%s/checkpoint.partial", directory);
    assert_int_equal(gwt_sections_open(&in, path), GW_OK);
    assert_int_equal(gwt_sections_create(&out, path, partial), GW_OK);
    for (size_t i = 0; i < in.count; i++) {
        const gwt_section *s = &in.list[i];
        size_t len = s->kind == GWT_KIND_WORKER ? 8 * words : (size_t)s->len;
        uint8_t *bytes = calloc(len + s->len, 1);
        assert_int_equal(gwt_sections_read(&in, s, 0, bytes, (size_t)s->len), GW_OK);
        assert_int_equal(gwt_sections_put(&out, s->kind, s->worker, bytes, len), GW_OK);
        free(bytes);
    }
    assert_int_equal(gwt_sections_commit(&out), GW_OK);
    gwt_sections_close(&in);
}

/* Files from before words were added can be read; longer ones, and shorter ones,
 * cannot. */
static void older_files_are_read(void **state)
{
    static const size_t words[] = {GWT_WORKER_WORDS_ONCE, GWT_WORKER_WORDS_ONCE - 1,
                                   GWT_WORKER_WORDS + 1};
    gwt_config c = small();
    gwt_sections in;
    gwt_checkpoint_job job;

    (void)state;
    c.sync = "local:3";
    gwt_summary whole = run(&c);
    c.force = 1;
    c.steps = 20;
    run(&c);
    cut_words(name_of(2), words[0]);
    c.force = 0;
    c.steps = 25;
    c.resume = 1;
    gwt_summary resumed = run(&c);
    assert_true(whole.model_hash == resumed.model_hash);
    assert_true(whole.train_loss == resumed.train_loss);
    assert_true(whole.test_loss_workers == resumed.test_loss_workers);
    for (size_t i = 1; i < 3; i++) {
        cut_words(name_of(3), words[i]);
        assert_int_equal(gwt_checkpoint_open(&in, name_of(3), &job), GW_ERR_DATA);
        assert_non_null(strstr(gw_error_message(), "section WORK of worker 0"));
    }
}

/* ---- damage ------------------------------------------------------------------------
 */

/* Every byte changed, every length, every byte more: never taken for good. */
static void every_damage_is_seen(void **state)
{
    gwt_config c = small();
    gwt_sections in;
    size_t len;

    (void)state;
    run(&c);
    uint8_t *bytes = read_all(name_of(3), &len);
    assert_int_equal(gwt_sections_over(&in, "it", bytes, len), GW_OK);
    gwt_sections_close(&in);
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(gwt_sections_over(&in, "it", bytes, len), GW_ERR_DATA);
        bytes[i] ^= (uint8_t)(1 << i % 8);
    }
    for (size_t cut = 0; cut < len; cut += cut < 400 ? 1 : 7)
        assert_int_equal(gwt_sections_over(&in, "it", bytes, cut), GW_ERR_DATA);
    bytes[len] = 0;
    assert_int_equal(gwt_sections_over(&in, "it", bytes, len + 1), GW_ERR_DATA);
    free(bytes);
}

/* A whole section left out is seen too: checks are checked. */
static void missing_section_is_seen(void **state)
{
    gwt_config c = small();
    gwt_sections in;
    size_t len;

    (void)state;
    run(&c);
    uint8_t *bytes = read_all(name_of(3), &len);
    assert_int_equal(gwt_sections_over(&in, "it", bytes, len), GW_OK);
    gwt_section first = in.list[0];
    gwt_sections_close(&in);
    size_t gone = 16 + (size_t)first.len + 8;
    memmove(bytes + 8, bytes + 8 + gone, len - 8 - gone);
    assert_int_equal(gwt_sections_over(&in, "it", bytes, len - gone), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "missing"));
    free(bytes);
}

static void damaged_one_is_passed_over(void **state)
{
    gwt_config c = small();
    char warnings[2048], aside[160];

    (void)state;
    gwt_summary whole = run(&c);
    flip(name_of(3), 300);
    c.resume = 1;
    gwt_summary resumed = run_with(&c, warnings);
    assert_true(whole.model_hash == resumed.model_hash);
    assert_non_null(strstr(warnings, name_of(3)));
    assert_non_null(strstr(warnings, "damaged"));
    snprintf(aside, sizeof aside, "%s.damaged", name_of(3));
    assert_int_equal(access(aside, F_OK), 0);
    assert_true(is_there(2) && is_there(3)); /* 3 is a new one, of step 25 */
    assert_true(run_with(&c, warnings).model_hash == whole.model_hash);
    assert_string_equal(warnings, "");
}

static void none_is_good(void **state)
{
    gwt_config c = small();

    (void)state;
    c.resume = 1;
    refuse(&c, GW_ERR_SYSTEM, "no checkpoint", "leave out --resume");
    c.resume = 0;
    run(&c);
    c.resume = 1;
    assert_int_equal(truncate(name_of(3), 500), 0);
    assert_int_equal(truncate(name_of(2), 0), 0);
    refuse(&c, GW_ERR_DATA, "good", name_of(2));
    c.out = NULL;
    refuse(&c, GW_ERR_ARG, "--resume", "--out");
}

/* ---- another run
 * --------------------------------------------------------------------- */

static void another_run_is_refused(void **state)
{
    gwt_config c = small(), other;

    (void)state;
    run(&c);
    refuse(&c, GW_ERR_ARG, "holds", "--force");
    c.resume = 1;
#define REFUSE(field, value, word)                    \
    do {                                              \
        other = c;                                    \
        other.field = value;                          \
        refuse(&other, GW_ERR_ARG, name_of(3), word); \
    } while (0)
    REFUSE(model, "fnn3", "--model softmax, but this run has fnn3");
    REFUSE(data, "synthetic:train=701,test=90,dim=30,classes=4", "--data");
    REFUSE(sync, "gtopk:0.1", "--sync dense");
    REFUSE(seed, 4, "--seed 3, but this run has 4");
    REFUSE(batch, 7, "--batch 8, but this run has 7");
    REFUSE(optimizer, "adam", "--optimizer sgd");
    REFUSE(lr, 0.2, "--lr 0.1, but this run has 0.2");
    REFUSE(momentum, 0.0, "--momentum 0.9, but this run has 0");
    REFUSE(schedule, "cosine", "--lr-schedule");
    REFUSE(warmup, "5", "--warmup");
    REFUSE(nonfinite, GW_NONFINITE_SKIP, "--nonfinite stop");
    REFUSE(steps, 24, "step 25");
#undef REFUSE
    /* What does not change the model may differ; the end may come later. */
    c.link = "10gbit";
    c.spawn = GW_SPAWN_PROCESSES;
    c.log_every = 3;
    c.steps = 30;
    gwt_summary resumed = run(&c);
    c = small();
    c.force = 1;
    c.steps = 30;
    assert_true(run(&c).model_hash == resumed.model_hash);
}

/* Where the rate depends on the end, the end is fixed. */
static void cosine_keeps_its_end(void **state)
{
    gwt_config c = small();

    (void)state;
    c.schedule = "cosine";
    run(&c);
    c.resume = 1;
    c.steps = 30;
    refuse(&c, GW_ERR_ARG, "--steps 25", "30");
}

static void one_run_at_a_time(void **state)
{
    gwt_config c = small();
    gwt_job *job;

    (void)state;
    assert_int_equal(gwt_job_new(&job, &c), GW_OK);
    refuse(&c, GW_ERR_SYSTEM, "another run", directory);
    gwt_job_free(job);
    run(&c);
}

/* ---- a full disk
 * ----------------------------------------------------------------------- */

static gw_status run_limited(const gwt_config *config, rlim_t bytes)
{
    struct rlimit limit, small_limit;
    gwt_job *job;
    gw_status st;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small_limit = (struct rlimit){.rlim_cur = bytes, .rlim_max = limit.rlim_max};
    assert_int_equal(gwt_job_new(&job, config), GW_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small_limit), 0);
    st = gwt_job_run(job, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gwt_job_free(job);
    return st;
}

static void full_disk_loses_nothing(void **state)
{
    gwt_config c = small();
    char partial[128];

    (void)state;
    c.data = "synthetic:train=700,test=90,dim=8000,classes=4";
    gwt_summary whole = run(&c);
    c.force = 1;
    c.steps = 20;
    run(&c);
    c.force = 0;
    c.steps = 25;
    c.resume = 1;
    assert_int_equal(run_limited(&c, 100000), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "cannot write"));
    assert_non_null(strstr(gw_error_message(), name_of(3)));
    assert_true(is_there(1) && is_there(2));
    snprintf(partial, sizeof partial, "%s/checkpoint.partial", directory);
    assert_int_not_equal(access(partial, F_OK), 0);
    assert_true(run(&c).model_hash == whole.model_hash);
}

/* ---- another number of workers
 * --------------------------------------------------------- */

enum { FLOATS = 124, STATE_HEADER = 376 };

/* The sum over all workers of a part of their sections. */
static void sum_sections(const char *path, uint32_t kind, size_t at, double *sum)
{
    gwt_checkpoint_job job;
    gwt_sections in;
    float x[FLOATS];

    assert_int_equal(gwt_checkpoint_open(&in, path, &job), GW_OK);
    memset(sum, 0, FLOATS * sizeof *sum);
    for (uint32_t r = 0; r < job.workers; r++) {
        const gwt_section *s = gwt_sections_find(&in, kind, r);
        if (s == NULL)
            break;
        assert_int_equal(gwt_sections_read(&in, s, at, x, sizeof x), GW_OK);
        for (size_t i = 0; i < FLOATS; i++)
            sum[i] += (double)x[i];
    }
    gwt_sections_close(&in);
}

static void assert_near(const double *a, const double *b, double scale)
{
    double length = 0.0;

    for (size_t i = 0; i < FLOATS; i++) {
        length += fabs(a[i]);
        assert_true(fabs(a[i] - scale * b[i]) < 1e-5 * (1.0 + fabs(a[i])));
    }
    assert_true(length > 0.0);
}

/* An epoch with four workers, then the rest with others: at the seam the residuals
 * of all together are what they were. */
static void residuals_are_preserved(void **state)
{
    static const char *const sync[] = {"gtopk:0.05", "drop:0.95", "topk:0.05+q:4",
                                       "local:4+topk:0.1"};
    static const int workers[] = {3, 8, 1, 5};
    static const size_t tries[] = {4, 2, 2, 2};
    double before[FLOATS], after[FLOATS];

    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < tries[i]; k++) {
            gwt_config c = small();
            c.sync = sync[i];
            c.steps = 0;
            c.epochs = 1;
            c.momentum = 0.0;
            c.force = 1;
            gwt_summary first = run(&c);
            sum_sections(name_of(3), GWT_KIND_SYNC, STATE_HEADER, before);
            c.workers = workers[k];
            c.force = 0;
            c.resume = 1;
            run(&c); /* is at its end already */
            sum_sections(name_of(4), GWT_KIND_SYNC, STATE_HEADER, after);
            assert_near(before, after, 1.0);
            c.epochs = 3;
            gwt_summary s = run(&c);
            if (!(s.test_loss < first.test_loss))
                fail_msg("%s: loss %g, then %g with %d workers", sync[i],
                         first.test_loss, s.test_loss, workers[k]);
            assert_int_equal(s.steps, 3 * (700 / (8 * workers[k])));
        }
}

static void models_are_averaged(void **state)
{
    gwt_config c = small();
    double before[FLOATS], after[FLOATS];

    (void)state;
    c.sync = "none";
    c.steps = 0;
    c.epochs = 1;
    run(&c);
    sum_sections(name_of(3), GWT_KIND_MODEL, 0, before);
    c.workers = 1;
    c.resume = 1;
    run(&c);
    sum_sections(name_of(4), GWT_KIND_MODEL, 0, after);
    assert_near(before, after, 4.0);
    sum_sections(name_of(3), GWT_KIND_SLOTS, 0, before);
    sum_sections(name_of(4), GWT_KIND_SLOTS, 0, after);
    assert_near(before, after, 4.0);
}

/* The place in the epoch stays: 30 of 21 steps per epoch with 4 workers are an epoch
 * and 9 steps; with 3 workers an epoch has 29 steps, with 8 it has 10. */
static void steps_are_translated(void **state)
{
    gwt_checkpoint_job saved = {.steps = 30, .epoch_steps = 21, .workers = 4};
    gwt_job job = {.config.workers = 3, .epoch_steps = 29};

    (void)state;
    assert_int_equal(gwt_checkpoint_steps(&saved, &job), 29 + 9 * 4 / 3);
    job.config.workers = 8;
    job.epoch_steps = 10;
    assert_int_equal(gwt_checkpoint_steps(&saved, &job), 10 + 9 * 4 / 8);
    job.config.workers = 4;
    job.epoch_steps = 21;
    assert_int_equal(gwt_checkpoint_steps(&saved, &job), 30);
    job.config.workers = 2;
    job.epoch_steps = 17;
    assert_int_equal(gwt_checkpoint_steps(&saved, &job), 17 + 17);
}

int main(void)
{
#define RUN(test) \
    cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        RUN(kept_and_numbered),
        RUN(sections_are_there),
        RUN(every_kind_of_model_goes_on),
        RUN(losses_add_up),
        RUN(older_files_are_read),
        RUN(every_damage_is_seen),
        RUN(missing_section_is_seen),
        RUN(damaged_one_is_passed_over),
        RUN(none_is_good),
        RUN(another_run_is_refused),
        RUN(cosine_keeps_its_end),
        RUN(one_run_at_a_time),
        RUN(full_disk_loses_nothing),
        RUN(residuals_are_preserved),
        RUN(models_are_averaged),
        cmocka_unit_test(steps_are_translated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
