/* SPDX-License-Identifier: Apache-2.0
 *
 * test_kernels_lowrank.c - products with thin matrices: C against obvious loops, every
 * instruction set against C, any number of threads against one; orthonormal columns. */
#include "kernels/matrix/lowrank.h"
#include "kernels/pool.h"
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { ROWS = 70, COLS = 1100, RANK = 9, CAP = ROWS * COLS };

static const gwi_lowrank_kernels *const portable = &kernels_tested[0].lowrank;

static int setup(void **unused)
{
    (void)unused;
    return kernels_setup(CAP, 1);
}

/* What one kernel gives, for a matrix and factors of random values. */
typedef struct products {
    float m[CAP], p[RANK * ROWS], q[RANK * COLS], first[RANK * ROWS],
        second[RANK * COLS], out[CAP], rest[CAP];
} products;

static void fill(products *x)
{
    values_fill(x->m, CAP, VALUES_HEAVY);
    values_fill(x->p, RANK * ROWS, VALUES_HEAVY);
    values_fill(x->q, RANK * COLS, VALUES_HEAVY);
}

static void multiply(const gwi_lowrank_kernels *k, products *x, gwi_lowrank_shape s)
{
    memcpy(x->rest, x->m, sizeof x->rest);
    k->project(x->m, x->q, x->first, s, 0, s.rows);
    k->project_back(x->m, x->p, x->second, s, 0, s.cols);
    k->expand(x->p, x->q, x->out, x->rest, s, 0, s.rows);
}

/* As far apart as sums of n floats may be. */
static void near(float got, double want, double size)
{
    if (!(fabs((double)got - want) <= 1e-5 * size))
        fail_msg("%g is not %g", (double)got, want);
}

static void c_is_the_product(void **unused)
{
    gwi_lowrank_shape s = {21, 53, 6};
    products *x = malloc(sizeof *x);

    (void)unused;
    fill(x);
    multiply(portable, x, s);
    for (size_t c = 0; c < s.rank; c++)
        for (size_t i = 0; i < s.rows; i++) {
            double sum = 0, size = 0;
            for (size_t j = 0; j < s.cols; j++) {
                double term =
                    (double)x->m[i * s.cols + j] * (double)x->q[c * s.cols + j];
                sum += term;
                size += fabs(term);
            }
            near(x->first[c * s.rows + i], sum, size);
        }
    for (size_t c = 0; c < s.rank; c++)
        for (size_t j = 0; j < s.cols; j++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < s.rows; i++) {
                double term =
                    (double)x->m[i * s.cols + j] * (double)x->p[c * s.rows + i];
                sum += term;
                size += fabs(term);
            }
            near(x->second[c * s.cols + j], sum, size);
        }
    for (size_t i = 0; i < s.rows; i++)
        for (size_t j = 0; j < s.cols; j++) {
            double sum = 0, size = 0;
            for (size_t c = 0; c < s.rank; c++) {
                double term =
                    (double)x->p[c * s.rows + i] * (double)x->q[c * s.cols + j];
                sum += term;
                size += fabs(term);
            }
            near(x->out[i * s.cols + j], sum, size);
            assert_true(x->rest[i * s.cols + j] ==
                        x->m[i * s.cols + j] - x->out[i * s.cols + j]);
        }
    free(x);
}

static void same_shape(const gwi_lowrank_kernels *k, products *got, products *want,
                       gwi_lowrank_shape s)
{
    memcpy(got, want, sizeof *got);
    multiply(portable, want, s);
    multiply(k, got, s);
    assert_memory_equal(got->first, want->first, s.rank * s.rows * sizeof(float));
    assert_memory_equal(got->second, want->second, s.rank * s.cols * sizeof(float));
    assert_memory_equal(got->out, want->out, s.rows * s.cols * sizeof(float));
    assert_memory_equal(got->rest, want->rest, s.rows * s.cols * sizeof(float));
}

static void every_set_gives_the_same_bits(void **unused)
{
    products *got = malloc(sizeof *got), *want = malloc(sizeof *want);

    (void)unused;
    fill(want);
    for (size_t t = 1; t < kernels_tested_count; t++)
        for (size_t rows = 1; rows <= ROWS; rows += 1 + rows / 4)
            for (size_t cols = 1; cols <= COLS; cols += 1 + cols / 3)
                for (size_t rank = 1; rank <= RANK; rank += 2)
                    same_shape(&kernels_tested[t].lowrank, got, want,
                               (gwi_lowrank_shape){rows, cols, rank});
    free(got);
    free(want);
}

static void threads_change_nothing(void **unused)
{
    gwi_lowrank_shape s = {ROWS, COLS, RANK};
    products *got = malloc(sizeof *got), *want = malloc(sizeof *want);

    (void)unused;
    fill(want);
    memcpy(got, want, sizeof *got);
    multiply(gwi_lowrank(), want, s);
    gwi_threads_set(3);
    memcpy(got->rest, got->m, sizeof got->rest);
    gwi_project(got->m, got->q, got->first, s);
    gwi_project_back(got->m, got->p, got->second, s);
    gwi_expand(got->p, got->q, got->out, got->rest, s);
    assert_memory_equal(got->first, want->first, sizeof want->first);
    assert_memory_equal(got->second, want->second, sizeof want->second);
    assert_memory_equal(got->out, want->out, sizeof want->out);
    assert_memory_equal(got->rest, want->rest, sizeof want->rest);
    free(got);
    free(want);
}

static double dot(const float *x, const float *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Column 2 depends on the first two, and column 4 is 0. */
static void columns_are_orthonormal(void **unused)
{
    enum { N = 100, COLUMNS = 5 };
    float x[COLUMNS * N], start[COLUMNS * N];
    uint64_t key = 7;

    (void)unused;
    values_fill(start, COLUMNS * N, VALUES_HEAVY);
    for (size_t i = 0; i < N; i++) {
        start[2 * N + i] = 3 * start[i] - start[N + i];
        start[4 * N + i] = 0;
    }
    for (int draws = 0; draws < 2; draws++) {
        memcpy(x, start, sizeof x);
        gwi_orthonormalize(x, N, COLUMNS, draws ? &key : NULL);
        for (size_t a = 0; a < COLUMNS; a++)
            for (size_t b = 0; b <= a; b++) {
                bool none = !draws && (a == 2 || a == 4 || b == 2 || b == 4);
                near((float)dot(x + a * N, x + b * N, N), a == b && !none, 1);
            }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c_is_the_product),
        cmocka_unit_test(every_set_gives_the_same_bits),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(columns_are_orthonormal),
    };

    return cmocka_run_group_tests(tests, setup, kernels_teardown);
}
