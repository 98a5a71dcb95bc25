/* SPDX-License-Identifier: Apache-2.0
 *
 * vector.c - the plain vector kernels over whole vectors, on several threads. */
#include "kernels/vector.h"

#include "kernels/pool.h"

#include <stdatomic.h>

/* Floats per block: 1 MiB, so that a block is worth waking a thread for. */
enum { SPAN = 1 << 18 };

/* What the blocks work on; each kernel uses the members it needs. */
typedef struct operands {
    float *y;
    const float *x, *z;
    float a;
    size_t n;
    atomic_size_t first; /* lowest index found so far */
    float part[GWI_THREADS_MAX];
    double sum[GWI_THREADS_MAX];
} operands;

static size_t span_at(const operands *o, size_t begin)
{
    return o->n - begin < SPAN ? o->n - begin : SPAN;
}

static void each_span(operands *o, void (*fn)(void *arg, size_t block))
{
    gwi_parallel((o->n + SPAN - 1) / SPAN, fn, o);
}

static void add_span(void *arg, size_t block)
{
    const operands *o = arg;
    size_t begin = block * SPAN;

    gwi_vector()->add(o->y + begin, o->x + begin, span_at(o, begin));
}

void gwi_add(float *y, const float *x, size_t n)
{
    operands o = {.y = y, .x = x, .n = n};

    each_span(&o, add_span);
}

static void scale_span(void *arg, size_t block)
{
    const operands *o = arg;
    size_t begin = block * SPAN;

    gwi_vector()->scale(o->y + begin, o->a, span_at(o, begin));
}

void gwi_scale(float *y, float a, size_t n)
{
    operands o = {.y = y, .a = a, .n = n};

    each_span(&o, scale_span);
}

static void divide_span(void *arg, size_t block)
{
    const operands *o = arg;
    size_t begin = block * SPAN;

    gwi_vector()->divide(o->y + begin, o->a, span_at(o, begin));
}

void gwi_divide(float *y, float a, size_t n)
{
    operands o = {.y = y, .a = a, .n = n};

    each_span(&o, divide_span);
}

static void axpy_span(void *arg, size_t block)
{
    const operands *o = arg;
    size_t begin = block * SPAN;

    gwi_vector()->axpy(o->y + begin, o->a, o->x + begin, span_at(o, begin));
}

void gwi_axpy(float *y, float a, const float *x, size_t n)
{
    operands o = {.y = y, .a = a, .x = x, .n = n};

    each_span(&o, axpy_span);
}

static void subtract_span(void *arg, size_t block)
{
    const operands *o = arg;
    size_t begin = block * SPAN;

    gwi_vector()->subtract(o->y + begin, o->x + begin, o->z + begin, span_at(o, begin));
}

void gwi_subtract(float *d, const float *x, const float *z, size_t n)
{
    operands o = {.y = d, .x = x, .z = z, .n = n};

    each_span(&o, subtract_span);
}

/* The three below give a number, so n is first cut into as many equal parts as
 * there is room for results. */
static size_t part_begin(size_t n, size_t part)
{
    return n / GWI_THREADS_MAX * part +
           (part < n % GWI_THREADS_MAX ? part : n % GWI_THREADS_MAX);
}

static void absmax_part(void *arg, size_t part)
{
    operands *o = arg;
    size_t begin = part_begin(o->n, part);

    o->part[part] =
        gwi_vector()->absmax(o->x + begin, part_begin(o->n, part + 1) - begin);
}

float gwi_absmax(const float *x, size_t n)
{
    operands o = {.x = x, .n = n};

    if (n < 2 * SPAN)
        return gwi_vector()->absmax(x, n);
    gwi_parallel(GWI_THREADS_MAX, absmax_part, &o);
    return gwi_vector()->absmax(o.part, GWI_THREADS_MAX);
}

static void first_nonfinite_span(void *arg, size_t block)
{
    operands *o = arg;
    size_t begin = block * SPAN, n = span_at(o, begin);
    size_t lowest = atomic_load_explicit(&o->first, memory_order_relaxed);

    if (lowest < begin)
        return;
    size_t found = gwi_vector()->first_nonfinite(o->x + begin, n);
    if (found == n)
        return;
    while (begin + found < lowest && !atomic_compare_exchange_weak_explicit(
                                         &o->first, &lowest, begin + found,
                                         memory_order_relaxed, memory_order_relaxed)) {
    }
}

size_t gwi_first_nonfinite(const float *x, size_t n)
{
    operands o = {.x = x, .n = n};

    atomic_init(&o.first, n);
    each_span(&o, first_nonfinite_span);
    return atomic_load_explicit(&o.first, memory_order_relaxed);
}

static void sumsq_block(void *arg, size_t block)
{
    operands *o = arg;
    size_t begin = block * GWI_SUMSQ_BLOCK, left = o->n - begin;

    o->sum[block] = gwi_vector()->sumsq(
        o->x + begin, left < GWI_SUMSQ_BLOCK ? left : GWI_SUMSQ_BLOCK);
}

double gwi_sumsq(const float *x, size_t n)
{
    const size_t round = (size_t)GWI_THREADS_MAX * GWI_SUMSQ_BLOCK;
    double total = 0.0;

    for (size_t done = 0; done < n; done += round) {
        operands o = {.x = x + done, .n = n - done < round ? n - done : round};
        size_t blocks = (o.n + GWI_SUMSQ_BLOCK - 1) / GWI_SUMSQ_BLOCK;
        gwi_parallel(blocks, sumsq_block, &o);
        for (size_t b = 0; b < blocks; b++)
            total += o.sum[b];
    }
    return total;
}
