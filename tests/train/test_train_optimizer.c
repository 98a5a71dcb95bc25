/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_optimizer.c - optimizers against slow obvious versions in double, and
 * learning-rate schedules at the points where they bend. */
#include "optim/optimizer.h"
#include "optim/lr_schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N = 67, STEPS = 40 };

static float gradient_at(uint64_t t, size_t i)
{
    return (float)((double)(gwt_random(5, 50, t, i) >> 40) * 0x1p-23 - 1.0);
}

/* One parameter, as the formulas say, in double. a and b are its state. */
typedef void formula(double *x, double g, double *a, double *b, double lr, double t);

static double momentum, decay;
static int nesterov;

static void sgd(double *x, double g, double *a, double *b, double lr, double t)
{
    (void)b, (void)t;
    g += decay * *x;
    *a = momentum * *a + g;
    *x -= lr * (nesterov ? g + momentum * *a : *a);
}

static void adagrad(double *x, double g, double *a, double *b, double lr, double t)
{
    (void)b, (void)t;
    g += decay * *x;
    *a += g * g;
    *x -= lr * g / (sqrt(*a) + 1e-10);
}

static void adam(double *x, double g, double *a, double *b, double lr, double t)
{
    g += decay * *x;
    *a = 0.9 * *a + 0.1 * g;
    *b = 0.999 * *b + 0.001 * g * g;
    double m = *a / (1.0 - pow(0.9, t)), s = *b / (1.0 - pow(0.999, t));
    *x -= lr * m / (sqrt(s) + 1e-8);
}

/* The decay is no part of the gradient, whose size so far it would change. */
static void adamw(double *x, double g, double *a, double *b, double lr, double t)
{
    double d = decay;

    *x -= lr * decay * *x;
    decay = 0.0;
    adam(x, g, a, b, lr, t);
    decay = d;
}

static void compare(const char *name, formula *slow, size_t n)
{
    float x[N], g[N], s0[N] = {0}, s1[N] = {0}, *slot[2] = {s0, s1};
    double y[N], a[N] = {0}, b[N] = {0};
    gwt_hyper hyper = {
        .momentum = momentum, .weight_decay = decay, .nesterov = nesterov};
    const gwt_optimizer *opt;

    assert_int_equal(gwt_optimizer_find(name, &opt), GW_OK);
    for (size_t i = 0; i < n; i++) {
        x[i] = gradient_at(1000, i);
        y[i] = (double)x[i];
    }
    for (uint64_t t = 0; t < STEPS; t++) {
        for (size_t i = 0; i < n; i++) {
            g[i] = gradient_at(t, i);
            slow(&y[i], (double)g[i], &a[i], &b[i], 0.05, (double)(t + 1));
        }
        opt->step(x, g, slot, n, 0.05, t, &hyper);
    }
    for (size_t i = 0; i < n; i++)
        if (fabs((double)x[i] - y[i]) > 2e-5 * (1.0 + fabs(y[i])))
            fail_msg("%s, momentum %g, nesterov %d, decay %g: x[%zu] is %g, not %g",
                     name, momentum, nesterov, decay, i, (double)x[i], y[i]);
}

static const struct {
    const char *name;
    formula *slow;
} each[] = {{"sgd", sgd}, {"adagrad", adagrad}, {"adam", adam}, {"adamw", adamw}};

enum { FORMULAS = sizeof each / sizeof *each };

static void optimizers_follow_their_formulas(void **state)
{
    (void)state;
    for (size_t k = 0; k < FORMULAS; k++)
        for (int m = 0; m < 3; m++)
            for (int d = 0; d < 2; d++)
                for (size_t n = 1; n <= N; n += 11) {
                    momentum = m > 0 ? 0.9 : 0.0;
                    nesterov = m > 1;
                    decay = d ? 0.01 : 0.0;
                    compare(each[k].name, each[k].slow, n);
                }
}

/* Without gradients the state of a decaying mean comes to rest at 0 and is never
 * subnormal on the way. */
static void state_comes_to_rest(void **state)
{
    static const char *const names[] = {"sgd", "adam", "adamw"};
    gwt_hyper hyper = {.momentum = 0.9};

    (void)state;
    for (size_t k = 0; k < 1 + sizeof names / sizeof names[0]; k++) {
        float x[N], g[N] = {0}, s0[N], s1[N], *slot[2] = {s0, s1};
        const gwt_optimizer *opt;

        hyper.nesterov = k == 0;
        assert_int_equal(gwt_optimizer_find(names[k > 0 ? k - 1 : 0], &opt), GW_OK);
        for (size_t i = 0; i < N; i++)
            x[i] = s0[i] = gradient_at(1, i), s1[i] = 1e-25f;
        for (uint64_t t = 0; t < 15000; t++) {
            opt->step(x, g, slot, N, 0.05, 10000 + t, &hyper);
            for (size_t i = 0; i < N; i++)
                assert_true(s0[i] == 0.0f || isnormal(s0[i]));
        }
        for (size_t i = 0; i < N; i++)
            assert_true(s0[i] == 0.0f && (opt->slots < 2 || s1[i] == 0.0f));
    }
}

static void every_optimizer_is_tested(void **state)
{
    const gwt_optimizer *opt;

    (void)state;
    for (size_t i = 0; gwt_optimizer_at(i) != NULL; i++) {
        size_t k = 0;
        while (k < FORMULAS && strcmp(each[k].name, gwt_optimizer_at(i)->name) != 0)
            k++;
        if (k == FORMULAS)
            fail_msg("no formula for %s", gwt_optimizer_at(i)->name);
    }
    assert_int_equal(gwt_optimizer_find("sdg", &opt), GW_ERR_ARG);
}

/* Whether some setting is called like the first n letters of the word. */
static int is_setting(const char *word, size_t n)
{
    const gwt_hyper_row *row;

    for (size_t i = 0; (row = gwt_hyper_at(i)) != NULL; i++)
        if (strlen(row->name) == n && memcmp(row->name, word, n) == 0)
            return 1;
    return 0;
}

/* What an optimizer says it takes is a setting, and it finds all of it. */
static void settings_have_rows(void **state)
{
    const gwt_optimizer *opt;

    (void)state;
    for (size_t i = 0; (opt = gwt_optimizer_at(i)) != NULL; i++)
        for (const char *word = opt->takes; *word != '\0';) {
            size_t n = strcspn(word, " ");
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)n, word);
            if (!is_setting(word, n) || !gwt_optimizer_takes(opt, name))
                fail_msg("%s takes no '%s'", opt->name, name);
            name[n - 1] = '\0';
            assert_false(gwt_optimizer_takes(opt, name));
            word += n + (word[n] == ' ');
        }
}

static void nesterov_needs_momentum(void **state)
{
    const gwt_optimizer *sgd, *adam;

    (void)state;
    assert_int_equal(gwt_optimizer_find("sgd", &sgd), GW_OK);
    assert_int_equal(gwt_optimizer_find("adam", &adam), GW_OK);
    gwt_hyper hyper = {.momentum = 0.9, .nesterov = 1};
    assert_int_equal(gwt_hyper_check(&hyper, sgd), GW_OK);
    assert_int_equal(gwt_hyper_check(&hyper, adam), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "adam takes no --nesterov"));
    hyper.momentum = 0.0;
    assert_int_equal(gwt_hyper_check(&hyper, sgd), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "--momentum"));
    hyper.nesterov = 0;
    assert_int_equal(gwt_hyper_check(&hyper, sgd), GW_OK);
    assert_int_equal(gwt_hyper_check(&hyper, adam), GW_OK);
}

/* ---- schedules ---------------------------------------------------------------- */

static double factor(const char *text, const char *warmup, uint64_t t)
{
    gwt_schedule s;

    assert_int_equal(gwt_schedule_parse(&s, text, warmup), GW_OK);
    s.epoch_steps = 100;
    s.total_steps = 1000;
    return gwt_schedule_factor(&s, t);
}

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-12)
        fail_msg("%.15g, not %.15g", got, want);
}

static void schedules_bend_where_they_should(void **state)
{
    (void)state;
    near(factor("constant", "0", 0), 1.0);
    near(factor("constant", "0", 999), 1.0);
    near(factor("constant", "10", 0), 0.1);
    near(factor("constant", "10", 9), 1.0);
    near(factor("constant", "10", 10), 1.0);
    near(factor("constant", "0.5epochs", 24), 0.5);
    near(factor("constant", "1epoch", 99), 1.0);
    near(factor("step:3/6", "0", 299), 1.0);
    near(factor("step:3/6", "0", 300), 0.1);
    near(factor("step:3/6", "0", 599), 0.1);
    near(factor("step:3/6", "0", 600), 0.01);
    near(factor("step:3/6,factor=0.5", "0", 600), 0.25);
    near(factor("step:3", "50", 299), 1.0);
    near(factor("step:3", "50", 300), 0.1);
    near(factor("cosine", "0", 0), 1.0);
    near(factor("cosine", "0", 500), 0.5);
    near(factor("cosine", "0", 1000), 0.0);
    near(factor("cosine", "200", 600), 0.5);
    near(factor("cosine:0.1", "0", 0), 1.0);
    near(factor("cosine:0.1", "0", 500), 0.55);
    near(factor("cosine:0.1", "200", 600), 0.55);
    near(factor("cosine:0.1", "200", 99), 0.5);
    near(factor("cosine:0.1", "0", 1000), 0.1);
    near(factor("cosine:0", "0", 250), factor("cosine", "0", 250));
    near(factor("cosine:1", "0", 700), 1.0);
    near(factor("power:0.5", "0", 0), 1.0);
    near(factor("power:0.5", "0", 3), 0.5);
    near(factor("power:1", "2epochs", 203), 0.25);
    near(factor("power", "0", 99), 0.1);
}

static void wrong_schedules_are_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"linear", "0"},         {"constant:1", "0"},      {"step", "0"},
        {"step:", "0"},          {"step:3/2", "0"},        {"step:a", "0"},
        {"step:3,f=1", "0"},     {"step:3,factor=2", "0"}, {"step:-1", "0"},
        {"cosine:2", "0"},       {"cosine:x", "0"},        {"cosine:-0.1", "0"},
        {"cosine:", "2 epochs"}, {"power:x", "0"},         {"power:-1", "0"},
        {"constant", "-1"},      {"constant", "1.5"},      {"constant", "xepochs"},
        {"constant", "1e3"},     {"constant", ""},         {"constant", "epochs"},
        {"constant", "nan"},     {"power:nan", "0"},       {"", "0"},
    };
    gwt_schedule s;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gwt_schedule_parse(&s, wrong[i][0], wrong[i][1]) != GW_ERR_ARG)
            fail_msg("'%s' with warm-up '%s' was taken", wrong[i][0], wrong[i][1]);
}

static void numbers_are_read_whole(void **state)
{
    double x;
    uint64_t n;

    (void)state;
    assert_int_equal(gwt_parse_real("x", "1e-3", 0, 1, &x), GW_OK);
    assert_true(x == 1e-3);
    assert_int_equal(gwt_parse_real("x", "1e-3x", 0, 1, &x), GW_ERR_ARG);
    assert_int_equal(gwt_parse_real("x", " 1", 0, 1, &x), GW_ERR_ARG);
    assert_int_equal(gwt_parse_real("x", "", 0, 1, &x), GW_ERR_ARG);
    assert_int_equal(gwt_parse_real("x", "inf", 0, HUGE_VAL, &x), GW_ERR_ARG);
    assert_int_equal(gwt_parse_count("n", "18446744073709551615", 0, UINT64_MAX, &n),
                     GW_OK);
    assert_true(n == UINT64_MAX);
    assert_int_equal(gwt_parse_count("n", "18446744073709551616", 0, UINT64_MAX, &n),
                     GW_ERR_ARG);
    assert_int_equal(gwt_parse_count("n", "-1", 0, UINT64_MAX, &n), GW_ERR_ARG);
    assert_int_equal(gwt_parse_count("n", "--1", 0, UINT64_MAX, &n), GW_ERR_ARG);
    assert_int_equal(gwt_parse_count("n", "+1", 0, 10, &n), GW_ERR_ARG);
    assert_int_equal(gwt_parse_count("n", "7", 8, 10, &n), GW_ERR_ARG);
}

static void lengths_are_steps_or_epochs(void **state)
{
    static const struct {
        const char *text;
        uint64_t steps;
    } good[] = {{"0", 0},
                {"200", 200},
                {"200steps", 200},
                {"1step", 1},
                {"2epochs", 200},
                {"1epoch", 100},
                {"0epochs", 0},
                {"0.25epochs", 25},
                {"0.001epochs", 0},
                {"007steps", 7},
                {"10000000000", 10000000000}};
    static const char *const bad[] = {
        "",       "epochs", "steps",      "s",        "-1",
        "1.5",    "1e3",    "2 steps",    "2epo",     "nan",
        "2step2", "0x10",   "1..2epochs", "2epochss", "99999999999999999999"};
    gwt_length length;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(gwt_parse_length("n", good[i].text, &length), GW_OK);
        assert_int_equal(gwt_length_steps(length, 100), good[i].steps);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (gwt_parse_length("n", bad[i], &length) != GW_ERR_ARG)
            fail_msg("'%s' was taken", bad[i]);
}

/* Every schedule says truly whether it depends on how long the run is to be: that
 * decides whether a run may be prolonged. */
static void the_end_matters_where_they_say_so(void **state)
{
    static const char *const texts[] = {"constant", "step:1/2", "cosine", "power"};
    const gwt_schedule_type *type;

    (void)state;
    for (size_t i = 0; (type = gwt_schedule_at(i)) != NULL; i++) {
        const char *name = type->name;
        gwt_schedule s;
        int differs = 0;
        assert_true(i < sizeof texts / sizeof texts[0]);
        assert_memory_equal(texts[i], name, strlen(name));
        assert_int_equal(gwt_schedule_parse(&s, texts[i], "3"), GW_OK);
        s.epoch_steps = 10;
        for (uint64_t t = 0; t < 40; t++) {
            s.total_steps = 40;
            double first = gwt_schedule_factor(&s, t);
            s.total_steps = 50;
            differs |= gwt_schedule_factor(&s, t) != first;
        }
        if (differs != gwt_schedule_needs_end(&s))
            fail_msg("%s depends on the end of the run: %d", name, differs);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_follow_their_formulas),
        cmocka_unit_test(state_comes_to_rest),
        cmocka_unit_test(every_optimizer_is_tested),
        cmocka_unit_test(settings_have_rows),
        cmocka_unit_test(nesterov_needs_momentum),
        cmocka_unit_test(schedules_bend_where_they_should),
        cmocka_unit_test(wrong_schedules_are_refused),
        cmocka_unit_test(the_end_matters_where_they_say_so),
        cmocka_unit_test(numbers_are_read_whole),
        cmocka_unit_test(lengths_are_steps_or_epochs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
