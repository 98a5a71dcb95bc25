/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_select.c - selection against sorting, on every instruction set and
 * for several numbers of threads. */
#include "kernels/cpu.h"
#include "kernels/select.h"
#include "support_emulated.h"
#include "support_guard.h"
#include "support_values.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static gwi_select_kernels tested[4];
static size_t tested_count;

static int setup(void **unused)
{
    unsigned flags = gwi_cpu_flags_without(NULL);

    (void)unused;
    values_seed();
    gwi_select_for(0, &tested[tested_count++]);
    if (flags & (GWI_CPU_AVX2 | GWI_CPU_NEON))
        gwi_select_for(flags & ~(unsigned)GWI_CPU_AVX512, &tested[tested_count++]);
    if (flags & GWI_CPU_AVX512)
        gwi_select_for(flags, &tested[tested_count++]);
    if (emulated_select(&tested[tested_count]))
        tested_count++;
    else
        print_message("no SIMDe: AVX-512 kernels not tested\n");
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    gwi_select_use(NULL);
    gwi_threads_set(0);
    return 0;
}

/* ---- the slow obvious versions ----------------------------------------------- */

/* Written without the library's own gwi_magnitude_key(). */
static uint32_t key_of(float x)
{
    return values_bits(isnan(x) ? NAN : fabsf(x));
}

static const float *sorted_values;

static int larger_first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint32_t ki = key_of(sorted_values[i]), kj = key_of(sorted_values[j]);

    if (ki != kj)
        return ki > kj ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int lower_first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    return i < j ? -1 : i > j;
}

static void *array(size_t n)
{
    void *memory = malloc((n + 1) * 4);

    assert_non_null(memory);
    return memory;
}

/* The indices of the k largest of x, ascending. The caller frees them. */
static uint32_t *sorted_topk(const float *x, size_t n, size_t k)
{
    uint32_t *index = array(n);

    for (size_t i = 0; i < n; i++)
        index[i] = (uint32_t)i;
    sorted_values = x;
    qsort(index, n, sizeof *index, larger_first);
    qsort(index, k, sizeof *index, lower_first);
    return index;
}

/* Checks that taking `index` out of `before` gives the list and r. */
static void check_taken(const float *before, const float *r, size_t n,
                        const uint32_t *index, size_t k, const gwi_list *got)
{
    size_t next = 0;

    assert_int_equal(got->n, k);
    for (size_t i = 0; i < k; i++) {
        if (got->index[i] != index[i] ||
            values_bits(got->value[i]) != values_bits(before[index[i]]))
            fail_msg("entry %zu is %u, not %u", i, got->index[i], index[i]);
    }
    for (size_t i = 0; i < n; i++) {
        int taken = next < k && index[next] == i;
        if (values_bits(r[i]) != (taken ? 0 : values_bits(before[i])))
            fail_msg("r[%zu] is %g, was %g", i, (double)r[i], (double)before[i]);
        next += (size_t)taken;
    }
}

/* ---- pieces ------------------------------------------------------------------ */

static void nth_key_is_that_of_sorting(void **unused)
{
    float x[300];
    size_t ties;

    (void)unused;
    for (int trial = 0; trial < 3000; trial++) {
        size_t n = 1 + values_below(300), k = 1 + values_below(n), above = 0;
        values_fill(x, n, (values_kind)(trial % VALUES_KINDS));
        uint32_t *index = sorted_topk(x, n, n);
        qsort(index, n, sizeof *index, larger_first);
        float nth = x[index[k - 1]];
        assert_int_equal(gwi_nth_key(x, n, k, &ties), gwi_magnitude_key(nth));
        while (above < n && key_of(x[index[above]]) > key_of(nth))
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
    float *start = array(end), *sum = array(end);
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
    for (size_t t = 0; t < tested_count; t++)
        for (size_t offset = 0; offset < 16; offset++)
            for (size_t n = 0; n < 90; n++) {
                size_t end = n < 68 ? n : 68 + values_below(2000);
                guard_side side = values_below(2) ? GUARD_END : GUARD_START;
                int32_t above = bounds[values_below(8)];
                check_collect(&tested[t], 0, end, side, offset, end + GWI_COLLECT_ROOM,
                              above);
                check_collect(&tested[t], values_below(end + 1), end, side, offset,
                              values_below(end + GWI_COLLECT_ROOM), above);
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
    float *before = array(n);
    gwi_list got = {array(k), array(k), k, k};
    uint32_t *want;

    for (size_t i = 0; i < n; i++)
        before[i] = g ? r[i] + g[i] : r[i];
    want = sorted_topk(before, n, k);
    gwi_select_topk(guess, work, r, g, n, k, got.index, got.value);
    check_taken(before, r, n, want, k, &got);
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
    float *r = array(n), *g = array(n);

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
    for (size_t t = 0; t < tested_count; t++) {
        gwi_select_use(&tested[t]);
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
    for (size_t t = 0; t < tested_count; t++) {
        gwi_select_use(&tested[t]);
        for (int kind = 0; kind < VALUES_KINDS; kind++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                check_steps(n, counts[c], (values_kind)kind, 1, 2);
    }
}

/* The guess may be anything: too high, too low, of another size, no number. */
static void any_guess_will_do(void **unused)
{
    static const float thresholds[] = {0.0f, 1e-45f, 0.1f, 10.0f, INFINITY, NAN, -1.0f};
    enum { N = 10000, K = 200 };
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(N, K, 1));
    float *r = array(N), *g = array(N);

    (void)unused;
    gwi_topk_work_init(&work, memory, N, K, 1);
    for (size_t t = 0; t < tested_count; t++)
        for (size_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
            gwi_topk_guess guess = {N, K, thresholds[i], i % 2 ? 0.5f : 0.01f};
            gwi_select_use(&tested[t]);
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
    float *first = array(n), *r = array(n), *g = array(n), *sum = array(n);
    uint32_t *index = array(most);
    float *value = array(most);

    (void)unused;
    gwi_select_use(NULL);
    for (int trial = 0; trial < 4; trial++) {
        values_kind kind = trial < 2 ? VALUES_HEAVY : (values_kind)(trial + 4);
        size_t k = trial == 1 ? most : 1 + values_below(4000);
        values_fill(first, n, kind);
        values_fill(g, n, kind);
        for (size_t i = 0; i < n; i++)
            sum[i] = first[i] + g[i];
        uint32_t *want = sorted_topk(sum, n, k);
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            gwi_topk_guess guess = {0};
            gwi_topk_work work;
            gwi_list got = {index, value, k, k};
            void *memory = malloc(gwi_topk_work_bytes(n + 9, most, parts[p]));
            gwi_threads_set(parts[p]);
            gwi_topk_work_init(&work, memory, n + 9, most, parts[p]);
            memcpy(r, first, n * sizeof *r);
            gwi_select_topk(&guess, &work, r, g, n, k, index, value);
            check_taken(sum, r, n, want, k, &got);
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

/* ---- above a threshold -------------------------------------------------------- */

/* Whether a threshold may have ties. */
static bool can_tie(float threshold)
{
    return key_of(threshold) > 0 && !isnan(threshold);
}

static void check_above(size_t n, values_kind kind, float threshold, size_t cap)
{
    float *r = array(n), *g = array(n), *before = array(n);
    gwi_list out = {array(cap), array(cap), 99, cap};
    uint32_t *want = array(n);
    int with_g = values_below(4) > 0;
    gwi_threshold t = {threshold, can_tie(threshold) && values_below(2)};
    size_t k = 0, all = 0;

    values_fill(r, n, kind);
    values_fill(g, n, kind);
    for (size_t i = 0; i < n; i++) {
        before[i] = with_g ? r[i] + g[i] : r[i];
        bool goes = key_of(before[i]) > key_of(threshold) ||
                    (t.ties && key_of(before[i]) == key_of(threshold));
        if (goes && k < cap)
            want[k++] = (uint32_t)i;
        all += goes;
    }
    bool fits = gwi_select_above(r, with_g ? g : NULL, n, t, &out);
    check_taken(before, r, n, want, k, &out);
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
        larger += key_of(x[i]) > key_of(threshold);
        ties += key_of(x[i]) == key_of(threshold);
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
    for (size_t t = 0; t < tested_count; t++) {
        gwi_select_use(&tested[t]);
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
    gwi_select_use(NULL);
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
    uint32_t i = key_of(*(const float *)a), j = key_of(*(const float *)b);

    return i < j ? -1 : i > j;
}

static gwi_threshold sorted_threshold(const float *r, const float *g, size_t n,
                                      double rate)
{
    size_t s = n < 100000 ? n : 100000, stride = n / s, larger = 0;
    float *sample = array(s);
    double place = floor((double)s * rate) - 1.0;
    size_t at = place > 0.0 ? (size_t)place : 0, behind = s - 1 - at;

    for (size_t i = 0; i < s; i++)
        sample[i] = fabsf(g ? r[i * stride] + g[i * stride] : r[i * stride]);
    qsort(sample, s, sizeof *sample, smaller_first);
    gwi_threshold t = {.value = sample[at]};
    for (size_t i = 0; i < s; i++)
        larger += key_of(sample[i]) > key_of(t.value);
    t.ties = can_tie(t.value) && larger < (behind > 0 ? behind : 1);
    free(sample);
    return t;
}

static void check_threshold(size_t n, values_kind kind, double rate)
{
    float *r = array(n), *g = array(n), *r_before = array(n);
    float *scratch = array(GWI_THRESHOLD_FLOATS(n));

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
    for (size_t t = 0; t < tested_count; t++) {
        gwi_select_use(&tested[t]);
        for (size_t n = 1; n < 300; n++)
            check_threshold(n, (values_kind)(n % VALUES_KINDS), rates[values_below(7)]);
        for (size_t i = 0; i < sizeof many / sizeof *many; i++)
            check_threshold(many[i], (values_kind)values_below(VALUES_KINDS),
                            rates[values_below(7)]);
    }
}

/* All that is sampled for the first guess lies in the first two thirds, and says
 * that everything is large. */
static void a_sample_may_mislead(void **unused)
{
    enum { N = 3 * 16384 - 1, K = N / 5 * 4 };
    gwi_topk_guess guess = {0};
    gwi_topk_work work;
    void *memory = malloc(gwi_topk_work_bytes(N, K, 1));
    float *r = array(N), *scratch = array(GWI_THRESHOLD_FLOATS(N));

    (void)unused;
    gwi_select_use(NULL);
    gwi_topk_work_init(&work, memory, N, K, 1);
    for (size_t i = 0; i < N; i++)
        r[i] = i < N / 3 * 2 ? 1.0f : 0.5f;
    assert_true(gwi_sampled_threshold(r, NULL, N, 0.2, scratch).value == 0.5f);
    check_topk(&guess, &work, r, NULL, N, K);
    free(memory);
    free(r);
    free(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_key_is_that_of_sorting),
        cmocka_unit_test(keys_are_ordered),
        cmocka_unit_test(collect_everywhere),
        cmocka_unit_test(topk_of_few),
        cmocka_unit_test(topk_of_many),
        cmocka_unit_test(any_guess_will_do),
        cmocka_unit_test(topk_on_threads),
        cmocka_unit_test(above_a_threshold),
        cmocka_unit_test(larger_and_ties_are_counted),
        cmocka_unit_test(above_on_threads),
        cmocka_unit_test(threshold_is_that_of_sorting),
        cmocka_unit_test(a_sample_may_mislead),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
