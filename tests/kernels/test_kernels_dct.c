/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_dct.c - cosines of tiles: C against the formula, there and back, every
 * instruction set against C, any number of threads against one; cutting. */
#include "kernels/matrix/dct.h"
#include "kernels/pool.h"
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = GWI_DCT_MOST, STEP = MOST + 7, CAP = MOST * STEP };

static gwi_dct_plan plans[MOST + 1];
static float *memory;

static int setup(void **unused)
{
    size_t floats = 0;

    (void)unused;
    for (size_t n = 1; n <= MOST; n++)
        floats += gwi_dct_floats(n);
    memory = calloc(floats, sizeof *memory);
    float *at = memory;
    for (size_t n = 1; n <= MOST; n++, at += gwi_dct_floats(n - 1))
        gwi_dct_init(&plans[n], n, at);
    assert_true(at == memory + floats);
    return kernels_setup(CAP, 1);
}

static int teardown(void **state)
{
    free(memory);
    return kernels_teardown(state);
}

static double entry(size_t n, size_t j, size_t b)
{
    double pi = acos(-1.0), scale = sqrt((b == 0 ? 1.0 : 2.0) / (double)n);

    return scale * cos(pi * (double)((2 * j + 1) * b) / (double)(2 * n));
}

/* The first row of the matrix for 4 floats, which DeMo's codes test, too. */
static void first_row_of_four(void **unused)
{
    static const double want[] = {0.5, 0.6533, 0.5, 0.2706};
    gwi_dct_tile tile = {&plans[4], &plans[1], 1};
    float x[4] = {1, 0, 0, 0}, y[4];

    (void)unused;
    gwi_dct()->forward(&tile, x, y);
    for (size_t b = 0; b < 4; b++)
        assert_true(fabs((double)y[b] - want[b]) < 5e-5);
}

/* Coefficient (b, c) of a tile in double. */
static double coefficient(const float *x, size_t rows, size_t cols, size_t b, size_t c)
{
    double sum = 0;

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            sum += (double)x[i * STEP + j] * entry(rows, i, b) * entry(cols, j, c);
    return sum;
}

static double size_of(const float *x, size_t rows, size_t cols)
{
    double sum = 0;

    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            sum += (double)x[i * STEP + j] * (double)x[i * STEP + j];
    return sqrt(sum);
}

static void near(float got, double want, double size)
{
    if (!(fabs((double)got - want) <= 1e-6 * size))
        fail_msg("%g is not %g", (double)got, want);
}

static void check_tile(size_t rows, size_t cols)
{
    const gwi_dct_kernels *c = &kernels_tested[0].dct;
    gwi_dct_tile tile = {&plans[rows], &plans[cols], STEP};
    float x[CAP], y[MOST * MOST], back[CAP] = {0};

    values_fill(x, CAP, VALUES_HEAVY);
    double size = size_of(x, rows, cols);
    c->forward(&tile, x, y);
    for (size_t b = 0; b < rows; b += 1 + rows / 5)
        for (size_t d = 0; d < cols; d += 1 + cols / 5)
            near(y[d * rows + b], coefficient(x, rows, cols, b, d), size);
    c->back(&tile, y, back);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            near(back[i * STEP + j], (double)x[i * STEP + j], size);
}

static void c_is_the_formula(void **unused)
{
    (void)unused;
    for (size_t n = 1; n <= MOST; n++) {
        check_tile(n, MOST + 1 - n);
        check_tile(n, 1);
        check_tile(1, n);
    }
    check_tile(MOST, MOST);
}

/* Floats beside the tile and its coefficients are left alone. */
static void same_tile(const gwi_dct_kernels *k, size_t rows, size_t cols)
{
    const gwi_dct_kernels *c = &kernels_tested[0].dct;
    gwi_dct_tile tile = {&plans[rows], &plans[cols], STEP};
    float x[CAP], got[CAP] = {0}, want[CAP] = {0};

    values_fill(x, CAP, VALUES_HEAVY);
    c->forward(&tile, x, want);
    k->forward(&tile, x, got);
    assert_memory_equal(got, want, sizeof want);
    c->back(&tile, x, want);
    k->back(&tile, x, got);
    assert_memory_equal(got, want, sizeof want);
}

static void every_set_gives_the_same_bits(void **unused)
{
    (void)unused;
    for (size_t t = 1; t < kernels_tested_count; t++)
        for (size_t rows = 1; rows <= MOST; rows += 1 + rows / 9)
            for (size_t cols = 1; cols <= MOST; cols += 1 + cols / 9)
                same_tile(&kernels_tested[t].dct, rows, cols);
}

/* A tile at the end of memory, and one at its beginning. */
static void nothing_beside_is_touched(void **unused)
{
    (void)unused;
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t n = 1; n <= MOST; n += 7)
            for (int behind = 0; behind < 2; behind++) {
                gwi_dct_tile tile = {&plans[n], &plans[n], n};
                float y[MOST * MOST];
                guard_side side = behind ? GUARD_END : GUARD_START;
                float *x = guard_place(&kernels_floats, n * n * sizeof *x, side, 0);
                values_fill(x, n * n, VALUES_HEAVY);
                kernels_tested[t].dct.forward(&tile, x, y);
                kernels_tested[t].dct.back(&tile, y, x);
                kernels_tested[t].dct.forward(&tile, y, x);
                assert_true(guard_intact(&kernels_floats));
            }
}

static void threads_change_nothing(void **unused)
{
    enum { ROWS = 61, COLS = 1000 };
    gwi_dct_strip strip = {plans, ROWS, gwi_dct_cut_of(COLS, 64)};
    float *x = malloc(3 * ROWS * COLS * sizeof *x), *one = x + ROWS * COLS;
    float *three = one + ROWS * COLS;

    (void)unused;
    values_fill(x, ROWS * COLS, VALUES_HEAVY);
    gwi_dct_forward(&strip, x, one);
    gwi_threads_set(3);
    gwi_dct_forward(&strip, x, three);
    assert_memory_equal(one, three, ROWS * COLS * sizeof *x);
    gwi_dct_back(&strip, three, x);
    gwi_threads_set(1);
    gwi_dct_back(&strip, one, three);
    assert_memory_equal(x, three, ROWS * COLS * sizeof *x);
    free(x);
}

/* By the largest divisor above half of the most, or into runs that hardly differ. */
static void dimensions_are_cut(void **unused)
{
    static const size_t cases[][4] = {
        {768, 64, 12, 64}, {784, 64, 14, 56}, {50257, 64, 786, 63}, {10, 64, 1, 10},
        {1, 64, 1, 1},     {65, 64, 2, 32},   {127, 64, 2, 63},     {100, 2, 50, 2},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gwi_dct_cut cut = gwi_dct_cut_of(cases[i][0], cases[i][1]);
        size_t all = 0;
        assert_int_equal(cut.count, cases[i][2]);
        assert_int_equal(gwi_dct_run(&cut, 0), cases[i][3]);
        for (size_t r = 0; r < cut.count; r++) {
            assert_in_range(gwi_dct_run(&cut, r), 1, cases[i][1]);
            all += gwi_dct_run(&cut, r);
        }
        assert_int_equal(all, cases[i][0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_row_of_four),
        cmocka_unit_test(c_is_the_formula),
        cmocka_unit_test(every_set_gives_the_same_bits),
        cmocka_unit_test(nothing_beside_is_touched),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(dimensions_are_cut),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
