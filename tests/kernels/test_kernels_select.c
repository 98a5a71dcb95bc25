/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_select.c - the k largest against sorting, on every instruction set and
 * for several numbers of threads. */
#include "kernels/select.h"
#include "support_kernels.h"
#include "support_select.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static size_t count_nonzero(const float *x, size_t n)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        count += select_key(x[i]) != 0;
    return count;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- pieces ------------------------------------------------------------------ */

static void nth_key_is_that_of_sorting(void **unused)
{
    enum { SHORT = 300, LONG = 3000 };
    float x[LONG];
    size_t ties;

    (void)unused;
    for (int trial = 0; trial < 3000; trial++) {
        /* Short and long ones, and long ones of which most are larger. */
        size_t n = 1 + values_below(trial % 5 < 3 ? SHORT : LONG), above = 0;
        size_t k =
            trial % 5 == 4 ? n - values_below(least(n, SHORT)) : 1 + values_below(n);
        values_fill(x, n, (values_kind)(trial % VALUES_KINDS));
        uint32_t *index = select_ranked(x, n);
        float nth = x[index[k - 1]];
        assert_int_equal(gwi_nth_key(x, n, k, &ties), gwi_magnitude_key(nth));
        while (above < n && select_key(x[index[above]]) > select_key(nth))
            above++;
        assert_int_equal(above + ties, k);
        free(index);
    }
}

static void keys_are_ordered(void **unused)
{
    const float rising[] = {0.0f, 1e-45f, 1e-38f, 1.0f, 3.4028235e38f, INFINITY, NAN};

    (void)unused;
    for (size_t i = 1; i < sizeof rising / sizeof *rising; i++) {
        assert_true(gwi_magnitude_key(rising[i]) > gwi_magnitude_key(rising[i - 1]));
        assert_int_equal(gwi_magnitude_key(rising[i]), gwi_magnitude_key(-rising[i]));
    }
    assert_int_equal(gwi_magnitude_key(-0.0f), 0);
    assert_int_equal(gwi_magnitude_key(NAN), GWI_KEY_NAN);
}

/* One call of collect() against its definition, everything flush against guard
 * pages: r, g and both arrays of the list. */
static guard guard_r, guard_g, guard_index, guard_value;

static void check_collect(const gwi_select_kernels *k, size_t begin, size_t end,
                          guard_side side, size_t offset, size_t cap, int32_t above)
{
    float *r = guard_place(&guard_r, end * 4, side, offset * 4);
    float *g = guard_place(&guard_g, end * 4, side, offset * 4);
    gwi_list out = {guard_place(&guard_index, cap * 4, side, 0),
                    guard_place(&guard_value, cap * 4, side, 0), 0, cap};
    values_kind kind = (values_kind)values_below(VALUES_KINDS);
    float *start = select_array(end), *sum = select_array(end);
    int with_g = values_below(4) > 0;
    size_t stop, found = 0;

    values_fill(r, end, kind);
    values_fill(g, end, kind);
    memcpy(start, r, end * 4);
    stop = k->collect(r, with_g ? g : NULL, begin, end, above, &out);
    assert_true(guard_intact(&guard_r) && guard_intact(&guard_g));
    assert_true(guard_intact(&guard_index) && guard_intact(&guard_value));
    assert_true(stop == end || (stop >= begin && cap - out.n < GWI_COLLECT_ROOM));
    for (size_t i = 0; i < end; i++) {
        int seen = i >= begin && i < stop;
        sum[i] = with_g && seen ? start[i] + g[i] : start[i];
        if (seen && gwi_magnitude_key(sum[i]) > above) {
            assert_true(found < out.n);
            assert_int_equal(out.index[found], i);
            assert_int_equal(values_bits(out.value[found++]), values_bits(sum[i]));
            sum[i] = 0.0f;
        }
    }
    assert_int_equal(found, out.n);
    assert_int_equal(values_differ(r, sum, end), end);
    free(start);
    free(sum);
}

static void collect_everywhere(void **unused)
{
    static const int32_t bounds[] = {-1,         0,          0x3e800000, 0x3f000000,
                                     0x3f7f0000, 0x7f7fffff, 0x7f800000, INT32_MAX};
    enum { CAP = 4096 };

    (void)unused;
    guard_init(&guard_r, 4 * CAP);
    guard_init(&guard_g, 4 * CAP);
    guard_init(&guard_index, 4 * CAP);
    guard_init(&guard_value, 4 * CAP);
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t offset = 0; offset < 16; offset++)
            for (size_t n = 0; n < 90; n++) {
                size_t end = n < 68 ? n : 68 + values_below(2000);
                guard_side side = values_below(2) ? GUARD_END : GUARD_START;
                int32_t above = bounds[values_below(8)];
                check_collect(&kernels_tested[t].select, 0, end, side, offset,
                              end + GWI_COLLECT_ROOM, above);
                check_collect(&kernels_tested[t].select, values_below(end + 1), end,
                              side, offset, values_below(end + GWI_COLLECT_ROOM),
                              above);
            }
    guard_fini(&guard_r);
    guard_fini(&guard_g);
    guard_fini(&guard_index);
    guard_fini(&guard_value);
}

/* ---- the k largest ----------------------------------------------------------- */

/* r += g in place, as select does it, then select and compare with sorting. */
static void check_topk(gwi_topk_guess *guess, gwi_topk_work *work, float *r,
                       const float *g, size_t n, size_t k)
{
    float *before = select_array(n);
    gwi_list got = {select_array(k), select_array(k), 0, k};
    uint32_t *want;

    for (size_t i = 0; i < n; i++)
        before[i] = g ? r[i] + g[i] : r[i];
    size_t wanted = least(k, count_nonzero(before, n));
    want = select_sorted(before, n, wanted);
    got.n = gwi_select_topk(guess, work, r, g, n, k, got.index, got.value);
    select_check_taken(before, r, n, want, wanted, &got);
    free(before);
    free(want);
    free(got.index);
    free(got.value);
}

/* Several steps on one residual, the memory being of just the size asked for. */
static void check_steps(size_t n, size_t k, values_kind kind, unsigned parts, int steps)
{
    gwi_topk_guess guess = {0};
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(n, k, parts));
    float *r = select_array(n), *g = select_array(n);

    gwi_topk_work_init(&work, memory, n, k, parts);
    values_fill(r, n, kind);
    for (int s = 0; s < steps; s++) {
        values_fill(g, n, kind);
        check_topk(&guess, &work, r, s % 3 == 2 ? NULL : g, n, k);
    }
    free(memory);
    free(r);
    free(g);
}

static void topk_of_few(void **unused)
{
    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (size_t n = 0; n < 68; n++)
            for (size_t k = 0; k <= n; k += k < 3 || k + 3 >= n ? 1 : 7)
                check_steps(n, k, (values_kind)((n + k) % VALUES_KINDS), 1, 3);
    }
}

static void topk_of_many(void **unused)
{
    static const size_t counts[] = {1, 31, 500, 3000, 7999, 8000};
    const size_t n = 8000;

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        for (int kind = 0; kind < VALUES_KINDS; kind++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_steps(n, counts[c], (values_kind)kind, 1, 2);
    }
}

/* Zeros but for `count` places at random. */
static void fill_sparse(float *x, size_t n, size_t count)
{
    for (size_t i = 0; i < n; i++)
        x[i] = values_below(2) ? 0.0f : -0.0f;
    for (size_t i = 0; i < count; i++)
        values_fill(&x[values_below(n)], 1, VALUES_PLAIN);
}

/* What there is comes and goes: now fewer than k, now more, with one guess. */
static void topk_of_mostly_zeros(void **unused)
{
    static const size_t counts[] = {0, 3, 199, 200, 201, 5000, 1, 100000, 0, 150};
    const size_t n = 20000, k = 200, parts = 2;
    gwi_topk_guess guess = {0};
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(n, k, parts));
    float *r = select_array(n), *g = select_array(n);

    (void)unused;
    gwi_topk_work_init(&work, memory, n, k, parts);
    for (size_t t = 0; t < kernels_tested_count; t++) {
        gwi_kernels_use(&kernels_tested[t]);
        memset(r, 0, n * sizeof *r);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            fill_sparse(g, n, counts[c]);
            check_topk(&guess, &work, r, g, n, k);
            check_topk(&guess, &work, r, NULL, n, k);
        }
    }
    free(memory);
    free(r);
    free(g);
}

/* The guess may be anything: too high, too low, of another size, no number. */
static void any_guess_will_do(void **unused)
{
    static const float thresholds[] = {0.0f, 1e-45f, 0.1f, 10.0f, INFINITY, NAN, -1.0f};
    enum { N = 10000, K = 200 };
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(N, K, 1));
    float *r = select_array(N), *g = select_array(N);

    (void)unused;
    gwi_topk_work_init(&work, memory, N, K, 1);
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
            gwi_topk_guess guess = {N, K, thresholds[i], i % 2 ? 0.5f : 0.01f};
            gwi_kernels_use(&kernels_tested[t]);
            values_fill(r, N, VALUES_HEAVY);
            values_fill(g, N, i % 3 ? VALUES_HEAVY : VALUES_RISING);
            check_topk(&guess, &work, r, g, N, K);
            check_topk(&guess, &work, r, g, N - 5, K / 2);
        }
    free(memory);
    free(r);
    free(g);
}

/* Long enough for more than one part, with work made for larger n and k. */
static void topk_on_threads(void **unused)
{
    static const unsigned parts[] = {1, 2, 3, 5};
    const size_t n = (1 << 19) + 77, most = 20000;
    float *first = select_array(n), *r = select_array(n), *g = select_array(n),
          *sum = select_array(n);
    uint32_t *index = select_array(most);
    float *value = select_array(most);

    (void)unused;
    gwi_kernels_use(NULL);
    for (int trial = 0; trial < 5; trial++) {
        values_kind kind = trial < 2 ? VALUES_HEAVY : (values_kind)(trial + 4);
        size_t k = trial == 1 ? most : 1 + values_below(4000);
        values_fill(first, n, kind);
        values_fill(g, n, kind);
        if (trial == 4) {
            memset(first, 0, n * sizeof *first);
            fill_sparse(g, n, k / 2);
        }
        for (size_t i = 0; i < n; i++)
            sum[i] = first[i] + g[i];
        size_t wanted = least(k, count_nonzero(sum, n));
        uint32_t *want = select_sorted(sum, n, wanted);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            gwi_topk_guess guess = {0};
            gwi_topk_work work;
            gwi_list got = {index, value, 0, k};
            void *memory = malloc(gwi_topk_work_bytes(n + 9, most, parts[p]));
            gwi_threads_set(parts[p]);
            gwi_topk_work_init(&work, memory, n + 9, most, parts[p]);
            memcpy(r, first, n * sizeof *r);
            got.n = gwi_select_topk(&guess, &work, r, g, n, k, index, value);
            select_check_taken(sum, r, n, want, wanted, &got);
            free(memory);
        }
        free(want);
    }
    free(first);
    free(r);
    free(g);
    free(sum);
    free(index);
    free(value);
}

/* All that is sampled for the first guess lies in the first two thirds, and says
 * that everything is large. */
static void a_sample_may_mislead(void **unused)
{
    enum { N = 3 * 16384 - 1, K = N / 5 * 4 };
    gwi_topk_guess guess = {0};
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(N, K, 1));
    float *r = select_array(N);

    (void)unused;
    gwi_kernels_use(NULL);
    gwi_topk_work_init(&work, memory, N, K, 1);
    for (size_t i = 0; i < N; i++)
        r[i] = i < N / 3 * 2 ? 1.0f : 0.5f;
    check_topk(&guess, &work, r, NULL, N, K);
    free(memory);
    free(r);
}

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_key_is_that_of_sorting),
        cmocka_unit_test(keys_are_ordered),
        cmocka_unit_test(collect_everywhere),
        cmocka_unit_test(topk_of_few),
        cmocka_unit_test(topk_of_many),
        cmocka_unit_test(topk_of_mostly_zeros),
        cmocka_unit_test(any_guess_will_do),
        cmocka_unit_test(topk_on_threads),
        cmocka_unit_test(a_sample_may_mislead),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
