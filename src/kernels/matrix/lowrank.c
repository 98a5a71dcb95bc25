/* SPDX-License-Identifier: Apache-2.0
 *
 * lowrank.c - products with thin matrices in C, their choice, their walks over whole
 * matrices, and orthonormal columns. */
#include "kernels/matrix/lowrank.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/cpu.h"
#include "kernels/pool.h"
#include "kernels/random.h"

#define GWI_TARGET

#include "kernels/matrix/lowrank_loops.h"

static const gwi_lowrank_kernels reference = {
    .isa = "c",
    .project = project_loop,
    .project_back = back_loop,
    .expand = expand_loop,
};

void gwi_lowrank_for(unsigned flags, gwi_lowrank_kernels *k)
{
    *k = reference;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_lowrank_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_lowrank_avx512(k);
#endif
    (void)flags;
}

/* ---- whole matrices ----------------------------------------------------------- */

/* Blocks are even numbers of rows, and whole steps of columns, worth waking a thread
 * for. No sum is cut by them. */
enum { ROW_BLOCK = 64, COL_BLOCK = 1024 };

typedef struct operands {
    const float *in, *factor;
    float *out, *m;
    gwi_lowrank_shape shape;
} operands;

static size_t end_of(size_t block, size_t len, size_t n)
{
    return (block + 1) * len < n ? (block + 1) * len : n;
}

static void project_rows(void *arg, size_t block)
{
    const operands *o = arg;

    gwi_lowrank()->project(o->in, o->factor, o->out, o->shape, block * ROW_BLOCK,
                           end_of(block, ROW_BLOCK, o->shape.rows));
}

void gwi_project(const float *m, const float *q, float *p, gwi_lowrank_shape shape)
{
    operands o = {.in = m, .factor = q, .out = p, .shape = shape};

    gwi_parallel((shape.rows + ROW_BLOCK - 1) / ROW_BLOCK, project_rows, &o);
}

static void project_cols(void *arg, size_t block)
{
    const operands *o = arg;

    gwi_lowrank()->project_back(o->in, o->factor, o->out, o->shape, block * COL_BLOCK,
                                end_of(block, COL_BLOCK, o->shape.cols));
}

void gwi_project_back(const float *m, const float *p, float *q, gwi_lowrank_shape shape)
{
    operands o = {.in = m, .factor = p, .out = q, .shape = shape};

    gwi_parallel((shape.cols + COL_BLOCK - 1) / COL_BLOCK, project_cols, &o);
}

static void expand_rows(void *arg, size_t block)
{
    const operands *o = arg;

    gwi_lowrank()->expand(o->in, o->factor, o->out, o->m, o->shape, block * ROW_BLOCK,
                          end_of(block, ROW_BLOCK, o->shape.rows));
}

void gwi_expand(const float *p, const float *q, float *out, float *m,
                gwi_lowrank_shape shape)
{
    operands o = {.in = p, .factor = q, .out = out, .m = m, .shape = shape};

    gwi_parallel((shape.rows + ROW_BLOCK - 1) / ROW_BLOCK, expand_rows, &o);
}

/* ---- orthonormal columns --------------------------------------------------------- */

/* Less of a column than this is left over only by rounding. */
#define DEPENDENT 1e-5

static double product(const float *x, const float *y, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

/* Takes out of column c what the columns before it have of it. */
static void remove_others(float *x, size_t n, size_t c)
{
    float *own = x + c * n;

    for (size_t other = 0; other < c; other++) {
        double share = product(own, x + other * n, n);
        for (size_t i = 0; i < n; i++)
            own[i] = (float)((double)own[i] - share * (double)x[other * n + i]);
    }
}

/* Makes column c orthonormal to those before it; false if it depends on them. The
 * first time leaves errors of rounding, the second time none to speak of. */
static bool orthonormalize_column(float *x, size_t n, size_t c)
{
    float *own = x + c * n;

    for (int time = 0; time < 2; time++) {
        double before = sqrt(product(own, own, n));
        remove_others(x, n, c);
        double after = sqrt(product(own, own, n));
        if (!(after > DEPENDENT * before))
            return false;
        for (size_t i = 0; i < n; i++)
            own[i] = (float)((double)own[i] / after);
    }
    return true;
}

/* Fills column c with random numbers from -1 to 1, of 24 bits. */
static void draw_column(float *x, size_t n, size_t c, uint64_t key)
{
    for (size_t i = 0; i < n; i++)
        x[c * n + i] =
            (float)((int64_t)(gwi_random64(key, c * n + i) >> 40) - (1 << 23)) /
            (float)(1 << 23);
}

void gwi_orthonormalize(float *x, size_t n, size_t rank, const uint64_t *key)
{
    for (size_t c = 0; c < rank; c++) {
        bool fits = orthonormalize_column(x, n, c);
        if (!fits && key != NULL) {
            draw_column(x, n, c, *key);
            fits = orthonormalize_column(x, n, c);
        }
        if (!fits)
            memset(x + c * n, 0, n * sizeof *x);
    }
}
