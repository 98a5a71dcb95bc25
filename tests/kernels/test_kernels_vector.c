/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_vector.c - plain vector kernels: C against obvious loops, every
 * instruction set against C, any number of threads against one. */
#include "kernels/pool.h"
#include "kernels/vector.h"
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { CAP = 5000 };

static const gwi_vector_kernels *const portable = &kernels_tested[0].vector;
static guard guard_x, guard_z;

static int setup(void **unused)
{
    (void)unused;
    guard_init(&guard_x, CAP * sizeof(float));
    guard_init(&guard_z, CAP * sizeof(float));
    return kernels_setup(CAP, 0);
}

static int teardown(void **unused)
{
    guard_fini(&guard_x);
    guard_fini(&guard_z);
    return kernels_teardown(unused);
}

/* ---- C against obvious loops ------------------------------------------------ */

static void c_is_what_it_says(void **unused)
{
    enum { N = 300 };
    float y[N], x[N], before[N], v[N];
    uint32_t index[N];
    const float a = 0.3f;

    (void)unused;
    values_fill(y, N, VALUES_PLAIN);
    values_fill(x, N, VALUES_PLAIN);
    for (size_t i = 0; i < N; i++)
        index[i] = (uint32_t)(i * 7 % N);
    memcpy(before, y, sizeof y);
    portable->add(y, x, N);
    portable->scale(y, a, N);
    portable->axpy(y, a, x, N);
    portable->divide(y, a, N);
    portable->gather(v, y, index, N);
    for (size_t i = 0; i < N; i++) {
        volatile float sum = before[i] + x[i], scaled = sum * a, ax = a * x[i];
        volatile float total = scaled + ax;
        assert_int_equal(values_bits(y[i]), values_bits(total / a));
        assert_int_equal(values_bits(v[i]), values_bits(y[i * 7 % N]));
    }
    memcpy(before, y, sizeof y);
    portable->scatter_add(y, index, x, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(values_bits(y[index[i]]),
                         values_bits(before[index[i]] + x[i]));
    portable->subtract(v, y, x, N);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(values_bits(v[i]), values_bits(y[i] - x[i]));
}

static void c_reductions(void **unused)
{
    enum { N = 1000 };
    float x[N];

    (void)unused;
    for (size_t n = 0; n < N; n++) {
        long double sum = 0.0L;
        float most = 0.0f;
        values_fill(x, n, VALUES_HEAVY);
        for (size_t i = 0; i < n; i++) {
            sum += (long double)x[i] * (long double)x[i];
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        }
        assert_true(fabsl((long double)portable->sumsq(x, n) - sum) <= 1e-14L * sum);
        assert_int_equal(values_bits(portable->absmax(x, n)), values_bits(most));
        assert_int_equal(portable->first_nonfinite(x, n), n);
    }
}

/* Repeated indices are added in order, one after the other. */
static void scatter_add_repeats(void **unused)
{
    const uint32_t index[] = {2, 2, 0, 2};
    const float v[] = {1e8f, 1.0f, 5.0f, -1e8f};

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++) {
        float y[3] = {0};
        kernels_tested[t].vector.scatter_add(y, index, v, 4);
        assert_true(y[0] == 5.0f && y[1] == 0.0f && y[2] == 0.0f);
    }
}

static void first_nonfinite_finds_each(void **unused)
{
    const float bad[] = {NAN, INFINITY, -INFINITY, -NAN};
    float x[200];

    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t n = 0; n < 200; n += 1 + n / 10)
            for (size_t at = 0; at < n; at++) {
                values_fill(x, n, VALUES_PLAIN);
                x[values_below(n)] = 3.4028235e38f;
                x[at + values_below(n - at)] = INFINITY;
                x[at] = bad[at % 4];
                assert_int_equal(kernels_tested[t].vector.first_nonfinite(x, n), at);
                assert_int_equal(portable->first_nonfinite(x, n), at);
            }
}

/* ---- every instruction set against C ----------------------------------------- */

static const float factors[] = {0.3f, -1.7e-20f, 3.0f, 0.0f, INFINITY, NAN};

/* The kernels that change y, by number. Returns 0 past the last. */
static int apply(const gwi_vector_kernels *k, int which, float *y, const float *x,
                 const float *z, float a, size_t n)
{
    switch (which) {
    case 0:
        k->add(y, x, n);
        return 1;
    case 1:
        k->scale(y, a, n);
        return 1;
    case 2:
        k->divide(y, a, n);
        return 1;
    case 3:
        k->axpy(y, a, x, n);
        return 1;
    case 4:
        k->subtract(y, x, z, n);
        return 1;
    case 5:
        k->subtract(y, y, z, n);
        return 1;
    case 6:
        k->subtract(y, x, y, n);
        return 1;
    default:
        return 0;
    }
}

static void same_on_side(const gwi_vector_kernels *k, const kernels_place *p,
                         guard_side side)
{
    const size_t n = p->n, len = n * sizeof(float), gap = p->offset * sizeof(float);
    float *y = guard_place(&kernels_floats, len, side, gap);
    float *x = guard_place(&guard_x, len, side, gap);
    float *z = guard_place(&guard_z, len, side, 0);
    float start[CAP], expected[CAP], x_before[CAP];
    float a = factors[values_below(sizeof factors / sizeof *factors)];

    values_fill(start, n, p->kind);
    values_fill(x, n, p->kind);
    values_fill(z, n, p->kind);
    memcpy(x_before, x, len);
    for (int which = 0;; which++) {
        memcpy(expected, start, len);
        memcpy(y, start, len);
        if (!apply(portable, which, expected, x, z, a, n))
            break;
        apply(k, which, y, x, z, a, n);
        if (values_differ(expected, y, n) != n)
            fail_msg("%s kernel %d, n=%zu offset=%zu kind=%d: differs at %zu", k->isa,
                     which, n, p->offset, p->kind, values_differ(expected, y, n));
        assert_true(guard_intact(&kernels_floats));
    }
    assert_memory_equal(x, x_before, len);
    assert_true(values_bits(k->absmax(x, n)) == values_bits(portable->absmax(x, n)));
    assert_int_equal(k->first_nonfinite(x, n), portable->first_nonfinite(x, n));
    kernels_same_double(k->sumsq(x, n), portable->sumsq(x, n));
}

/* Three vectors can lie in more ways than one, so both sides get all values. */
static void same_as_c(const gwi_kernels *k, const kernels_place *p)
{
    same_on_side(&k->vector, p, GUARD_END);
    same_on_side(&k->vector, p, GUARD_START);
}

static void all_lengths_and_offsets(void **unused)
{
    (void)unused;
    kernels_everywhere(same_as_c, 4983, 1);
}

/* ---- any number of threads against one --------------------------------------- */

enum { LARGE = 2500003 };

static void threads_agree(void **unused)
{
    static const unsigned counts[] = {1, 2, 3, 5};
    float *x = malloc(LARGE * sizeof *x), *y = malloc(LARGE * sizeof *y);
    float *start = malloc(LARGE * sizeof *start), *want = malloc(LARGE * sizeof *want);
    const gwi_vector_kernels *k = gwi_vector();
    double sum = 0.0;

    (void)unused;
    values_fill(x, LARGE, VALUES_HEAVY);
    values_fill(start, LARGE, VALUES_HEAVY);
    memcpy(want, start, LARGE * sizeof *want);
    k->add(want, x, LARGE);
    k->scale(want, 0.3f, LARGE);
    k->axpy(want, 0.7f, x, LARGE);
    k->divide(want, 3.0f, LARGE);
    k->subtract(want, want, x, LARGE);
    for (size_t i = 0; i < LARGE; i += GWI_SUMSQ_BLOCK)
        sum += portable->sumsq(x + i, LARGE - i < GWI_SUMSQ_BLOCK ? LARGE - i
                                                                  : GWI_SUMSQ_BLOCK);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        gwi_threads_set(counts[c]);
        memcpy(y, start, LARGE * sizeof *y);
        gwi_add(y, x, LARGE);
        gwi_scale(y, 0.3f, LARGE);
        gwi_axpy(y, 0.7f, x, LARGE);
        gwi_divide(y, 3.0f, LARGE);
        gwi_subtract(y, y, x, LARGE);
        assert_int_equal(values_differ(want, y, LARGE), LARGE);
        assert_true(gwi_sumsq(x, LARGE) == sum);
        assert_true(gwi_absmax(x, LARGE) == portable->absmax(x, LARGE));
        assert_int_equal(gwi_first_nonfinite(x, LARGE), LARGE);
        y[LARGE - 1] = NAN;
        assert_int_equal(gwi_first_nonfinite(y, LARGE), LARGE - 1);
        y[700000] = y[600001] = -INFINITY;
        assert_int_equal(gwi_first_nonfinite(y, LARGE), 600001);
        assert_true(isnan(gwi_absmax(y, LARGE)));
    }
    gwi_threads_set(0);
    free(x);
    free(y);
    free(start);
    free(want);
}

static void nothing_at_all(void **unused)
{
    (void)unused;
    gwi_add(NULL, NULL, 0);
    assert_true(gwi_sumsq(NULL, 0) == 0.0);
    assert_true(gwi_absmax(NULL, 0) == 0.0f);
    assert_int_equal(gwi_first_nonfinite(NULL, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_is_what_it_says),
        cmocka_unit_test(c_reductions),
        cmocka_unit_test(scatter_add_repeats),
        cmocka_unit_test(first_nonfinite_finds_each),
        cmocka_unit_test(all_lengths_and_offsets),
        cmocka_unit_test(threads_agree),
        cmocka_unit_test(nothing_at_all),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
