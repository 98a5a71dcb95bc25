/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_checkpoint.c - checkpoints: what is in them, what becomes of damaged
 * ones, and of those of another run. Going on from them is in test_train_resume.c,
 * runs that are killed are in test_cli_resume.py. */
#define _GNU_SOURCE
#include "support_checkpoint.h"
#include "run/weights.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>

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

/* ---- files that cannot be read --------------------------------------------------- */

/* Takes from this thread what lets root read and write everything, or gives it back.
 * Others do not have it. */
static void set_powers(int given)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct set[2];
    const uint32_t powers = 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

    assert_int_equal(syscall(SYS_capget, &head, set), 0);
    set[0].effective &= ~powers;
    if (given)
        set[0].effective |= set[0].permitted & powers;
    assert_int_equal(syscall(SYS_capset, &head, set), 0);
}

/* A checkpoint that cannot be read is not for that damaged: it stays, and so does the
 * run, until somebody has looked. */
static void unreadable_one_stays(void **state)
{
    gwt_config c = small();
    char other[160];

    (void)state;
    gwt_summary whole = run(&c);
    assert_int_equal(chmod(name_of(3), 0), 0);
    set_powers(0);
    c.resume = 1;
    refuse(&c, GW_ERR_SYSTEM, name_of(3), strerror(EACCES));
    snprintf(other, sizeof other, "%s/weights", test_folder);
    assert_int_equal(gwt_weights_export(test_folder, other), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), name_of(3)));
    set_powers(1);
    assert_true(is_there(2) && is_there(3));
    snprintf(other, sizeof other, "%s.damaged", name_of(3));
    assert_int_not_equal(access(other, F_OK), 0);
    assert_int_equal(chmod(name_of(3), 0644), 0);
    assert_true(run(&c).model_hash == whole.model_hash);
}

/* A damaged file that cannot step aside is not removed either. */
static void damaged_one_is_never_removed(void **state)
{
    gwt_config c = small();
    char aside[160];

    (void)state;
    run(&c);
    flip(name_of(3), 300);
    snprintf(aside, sizeof aside, "%s.damaged", name_of(3));
    assert_int_equal(mkdir(aside, 0777), 0);
    c.resume = 1;
    refuse(&c, GW_ERR_SYSTEM, name_of(3), aside);
    assert_true(is_there(3));
}

/* ---- another run
 * --------------------------------------------------------------------- */

static void another_run_is_refused(void **state)
{
    gwt_config c = small(), other;

    (void)state;
    run(&c);
    refuse(&c, GW_ERR_ARG, "finished run", "--force");
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
    REFUSE(hyper.momentum, 0.0, "--momentum 0.9, but this run has 0");
    REFUSE(hyper.nesterov, 1, "--nesterov off, but this run has on");
    REFUSE(hyper.weight_decay, 0.5, "--weight-decay 0, but this run has 0.5");
    REFUSE(schedule, "cosine", "--lr-schedule");
    REFUSE(warmup, "5", "--warmup");
    REFUSE(nonfinite, GW_NONFINITE_SKIP, "--nonfinite stop");
    REFUSE(threads, 2, "--threads 1, but this run has 2");
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

/* ---- settings ----------------------------------------------------------------- */

/* The settings in a checkpoint, as text. */
static void read_settings(const char *path, char text[GWT_SETTINGS_CAP])
{
    const gwt_section *s;
    gwt_sections in;

    assert_int_equal(gwt_sections_open(&in, path), GW_OK);
    s = gwt_sections_find(&in, GWT_KIND_SETTINGS, 0);
    assert_true(s != NULL && s->len < GWT_SETTINGS_CAP);
    assert_int_equal(gwt_sections_read(&in, s, 0, text, (size_t)s->len), GW_OK);
    text[s->len] = '\0';
    gwt_sections_close(&in);
}

static void each_setting_is_there_once(void **state)
{
    char text[GWT_SETTINGS_CAP], name[64];
    gwt_config c = small();

    (void)state;
    run(&c);
    read_settings(name_of(3), text);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        snprintf(name, sizeof name, "\n%.*s", (int)strcspn(line, " ") + 1, line);
        if (strstr(strchr(line, '\n'), name) != NULL)
            fail_msg("%s is there twice", name + 1);
    }
}

/* Writes the checkpoint anew with other settings. */
static void change_settings(const char *path, const char *text)
{
    gwt_sections_out out;
    gwt_sections in;

    assert_int_equal(gwt_sections_open(&in, path), GW_OK);
    assert_int_equal(gwt_sections_create(&out, path, in_folder("checkpoint.partial")),
                     GW_OK);
    for (size_t i = 0; i < in.count; i++) {
        const gwt_section *s = &in.list[i];
        int settings = s->kind == GWT_KIND_SETTINGS;
        size_t len = settings ? strlen(text) : (size_t)s->len;
        uint8_t *bytes = calloc(s->len + 1, 1);
        assert_int_equal(gwt_sections_read(&in, s, 0, bytes, (size_t)s->len), GW_OK);
        assert_int_equal(gwt_sections_put(&out, s->kind, s->worker,
                                          settings ? (const void *)text : bytes, len),
                         GW_OK);
        free(bytes);
    }
    assert_int_equal(gwt_sections_commit(&out), GW_OK);
    gwt_sections_close(&in);
}

static void cut_line(char *text, const char *line)
{
    char *at = strstr(text, line);

    assert_non_null(at);
    memmove(at, at + strlen(line), strlen(at + strlen(line)) + 1);
}

/* Once three settings were written twice, and the number of threads was not, nor was
 * whether momentum was Nesterov's: it was not. */
static void settings_of_before_are_read(void **state)
{
    char text[GWT_SETTINGS_CAP], warnings[2048];
    gwt_config c = small();

    (void)state;
    gwt_summary whole = run(&c);
    stop_at(&c, 20);
    read_settings(name_of(2), text);
    cut_line(text, "--threads 1\n");
    cut_line(text, "--nesterov off\n");
    strcat(text, "--clip 0\n--dropout 0\n--sequence 0\n");
    change_settings(name_of(2), text);
    c.hyper.nesterov = 1;
    refuse(&c, GW_ERR_ARG, name_of(2), "--nesterov off, but this run has on");
    c.hyper.nesterov = 0;
    assert_true(run_with(&c, warnings).model_hash == whole.model_hash);
    assert_non_null(strstr(warnings, "does not record"));
    assert_non_null(strstr(warnings, "--threads"));
}

static void one_run_at_a_time(void **state)
{
    gwt_config c = small();
    gwt_job *job;

    (void)state;
    assert_int_equal(gwt_job_new(&job, &c), GW_OK);
    refuse(&c, GW_ERR_SYSTEM, "another run", test_folder);
    gwt_job_free(job);
    run(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(kept_and_numbered),          RUN(sections_are_there),
        RUN(every_damage_is_seen),       RUN(missing_section_is_seen),
        RUN(damaged_one_is_passed_over), RUN(none_is_good),
        RUN(unreadable_one_stays),       RUN(damaged_one_is_never_removed),
        RUN(another_run_is_refused),     RUN(cosine_keeps_its_end),
        RUN(each_setting_is_there_once), RUN(settings_of_before_are_read),
        RUN(one_run_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
