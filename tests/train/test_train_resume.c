/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_resume.c - going on from a checkpoint: nothing is forgotten, whatever the
 * model and the method, with files of before, after a full disk, and with another
 * number of workers. What is in them is in test_train_checkpoint.c. */
#define _GNU_SOURCE
#include "support_checkpoint.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

static void write_text(const char *name, int lines)
{
    FILE *file = fopen(in_folder(name), "w");

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
    snprintf(data, sizeof data, "text:%s", test_folder);
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
        stop_at(&c, 4);
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
    stop_at(&c, 20);
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

    snprintf(partial, sizeof partial, "%s/checkpoint.partial", test_folder);
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
    stop_at(&c, 20);
    cut_words(name_of(2), words[0]);
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
    stop_at(&c, 20);
    assert_int_equal(run_limited(&c, 100000), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "cannot write"));
    assert_non_null(strstr(gw_error_message(), name_of(3)));
    assert_true(is_there(1) && is_there(2));
    snprintf(partial, sizeof partial, "%s/checkpoint.partial", test_folder);
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
            c.hyper.momentum = 0.0;
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

/* A file of before counts --eval-every in epochs; today a bare number is one of steps.
 */
static void intervals_of_before_are_epochs(void **state)
{
    static const char *const lines[][2] = {
        {"--eval-every 3\n", "--eval-every 3epochs\n"},
        {"--eval-every 0\n", "--eval-every 0epochs\n"},
        {"--eval-every 3steps\n", "--eval-every 3steps\n"},
        {"--eval-every 2.5epochs\n", "--eval-every 2.5epochs\n"},
        {"--checkpoint-every 3\n", "--checkpoint-every 3\n"},
    };
    char flags[GWT_SETTINGS_CAP];

    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        gwt_settings_flags(lines[i][0], strlen(lines[i][0]), flags);
        assert_string_equal(flags, lines[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(every_kind_of_model_goes_on),
        RUN(losses_add_up),
        RUN(older_files_are_read),
        RUN(full_disk_loses_nothing),
        RUN(residuals_are_preserved),
        RUN(models_are_averaged),
        cmocka_unit_test(steps_are_translated),
        cmocka_unit_test(intervals_of_before_are_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
