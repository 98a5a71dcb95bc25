/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_advice.c - runs whose momentum moves in front of the selection, or whose
 * workers step optimizers of their own: they are what the advised spec makes of them,
 * and go on as they were. */
#define _GNU_SOURCE
#include "support_checkpoint.h"

#include <math.h>

/* Long enough that the dense steps at the beginning are over. */
#define MOVED "+momentum:0.6,dampening=0.6"

static gwt_config advised(const char *sync)
{
    gwt_config config = small();

    config.sync = sync;
    config.advice = 1;
    config.force = 1;
    config.steps = 100;
    return config;
}

/* ---- what is trained --------------------------------------------------------- */

static void momentum_moves(void **state)
{
    gwt_config c = advised("topk:0.1");

    (void)state;
    gwt_summary s = run(&c);
    c.sync = "topk:0.1,warmup=64,ladder=64+momentum:0.9";
    c.hyper.momentum = 0.0;
    gwt_summary same = run(&c);
    c.sync = "topk:0.1";
    c.hyper.momentum = 0.9;
    c.advice = 0;
    gwt_summary as_it_is = run(&c);
    assert_true(s.model_hash == same.model_hash);
    assert_string_equal(s.sync, same.sync);
    assert_true(s.model_hash != as_it_is.model_hash);
    assert_null(strstr(as_it_is.sync, "momentum"));
}

static void nesterov_moves(void **state)
{
    gwt_config c = advised("topk:0.1");

    (void)state;
    gwt_summary plain = run(&c);
    c.hyper.nesterov = 1;
    gwt_summary s = run(&c);
    c.sync = "topk:0.1,warmup=64,ladder=64+momentum:0.9,nesterov=on";
    c.hyper = (gwt_hyper){0};
    gwt_summary same = run(&c);
    assert_true(s.model_hash == same.model_hash);
    assert_string_equal(s.sync, same.sync);
    assert_true(s.model_hash != plain.model_hash);
}

static void optimizers_step_by_themselves(void **state)
{
    static const char *const optimizer[] = {"adam", "adagrad", "adamw"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        gwt_config c = advised("gtopk:0.1");
        c.optimizer = optimizer[i];
        c.lr = 0.01;
        gwt_summary s = run(&c);
        c.advice = 0;
        gwt_summary as_it_is = run(&c);
        c.sync = i == 1 ? "update:scale=auto+gtopk:0.1,warmup=64,ladder=64"
                        : "update:scale=auto+gtopk:0.1,warmup=64,ladder=64" MOVED;
        assert_true(run(&c).model_hash == s.model_hash);
        assert_true(as_it_is.model_hash != s.model_hash);
    }
}

/* Where everything is sent, momentum in the sync is momentum in the optimizer, with
 * weight decay and clipping before it. */
static void decay_comes_before_momentum(void **state)
{
    gwt_config c = advised("topk:0.1,warmup=1000");

    (void)state;
    c.workers = 1;
    c.clip = 0.5;
    for (c.hyper.nesterov = 0; c.hyper.nesterov < 2; c.hyper.nesterov++) {
        c.hyper.weight_decay = 0.05;
        c.sync = "topk:0.1,warmup=1000";
        gwt_summary moved = run(&c);
        c.sync = "dense";
        gwt_summary dense = run(&c);
        c.hyper.weight_decay = 0.0;
        gwt_summary other = run(&c);
        assert_true(fabs(moved.test_loss - dense.test_loss) < 1e-5);
        assert_true(fabs(moved.train_loss - dense.train_loss) < 1e-5);
        assert_true(fabs(other.test_loss - dense.test_loss) > 1e-3);
    }
}

/* A worker clips its own gradient at sqrt(P) times the limit, as the stage does. */
static void limits_are_those_of_the_stage(void **state)
{
    gwt_config c = advised("topk:0.1,warmup=0");

    (void)state;
    c.clip = 0.5;
    gwt_summary own = run(&c);
    c.clip = 0.0;
    gwt_summary longer = run(&c);
    c.hyper.momentum = 0.0;
    c.sync = "topk:0.1,warmup=0+momentum:0.9,clip=0.5";
    gwt_summary stage = run(&c);
    assert_true(fabs(own.test_loss - stage.test_loss) < 1e-4);
    assert_true(fabs(own.test_loss - longer.test_loss) > 1e-3);
}

/* A spec that applies S times the change of the model applies weight decay of the
 * optimizer's own once: it does with one worker what S times the rate and 1/S of the
 * decay do. */
static void decay_is_not_scaled(void **state)
{
    gwt_config c = advised("dense");

    (void)state;
    c.workers = 1;
    c.optimizer = "adamw";
    c.lr = 0.02;
    c.hyper.weight_decay = 2.0;
    gwt_summary dense = run(&c);
    c.sync = "update:start=0,scale=2";
    c.lr = 0.01;
    c.hyper.weight_decay = 4.0;
    gwt_summary scaled = run(&c);
    c.hyper.weight_decay = 2.0;
    gwt_summary other = run(&c);
    assert_true(fabs(scaled.test_loss - dense.test_loss) < 1e-4);
    assert_true(fabs(scaled.train_loss - dense.train_loss) < 1e-4);
    assert_true(fabs(other.test_loss - dense.test_loss) > 1e-3);
}

/* ---- what is said -------------------------------------------------------------- */

static void assert_says(const gwt_config *c, const char *note, const char *warning)
{
    gwt_job *job;

    if (gwt_job_new(&job, c) != GW_OK)
        fail_msg("%s", gw_error_message());
    if (note == NULL)
        assert_string_equal(gwt_job_notes(job), "");
    else if (strstr(gwt_job_notes(job), note) == NULL)
        fail_msg("'%s' lacks '%s'", gwt_job_notes(job), note);
    if (warning == NULL)
        assert_string_equal(gwt_job_warnings(job), "");
    else if (strstr(gwt_job_warnings(job), warning) == NULL)
        fail_msg("'%s' lacks '%s'", gwt_job_warnings(job), warning);
    gwt_job_free(job);
}

static void changes_are_told(void **state)
{
    gwt_config c = advised("topk:0.1");

    (void)state;
    c.steps = 1000;
    assert_says(&c,
                "topk:0.1 runs as topk:0.1,warmup=64,ladder=64+momentum:0.9: ", NULL);
    c.hyper.nesterov = 1;
    assert_says(
        &c, "runs as topk:0.1,warmup=64,ladder=64+momentum:0.9,nesterov=on: ", NULL);
    c.hyper.nesterov = 0;
    c.advice = 0;
    assert_says(&c, NULL, NULL);
    c.advice = 1;
    c.optimizer = "adam";
    assert_says(&c,
                "runs as update:scale=auto+topk:0.1,warmup=64,ladder=64+momentum:0.6,"
                "dampening=0.6: ",
                NULL);
    c.sync = "dense";
    assert_says(&c, NULL, NULL);
    c.optimizer = "sgd";
    c.sync = "a2sgd";
    assert_says(&c, NULL, "a2sgd: models drift apart");
    c.sync = "gtopk:0.001";
    assert_says(&c, "momentum:0.9", "so low a density");
}

/* The library is told how long the run is. */
static void short_runs_are_told(void **state)
{
    gwt_config c = advised("topk:0.1");

    (void)state;
    c.steps = 128;
    assert_says(&c, "momentum:0.9", "topk:0.1: the first 128 steps");
    c.steps = 129;
    assert_says(&c, "momentum:0.9", NULL);
    c.steps = 128;
    c.advice = 0;
    assert_says(&c, NULL, NULL);
    c.advice = 1;
    c.optimizer = "adam";
    assert_says(&c, "update:", "topk:0.1: the first 128 steps");
}

static void write_text(const char *name, int words)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s.txt", test_folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < words; i++)
        fprintf(f, "%s", i % 3 == 0 ? "one " : "two ");
    assert_int_equal(fclose(f), 0);
}

/* The trainer knows models that had only begun to learn. */
static void beginners_are_told(void **state)
{
    gwt_config c = advised("topk:0.1");
    char data[512];

    (void)state;
    write_text("train", 4000);
    write_text("valid", 400);
    write_text("test", 400);
    snprintf(data, sizeof data, "text:%s", test_folder);
    c.model = "lstm:8";
    c.data = data;
    c.sequence = 10;
    c.steps = 996;
    assert_says(&c, "momentum:0.9", "this model had a perplexity 7 % higher");
    c.steps = 997;
    assert_says(&c, "momentum:0.9", NULL);
    c.steps = 996;
    c.hyper.momentum = 0.0;
    assert_says(&c, NULL, NULL);
}

/* ---- going on ------------------------------------------------------------------ */

/* The optimizers of the workers differ, and are kept one by one. */
static void advised_runs_go_on(void **state)
{
    static const char *const optimizer[] = {"sgd",  "adam", "adagrad",
                                            "adam", "sgd",  "adamw"};
    static const char *const sync[] = {
        "topk:0.1",  "topk:0.1", "gtopk:0.1+q:4", "update:start=5,scale=1.5+drop:0.9",
        "gtopk:0.1", "topk:0.1"};

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        gwt_config c = advised(sync[i]);
        c.optimizer = optimizer[i];
        c.hyper.nesterov = i == 4;
        c.hyper.weight_decay = 0.01;
        c.lr = 0.02;
        gwt_summary whole = run(&c);
        for (uint64_t at = 3; at < 100; at += 76) {
            c.resume = 0;
            stop_at(&c, at);
            gwt_summary resumed = run(&c);
            assert_true(whole.model_hash == resumed.model_hash);
            assert_true(whole.train_loss == resumed.train_loss);
            assert_string_equal(whole.sync, resumed.sync);
        }
    }
}

/* Rewrites the settings of a checkpoint by `change`. */
static void change_settings(const char *path, void (*change)(char *text, size_t *len))
{
    gwt_sections_out out;
    gwt_sections in;
    char partial[128], text[2 * GWT_SETTINGS_CAP];

    snprintf(partial, sizeof partial, "%s/checkpoint.partial", test_folder);
    assert_int_equal(gwt_sections_open(&in, path), GW_OK);
    assert_int_equal(gwt_sections_create(&out, path, partial), GW_OK);
    for (size_t i = 0; i < in.count; i++) {
        const gwt_section *s = &in.list[i];
        size_t len = (size_t)s->len;
        char *bytes = s->kind == GWT_KIND_SETTINGS ? text : malloc(len + 1);
        assert_int_equal(gwt_sections_read(&in, s, 0, bytes, len), GW_OK);
        bytes[len] = '\0';
        if (bytes == text)
            change(text, &len);
        assert_int_equal(gwt_sections_put(&out, s->kind, s->worker, bytes, len), GW_OK);
        if (bytes != text)
            free(bytes);
    }
    assert_int_equal(gwt_sections_commit(&out), GW_OK);
    gwt_sections_close(&in);
}

static void cut_line(char *text, const char *name)
{
    char *at = strstr(text, name), *end;

    assert_non_null(at);
    end = strchr(at, '\n') + 1;
    memmove(at, end, strlen(end) + 1);
}

/* As they were before advice was taken. */
static void forget_asked(char *text, size_t *len)
{
    cut_line(text, "asked-sync ");
    cut_line(text, "asked-momentum ");
    *len = strlen(text);
}

static void runs_of_before_go_on(void **state)
{
    static const char *const optimizer[] = {"sgd", "adam"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        gwt_config c = advised("topk:0.1");
        c.optimizer = optimizer[i % 2];
        c.lr = 0.02;
        c.advice = 0;
        gwt_summary whole = run(&c);
        stop_at(&c, 80);
        if (i < 2)
            change_settings(name_of(8), forget_asked);
        c.advice = 1;
        assert_true(run(&c).model_hash == whole.model_hash);
    }
}

static void spoil_sync(char *text, size_t *len)
{
    char *at = strstr(text, "\n--sync ");

    assert_non_null(at);
    memcpy(at + strlen("\n--sync "), "topj", 4);
    *len = strlen(text);
}

static void spoil_momentum(char *text, size_t *len)
{
    char *at = strstr(text, "\n--momentum ");

    assert_non_null(at);
    at[strlen("\n--momentum ")] = '7';
    *len = strlen(text);
}

static void other_settings_are_refused(void **state)
{
    gwt_config c = advised("topk:0.1");

    (void)state;
    stop_at(&c, 80);
    c.advice = 0;
    refuse(&c, GW_ERR_ARG, "--sync topk:density=0.1", "momentum=0.9");
    c.advice = 1;
    c.hyper.momentum = 0.8;
    refuse(&c, GW_ERR_ARG, "--momentum 0.9, but this run has 0.8", name_of(8));
    c.hyper.momentum = 0.9;
    change_settings(name_of(8), spoil_momentum);
    refuse(&c, GW_ERR_DATA, name_of(8), "invalid momentum 7");
    c.resume = 0;
    c.force = 1;
    stop_at(&c, 80);
    change_settings(name_of(8), spoil_sync);
    refuse(&c, GW_ERR_DATA, name_of(8), "invalid spec 'topj");
}

/* The spec is that of the workers who began. */
static void other_workers_go_on(void **state)
{
    static const char *const optimizer[] = {"sgd", "adam"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        gwt_config c = advised("topk:0.1");
        c.optimizer = optimizer[i];
        c.lr = 0.02;
        stop_at(&c, 80);
        c.workers = 3;
        c.steps = 120;
        gwt_summary s = run(&c);
        assert_int_equal(s.steps, 120);
        assert_non_null(strstr(s.sync, i == 0 ? "momentum=0.9" : "scale=auto+"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(momentum_moves),
        RUN(nesterov_moves),
        RUN(optimizers_step_by_themselves),
        RUN(decay_comes_before_momentum),
        RUN(limits_are_those_of_the_stage),
        RUN(decay_is_not_scaled),
        RUN(changes_are_told),
        RUN(short_runs_are_told),
        RUN(beginners_are_told),
        RUN(advised_runs_go_on),
        RUN(runs_of_before_go_on),
        RUN(other_settings_are_refused),
        RUN(other_workers_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
