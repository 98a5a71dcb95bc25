/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_threshold.c - what is above a threshold, and sampled thresholds, against
 * looking at each float and sorting, on every instruction set and for several numbers
 * of threads. */
#include "kernels/select.h"
#include "support_kernels.h"
#include "support_select.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- above a threshold -------------------------------------------------------- */

/* Whether a threshold may have ties. */
static bool can_tie(float threshold)
{
    return select_key(threshold) > 0 && !isnan(threshold);
}

static void check_above(size_t n, values_kind kind, float threshold, size_t cap)
{
    float *r = select_array(n), *g = select_array(n), *before = select_array(n);
    gwi_list out = {select_array(cap), select_array(cap), 99, cap};
    uint32_t *want = select_array(n);
    int with_g = values_below(4) > 0;
    gwi_threshold t = {threshold, can_tie(threshold) && values_below(2)};
    size_t k = 0, all = 0;

    values_fill(r, n, kind);
    values_fill(g, n, kind);
    for (size_t i = 0; i < n; i++) {
        before[i] = with_g ? r[i] + g[i] : r[i];
        bool goes = select_key(before[i]) > select_key(threshold) ||
                    (t.ties && select_key(before[i]) == select_key(threshold));
        if (goes && k < cap)
            want[k++] = (uint32_t)i;
        all += goes;
    }
    bool fits = gwi_select_above(r, with_g ? g : NULL, n, t, &out);
    select_check_taken(before, r, n, want, k, &out);
    assert_true(fits ? all <= cap : all >= cap);
    gwi_put_back(&out, r);
    assert_int_equal(values_differ(r, before, n), n);
    free(r);
    free(g);
    free(before);
    free(want);
    free(out.index);
    free(out.value);
}

/* What is larger and what ties, counted one by one. */
static void check_counts(const float *x, size_t n, float threshold)
{
    size_t larger = 0, ties = 0, wanted = values_below(n + 2), end = 0, got[2];

    for (size_t i = 0; i < n; i++) {
        end = ties < wanted ? i + 1 : end;
        larger += select_key(x[i]) > select_key(threshold);
        ties += select_key(x[i]) == select_key(threshold);
    }
    gwi_count_above(x, n, threshold, &got[0], &got[1]);
    assert_int_equal(got[0], larger);
    assert_int_equal(got[1], ties);
    assert_int_equal(gwi_ties_end(x, n, threshold, wanted), end);
}

static const float cuts[] = {0.0f, 1e-45f, 0.25f, -0.5f, 0.9f, 1.5f, INFINITY, NAN};

static void above_a_threshold(void **unused)
{
    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (size_t n = 0; n < 200; n++) {
            size_t length = n < 68 ? n : values_below(3000);
            values_kind kind = (values_kind)(n % VALUES_KINDS);
            check_above(length, kind, cuts[values_below(8)], length);
            check_above(length, kind, cuts[values_below(8)], values_below(length + 1));
        }
    }
}

static void larger_and_ties_are_counted(void **unused)
{
    float x[300];

    (void)unused;
    for (int trial = 0; trial < 2000; trial++) {
        size_t n = values_below(300);
        values_fill(x, n, (values_kind)(trial % VALUES_KINDS));
        check_counts(x, n, cuts[values_below(8)]);
        if (n > 0)
            check_counts(x, n, x[values_below(n)]);
    }
}

static void above_on_threads(void **unused)
{
    static const unsigned threads[] = {1, 2, 3, 5};
    const size_t n = (1 << 19) + 123;

    (void)unused;
    gwi_kernels_use(NULL);
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        gwi_threads_set(threads[t]);
        check_above(n, VALUES_PLAIN, 1.5f, n);
        check_above(n, VALUES_PLAIN, 1.5f, n / 20);
        check_above(n, VALUES_RISING, 600000.0f, n / 2);
        check_above(n, VALUES_FALLING, 600000.0f, n / 2);
        check_above(n, VALUES_HEAVY, 0.5f, 7);
        check_above(n, VALUES_HEAVY, 0.5f, 0);
    }
}

/* ---- the sampled threshold ------------------------------------------------------ */

static int smaller_first(const void *a, const void *b)
{
    uint32_t i = select_key(*(const float *)a), j = select_key(*(const float *)b);

    return i < j ? -1 : i > j;
}

static gwi_threshold sorted_threshold(const float *r, const float *g, size_t n,
                                      double rate)
{
    size_t s = n < 100000 ? n : 100000, stride = n / s, larger = 0;
    float *sample = select_array(s);
    double place = floor((double)s * rate) - 1.0;
    size_t at = place > 0.0 ? (size_t)place : 0, behind = s - 1 - at;

    for (size_t i = 0; i < s; i++)
        sample[i] = fabsf(g ? r[i * stride] + g[i * stride] : r[i * stride]);
    qsort(sample, s, sizeof *sample, smaller_first);
    gwi_threshold t = {.value = sample[at]};
    for (size_t i = 0; i < s; i++)
        larger += select_key(sample[i]) > select_key(t.value);
    t.ties = can_tie(t.value) && larger < (behind > 0 ? behind : 1);
    free(sample);
    return t;
}

static void check_threshold(size_t n, values_kind kind, double rate)
{
    float *r = select_array(n), *g = select_array(n), *r_before = select_array(n);
    float *scratch = select_array(GWI_THRESHOLD_FLOATS(n));

    values_fill(r, n, kind);
    values_fill(g, n, kind);
    memcpy(r_before, r, n * sizeof *r);
    for (int with_g = 0; with_g < 2; with_g++) {
        const float *h = with_g ? g : NULL;
        gwi_threshold got = gwi_sampled_threshold(r, h, n, rate, scratch);
        gwi_threshold want = sorted_threshold(r, h, n, rate);
        assert_int_equal(values_bits(got.value), values_bits(want.value));
        assert_int_equal(got.ties, want.ties);
    }
    assert_memory_equal(r, r_before, n * sizeof *r);
    free(r);
    free(g);
    free(r_before);
    free(scratch);
}

static void threshold_is_that_of_sorting(void **unused)
{
    static const double rates[] = {0.0, 0.3, 0.9, 0.99, 0.999, 0.9999, 1.0};
    static const size_t many[] = {9999, 99999, 100000, 100001, 199999, 250000};
    float none[GWI_THRESHOLD_FLOATS(0)];

    (void)unused;
    assert_true(gwi_sampled_threshold(NULL, NULL, 0, 0.99, none).value == 0.0f);
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (size_t n = 1; n < 300; n++)
            check_threshold(n, (values_kind)(n % VALUES_KINDS), rates[values_below(7)]);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            check_threshold(many[i], (values_kind)values_below(VALUES_KINDS),
                            rates[values_below(7)]);
    }
}

/* One vector through so many steps, of which most are alike and some are not, by the
 * one call and by the two that it stands for. */
static void check_steps(size_t n, size_t cap, double rate, int steps)
{
    float *r[2] = {select_array(n), select_array(n)}, *g = select_array(n);
    float *scratch = select_array(GWI_THRESHOLD_FLOATS(n));
    gwi_list out[2];
    gwi_topk_guess guess = {0};

    for (int way = 0; way < 2; way++)
        out[way] = (gwi_list){select_array(cap), select_array(cap), 0, cap};
    memset(r[0], 0, n * sizeof *r[0]);
    memset(r[1], 0, n * sizeof *r[1]);
    for (int step = 0; step < steps; step++) {
        int odd = values_below(4) == 0, with_g = odd ? values_below(2) > 0 : 1;
        gwi_threshold t[2];
        values_fill(g, n, odd ? (values_kind)values_below(VALUES_KINDS) : VALUES_PLAIN);
        const float *h = with_g ? g : NULL;
        t[1] = gwi_sampled_threshold(r[1], h, n, rate, scratch);
        bool all = gwi_select_above(r[1], h, n, t[1], &out[1]);
        bool fits =
            gwi_select_sampled(&guess, r[0], h, n, rate, scratch, &t[0], &out[0]);
        assert_int_equal(values_bits(t[0].value), values_bits(t[1].value));
        assert_int_equal(t[0].ties, t[1].ties);
        assert_int_equal(out[0].n, out[1].n);
        assert_true(fits || out[0].n == cap || !all);
        assert_memory_equal(out[0].index, out[1].index, out[0].n * sizeof *out->index);
        size_t n_out = out[0].n;
        assert_int_equal(values_differ(out[0].value, out[1].value, n_out), n_out);
        assert_int_equal(values_differ(r[0], r[1], n), n);
    }
    for (int way = 0; way < 2; way++) {
        free(r[way]);
        free(out[way].index);
        free(out[way].value);
    }
    free(g);
    free(scratch);
}

static void a_guess_changes_nothing(void **unused)
{
    static const double rates[] = {0.0, 0.3, 0.9, 0.99, 0.999, 1.0};
    static const size_t many[] = {9999, 100001, 250000};

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (size_t n = 1; n < 200; n++)
            check_steps(n, values_below(2) ? n : 1 + values_below(n),
                        rates[values_below(6)], 12);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            check_steps(many[i], many[i] / (1 + values_below(40)),
                        rates[values_below(6)], 12);
    }
}

/* From GWI_SHARED_MIN on threads share a pass, if there are several; with a rate of 0.9
 * a million floats have too many candidates for a guess. */
static void a_guess_changes_nothing_in_long_vectors(void **unused)
{
    static const struct {
        size_t n;
        double rate;
        unsigned threads;
    } many[] = {{GWI_SHARED_MIN - 1, 0.99, 2}, {GWI_SHARED_MIN, 0.99, 1},
                {GWI_SHARED_MIN, 0.99, 2},     {700001, 0.9, 1},
                {1000000, 0.999, 1},           {1000000, 0.9, 1}};

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
            gwi_threads_set(many[i].threads);
            check_steps(many[i].n, many[i].n / (1 + values_below(8)), many[i].rate, 3);
        }
    }
    gwi_threads_set(0);
}

/* A step that does not look at the guess counts as one that found nothing, which makes
 * the margin twice as large. */
static void a_guess_is_used_in_long_vectors(void **unused)
{
    enum { N = 1000003, STEPS = 3 };
    float *r = select_array(N), *g = select_array(N);
    float *scratch = select_array(GWI_THRESHOLD_FLOATS(N));
    gwi_list out = {select_array(N), select_array(N), 0, N};
    gwi_topk_guess guess = {0};
    gwi_threshold t;

    (void)unused;
    gwi_kernels_use(NULL);
    gwi_threads_set(1);
    values_fill(g, N, VALUES_PLAIN);
    for (int step = 0; step < STEPS; step++) {
        memset(r, 0, N * sizeof *r);
        gwi_select_sampled(&guess, r, g, N, 0.99, scratch, &t, &out);
    }
    assert_true(guess.margin < 0.1f);
    gwi_threads_set(0);
    free(r);
    free(g);
    free(scratch);
    free(out.index);
    free(out.value);
}

/* All that is sampled for the first guess lies in the first two thirds, and says
 * that everything is large. */
static void a_sample_may_mislead(void **unused)
{
    enum { N = 3 * 16384 - 1 };
    float *r = select_array(N), *scratch = select_array(GWI_THRESHOLD_FLOATS(N));

    (void)unused;
    gwi_kernels_use(NULL);
    for (size_t i = 0; i < N; i++)
        r[i] = i < N / 3 * 2 ? 1.0f : 0.5f;
    assert_true(gwi_sampled_threshold(r, NULL, N, 0.2, scratch).value == 0.5f);
    free(r);
    free(scratch);
}

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(above_a_threshold),
        cmocka_unit_test(larger_and_ties_are_counted),
        cmocka_unit_test(above_on_threads),
        cmocka_unit_test(threshold_is_that_of_sorting),
        cmocka_unit_test(a_guess_changes_nothing),
        cmocka_unit_test(a_guess_changes_nothing_in_long_vectors),
        cmocka_unit_test(a_guess_is_used_in_long_vectors),
        cmocka_unit_test(a_sample_may_mislead),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
