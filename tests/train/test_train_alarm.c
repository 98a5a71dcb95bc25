/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_alarm.c - runs that go away are told of, once, with what to do; runs that
 * go well are not. */
#define _GNU_SOURCE
#include "support_training.h"

#include <math.h>
#include <string.h>

#include "run/alarm.h"

/* ---- losses -------------------------------------------------------------------- */

enum { STEPS = 500 };

/* The step, 1 in the first, in which the alarm comes; 0 if it does not. */
static int alarm_in(double (*loss)(int t))
{
    gwt_alarm alarm = {0};

    for (int t = 1; t <= STEPS; t++)
        if (gwt_alarm_sees(&alarm, loss(t)))
            return t;
    return 0;
}

static double learns(int t)
{
    return 2.3 / sqrt(t);
}

/* Batches differ, some of them much. */
static double learns_with_noise(int t)
{
    return learns(t) * (t % 13 == 0 ? 8 : 1 + 0.5 * sin(t));
}

/* A learning rate that is a little high at first. */
static double jumps_at_first(int t)
{
    return t > 1 && t < 12 ? 20 : learns(t);
}

/* From nearly nothing to a hundred times as much is no step back to the beginning. */
static double overfits(int t)
{
    return t < 300 ? 2.3 * exp2(-t / 10.0) : 0.2;
}

static double learns_nothing(int t)
{
    return 2.3 + 0.1 * sin(t);
}

static double grows(int t)
{
    return 2.3 * exp2(t / 8.0);
}

static double forgets(int t)
{
    return t < 200 ? learns(t) : 2.3;
}

static double bursts_and_is_dead(int t)
{
    return t > 3 && t < 8 ? 300 : 2.3;
}

static double is_no_number(int t)
{
    return t < 50 ? learns(t) : (double)NAN;
}

static void tells_losses_apart(void **state)
{
    (void)state;
    assert_int_equal(alarm_in(learns), 0);
    assert_int_equal(alarm_in(learns_with_noise), 0);
    assert_int_equal(alarm_in(jumps_at_first), 0);
    assert_int_equal(alarm_in(overfits), 0);
    assert_int_equal(alarm_in(learns_nothing), 0);
    assert_in_range(alarm_in(grows), 1, 40);
    assert_in_range(alarm_in(forgets), 200, 240);
    assert_in_range(alarm_in(bursts_and_is_dead), 8, 40);
    assert_int_equal(alarm_in(is_no_number), 50);
}

/* ---- runs ---------------------------------------------------------------------- */

static int told;
static char text[512];

static void listen(void *arg, gwt_event event, const gwt_progress *p)
{
    (void)arg;
    if (event != GWT_EVENT_WARNING)
        return;
    told++;
    snprintf(text, sizeof text, "%s", p->warning);
}

/* How many lines of the file in the run directory have this in them. */
static int lines_with(const char *name, const char *what)
{
    char path[256], line[2048];
    int count = 0;

    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL)
        count += strstr(line, what) != NULL;
    fclose(file);
    return count;
}

/* Runs it; its warning has these words, or there is none if they are NULL. */
static void assert_warns(const gwt_config *c, const char *words)
{
    gwt_observer observer = {.tell = listen};
    gwt_job *job;

    told = 0;
    if (gwt_job_new(&job, c) != GW_OK || gwt_job_run(job, &observer) != GW_OK)
        fail_msg("%s", gw_error_message());
    const char *warning = gwt_job_summary(job)->warning;
    if (words == NULL && (told != 0 || warning[0] != '\0'))
        fail_msg("%s, --lr %g: '%s'", c->sync, c->lr, text);
    if (words != NULL && (told != 1 || strstr(text, words) == NULL))
        fail_msg("%s, --lr %g: told %d times: '%s' lacks '%s'", c->sync, c->lr, told,
                 text, words);
    assert_string_equal(warning, words != NULL ? text : "");
    assert_int_equal(lines_with("metrics.jsonl", "\"warning\": \"step "), told);
    assert_int_equal(lines_with("summary.json", "\"warning\": \"step "), told);
    gwt_job_free(job);
}

static gwt_config training(const char *sync, double lr)
{
    gwt_config c = small_training();

    c.model = "fnn3";
    c.sync = sync;
    c.lr = lr;
    c.advice = 1;
    c.force = 1;
    c.workers = 2;
    c.spawn = GW_SPAWN_THREADS;
    c.steps = 150;
    return c;
}

static void runs_that_go_well_are_silent(void **state)
{
    static const char *const sync[] = {"dense", "topk:0.01", "gtopk:0.001", "sign",
                                       "local:4"};

    (void)state;
    for (size_t i = 0; i < sizeof sync / sizeof *sync; i++) {
        gwt_config c = training(sync[i], 0.02);
        assert_warns(&c, NULL);
        c.optimizer = "adam";
        c.lr = 0.002;
        c.warmup = "100";
        assert_warns(&c, NULL);
    }
}

static void runs_that_go_away_are_told_of(void **state)
{
    static const char *const sync[] = {"topk:0.01", "gtopk:0.01", "drop:0.99"};

    (void)state;
    for (size_t i = 0; i < sizeof sync / sizeof *sync; i++) {
        gwt_config c = training(sync[i], 5.0);
        assert_warns(&c, "or a higher density in --sync");
    }
    gwt_config c = training("dense", 5.0);
    assert_warns(&c, "does not come back: lower --lr, or use --clip or --warmup (\"");
}

/* A run that begins with weights and predicts numbers has no loss to compare with, but
 * its residual. */
static void residuals_are_told_of(void **state)
{
    gwt_config c = training("topk:0.1", 0.02);
    char weights[256];

    (void)state;
    snprintf(weights, sizeof weights, "%s/weights.safetensors", test_folder);
    c.model = "least-squares";
    c.data = "least-squares:train=700,test=90,dim=30";
    c.hyper.momentum = 0.0;
    c.export_to = weights;
    assert_warns(&c, NULL);
    c.export_to = NULL;
    c.init = weights;
    assert_warns(&c, NULL);
    c.lr = 3.0;
    c.steps = 40;
    assert_warns(&c, "the residual is ");
    c.init = NULL;
    assert_warns(&c, "the loss went from ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_losses_apart),
        cmocka_unit_test_setup_teardown(runs_that_go_well_are_silent, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(runs_that_go_away_are_told_of, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(residuals_are_told_of, make_folder,
                                        remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
