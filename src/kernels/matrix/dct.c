/* SPDX-License-Identifier: Apache-2.0
 *
 * dct.c - cosine transforms in C, their choice, their matrices, and the walk over the
 * tiles of a strip. */
#include "kernels/matrix/dct.h"

#include <math.h>

#include "kernels/cpu.h"
#include "kernels/pool.h"

#define GWI_TARGET
#define GWI_VECTOR 16

#include "kernels/matrix/dct_loops.h"

void gwi_dct_for(unsigned flags, gwi_dct_kernels *k)
{
    *k = (gwi_dct_kernels){.isa = "c", .forward = forward_tile, .back = back_tile};
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_dct_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_dct_avx512(k);
#endif
    (void)flags;
}

/* ---- matrices -------------------------------------------------------------------- */

/* The cosine of an angle from 0 to pi/4, and the sine, by their series in double, whose
 * bits do not depend on anybody's libm. What is left out is below 1e-18. */
static double small_cos(double x)
{
    double sum = 1, term = 1;

    for (int i = 1; i <= 18; i += 2) {
        term *= -x * x / (i * (i + 1));
        sum += term;
    }
    return sum;
}

static double small_sin(double x)
{
    double sum = x, term = x;

    for (int i = 2; i <= 18; i += 2) {
        term *= -x * x / (i * (i + 1));
        sum += term;
    }
    return sum;
}

/* cos(pi a / b), by turns and mirrors that are exact because a and b are counts. */
static double cosine(size_t a, size_t b)
{
    const double pi = 3.14159265358979323846;
    double sign = 1;

    a %= 2 * b;
    if (a > b)
        a = 2 * b - a;
    if (2 * a > b) {
        a = b - a;
        sign = -1;
    }
    if (4 * a <= b)
        return sign * small_cos(pi * (double)a / (double)b);
    return sign * small_sin(pi * (double)(b - 2 * a) / (double)(2 * b));
}

/* The last length, which is odd. */
static size_t odd_part(size_t n)
{
    while (n % 2 == 0)
        n /= 2;
    return n;
}

static size_t square(size_t n)
{
    return n * n;
}

static size_t chain_floats(size_t n)
{
    size_t last = odd_part(n), floats = 2 * square((last + 1) / 2);

    for (size_t m = n; m > last; m /= 2)
        floats += square(m / 2);
    return floats + square(last / 2);
}

/* The floats of p and of q; 0: differences are multiplied with a matrix. */
static size_t part_of(size_t n)
{
    size_t differences = n % 2 == 0 ? n / 2 : 0;

    return differences > 16 && differences % 2 == 0 ? differences / 2 : 0;
}

size_t gwi_dct_floats(size_t n)
{
    size_t part = part_of(n);

    return chain_floats(n) + (part > 0 ? chain_floats(part) + 4 * part : 0);
}

/* Odd b = 2c + 1 of a transform of m floats. */
static float *fill_odd(float *at, size_t m, double scale)
{
    for (size_t c = 0; c < m / 2; c++)
        for (size_t j = 0; j < m / 2; j++)
            *at++ = (float)(scale * cosine((2 * j + 1) * (2 * c + 1), 2 * m));
    return at;
}

/* Even b = 2c. */
static float *fill_even(gwi_dct_chain *d, float *at, size_t m, double first,
                        double scale)
{
    size_t rows = (m + 1) / 2;

    d->even = at;
    d->even_back = at + square(rows);
    for (size_t c = 0; c < rows; c++)
        for (size_t j = 0; j < rows; j++) {
            double x = (c == 0 ? first : scale) * cosine((2 * j + 1) * 2 * c, 2 * m);
            d->even[c * rows + j] = d->even_back[j * rows + c] = (float)x;
        }
    return at + 2 * square(rows);
}

/* b = 0 has a factor of its own. */
static float *fill_chain(gwi_dct_chain *d, size_t n, float *at, double first,
                         double scale)
{
    size_t last = odd_part(n), m = n;

    d->n = n;
    for (size_t level = 0;; m /= 2, level++) {
        d->odd[level] = at;
        at = fill_odd(at, m, scale);
        if (m == last)
            break;
    }
    return fill_even(d, at, last, first, scale);
}

static void fill_rotations(gwi_dct_plan *d, float *at)
{
    size_t half = d->part.n, all = 8 * half; /* 4M */

    d->cosines = at;
    d->sines = at + 2 * half;
    for (size_t j = 0; j < half; j++) {
        float sign = j % 2 == 0 ? 1 : -1;
        d->cosines[j] = (float)cosine(2 * j + 1, all);
        d->sines[j] = (float)cosine(all / 2 - (2 * j + 1), all);
        d->cosines[half + j] = sign * d->cosines[j];
        d->sines[half + j] = sign * d->sines[j];
    }
}

void gwi_dct_init(gwi_dct_plan *d, size_t n, float *memory)
{
    double scale = sqrt(2.0 / (double)n);
    size_t part = part_of(n);

    *d = (gwi_dct_plan){.n = n};
    memory = fill_chain(&d->whole, n, memory, sqrt(1.0 / (double)n), scale);
    if (part == 0)
        return;
    memory = fill_chain(&d->part, part, memory, scale, scale);
    fill_rotations(d, memory);
}

/* ---- cutting ----------------------------------------------------------------------
 */

gwi_dct_cut gwi_dct_cut_of(size_t floats, size_t most)
{
    for (size_t run = most; 2 * run > most && run > 0; run--)
        if (floats % run == 0)
            return (gwi_dct_cut){floats, floats / run};
    return (gwi_dct_cut){floats, (floats + most - 1) / most};
}

/* ---- strips ------------------------------------------------------------------------
 */

/* Tiles that are worth waking a thread for. */
enum { TILES = 4 };

typedef struct operands {
    const gwi_dct_strip *strip;
    const float *from;
    float *to;
} operands;

typedef void tile_run(const operands *o, const gwi_dct_tile *tile, size_t begin);

static void run_tiles(const operands *o, size_t block, tile_run *run)
{
    const gwi_dct_strip *s = o->strip;
    size_t end = (block + 1) * TILES;

    if (end > s->across.count)
        end = s->across.count;
    for (size_t i = block * TILES; i < end; i++) {
        size_t begin = gwi_dct_begin(&s->across, i);
        gwi_dct_tile tile = {&s->all[s->rows], &s->all[gwi_dct_run(&s->across, i)],
                             s->across.floats};
        run(o, &tile, begin);
    }
}

static void one_forward(const operands *o, const gwi_dct_tile *tile, size_t begin)
{
    gwi_dct()->forward(tile, o->from + begin, o->to + begin * o->strip->rows);
}

static void one_back(const operands *o, const gwi_dct_tile *tile, size_t begin)
{
    gwi_dct()->back(tile, o->from + begin * o->strip->rows, o->to + begin);
}

static void forward_block(void *arg, size_t block)
{
    run_tiles(arg, block, one_forward);
}

static void back_block(void *arg, size_t block)
{
    run_tiles(arg, block, one_back);
}

void gwi_dct_forward(const gwi_dct_strip *strip, const float *from, float *to)
{
    operands o = {strip, from, to};

    gwi_parallel((strip->across.count + TILES - 1) / TILES, forward_block, &o);
}

void gwi_dct_back(const gwi_dct_strip *strip, const float *from, float *to)
{
    operands o = {strip, from, to};

    gwi_parallel((strip->across.count + TILES - 1) / TILES, back_block, &o);
}
