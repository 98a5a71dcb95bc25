/* SPDX-License-Identifier: Apache-2.0
 *
 * dct_loops.h - the loops of dct.h, for any instruction set. The file that includes
 * this has defined GWI_TARGET, the attribute that allows its instructions.
 *
 * A vector of 16 floats has a float of each of 16 columns, all of which are
 * transformed at once. The compiler makes one, two or four registers of it, with the
 * same bits. Tiles are turned between columns and rows, so that there is one loop for
 * both. */
#include <stdint.h>
#include <string.h>

typedef float lanes __attribute__((vector_size(GWI_VECTOR)));

enum { LANES = GWI_VECTOR / 4, MOST = GWI_DCT_MOST, HALF = MOST / 2 };

/* Loads and stores need no alignment. */
typedef float unaligned __attribute__((vector_size(GWI_VECTOR), aligned(4), may_alias));

GWI_TARGET static inline lanes load(const float *at)
{
    return *(const unaligned *)at;
}

GWI_TARGET static inline void store(float *at, lanes x)
{
    *(unaligned *)at = x;
}

/* Vectors that lie so many floats apart. */
typedef struct run {
    float *at;
    size_t step;
} run;

GWI_TARGET static inline lanes get(run r, size_t i)
{
    return load(r.at + i * r.step);
}

GWI_TARGET static inline void put(run r, size_t i, lanes x)
{
    store(r.at + i * r.step, x);
}

/* Every second one of a run, from `first` on. */
static inline run every_second(run r, size_t first)
{
    return (run){r.at + first * r.step, 2 * r.step};
}

/* ---- products ----------------------------------------------------------------------
 */

/* Sums c to c + 7 of a product with a square matrix of n rows. */
GWI_TARGET static inline void eight_sums(const float *m, size_t n, run in, run out,
                                         size_t c)
{
    const float *m0 = m + c * n, *m1 = m0 + n, *m2 = m1 + n, *m3 = m2 + n, *m4 = m3 + n,
                *m5 = m4 + n, *m6 = m5 + n, *m7 = m6 + n;
    lanes x = get(in, 0), a0 = m0[0] * x, a1 = m1[0] * x, a2 = m2[0] * x,
          a3 = m3[0] * x, a4 = m4[0] * x, a5 = m5[0] * x, a6 = m6[0] * x,
          a7 = m7[0] * x;

    for (size_t j = 1; j < n; j++) {
        x = get(in, j);
        a0 += m0[j] * x;
        a1 += m1[j] * x;
        a2 += m2[j] * x;
        a3 += m3[j] * x;
        a4 += m4[j] * x;
        a5 += m5[j] * x;
        a6 += m6[j] * x;
        a7 += m7[j] * x;
    }
    put(out, c, a0);
    put(out, c + 1, a1);
    put(out, c + 2, a2);
    put(out, c + 3, a3);
    put(out, c + 4, a4);
    put(out, c + 5, a5);
    put(out, c + 6, a6);
    put(out, c + 7, a7);
}

GWI_TARGET static inline void four_sums(const float *m, size_t n, run in, run out,
                                        size_t c)
{
    const float *m0 = m + c * n, *m1 = m0 + n, *m2 = m1 + n, *m3 = m2 + n;
    lanes x = get(in, 0), a0 = m0[0] * x, a1 = m1[0] * x, a2 = m2[0] * x,
          a3 = m3[0] * x;

    for (size_t j = 1; j < n; j++) {
        x = get(in, j);
        a0 += m0[j] * x;
        a1 += m1[j] * x;
        a2 += m2[j] * x;
        a3 += m3[j] * x;
    }
    put(out, c, a0);
    put(out, c + 1, a1);
    put(out, c + 2, a2);
    put(out, c + 3, a3);
}

/* out = m in, for a square matrix of n rows. */
GWI_TARGET static void multiply(const float *m, size_t n, run in, run out)
{
    size_t c = 0;

    for (; c + 8 <= n; c += 8)
        eight_sums(m, n, in, out, c);
    for (; c + 4 <= n; c += 4)
        four_sums(m, n, in, out, c);
    for (; c < n; c++) {
        lanes sum = m[c * n] * get(in, 0);
        for (size_t j = 1; j < n; j++)
            sum += m[c * n + j] * get(in, j);
        put(out, c, sum);
    }
}

/* ---- even b ------------------------------------------------------------------------
 */

/* Sums and differences of both ends of m vectors; one in the middle goes to the sums.
 */
GWI_TARGET static inline void split(run x, size_t m, run sums, run differences)
{
    for (size_t j = 0; j < m / 2; j++) {
        lanes a = get(x, j), b = get(x, m - 1 - j);
        put(sums, j, a + b);
        put(differences, j, a - b);
    }
    if (m % 2 == 1)
        put(sums, m / 2, get(x, m / 2));
}

GWI_TARGET static inline void join(run x, size_t m, run sums, run differences)
{
    if (m % 2 == 1)
        put(x, m / 2, get(sums, m / 2));
    for (size_t j = 0; j < m / 2; j++) {
        lanes a = get(sums, j), b = get(differences, j);
        put(x, j, a + b);
        put(x, m - 1 - j, a - b);
    }
}

/* Goes on with m sums, which are lost, from a level of the chain on. */
GWI_TARGET static void forward_chain(const gwi_dct_chain *d, size_t level, run x,
                                     size_t m, run to)
{
    float rest[HALF * LANES];
    run y = {rest, LANES};

    for (;; level++, m /= 2, to.step *= 2) {
        split(x, m, x, y);
        if (m > 1)
            multiply(d->odd[level], m / 2, y, every_second(to, 1));
        if (m % 2 == 1)
            break;
    }
    multiply(d->even, (m + 1) / 2, x, every_second(to, 0));
}

/* ---- odd b -------------------------------------------------------------------------
 */

/* The middle part of odd b, from y to p and q. */
GWI_TARGET static inline void rotate(const gwi_dct_plan *d, run y, run p, run q)
{
    size_t half = d->part.n;
    const float *c = d->cosines, *s = d->sines;

    for (size_t j = 0; j < half; j++) {
        lanes a = get(y, j), b = get(y, 2 * half - 1 - j);
        put(p, j, c[j] * a + s[j] * b);
        put(q, j, c[half + j] * b - s[half + j] * a);
    }
}

/* Odd b from the differences, and, because the matrix is symmetric, the other way. */
GWI_TARGET static void odd_numbers(const gwi_dct_plan *d, run y, run to)
{
    float rest[4 * HALF * LANES];
    size_t half = d->part.n;
    run p = {rest, LANES}, q = {rest + HALF * LANES, LANES},
        big_p = {rest + 2 * HALF * LANES, LANES},
        big_q = {rest + 3 * HALF * LANES, LANES};

    if (half == 0) {
        multiply(d->whole.odd[0], d->n / 2, y, to);
        return;
    }
    rotate(d, y, p, q);
    forward_chain(&d->part, 0, p, half, big_p);
    forward_chain(&d->part, 0, q, half, big_q);
    put(to, 0, get(big_p, 0));
    for (size_t i = 1; i < half; i++) {
        lanes a = get(big_p, i), b = get(big_q, half - i);
        put(to, 2 * i - 1, a - b);
        put(to, 2 * i, a + b);
    }
    put(to, 2 * half - 1, -get(big_q, 0));
}

/* ---- columns -----------------------------------------------------------------------
 */

/* LANES columns at once. */
GWI_TARGET static void forward_columns(const gwi_dct_plan *d, run from, run to)
{
    float sums[(HALF + 1) * LANES], differences[HALF * LANES];
    run x = {sums, LANES}, y = {differences, LANES};
    size_t m = d->n;

    split(from, m, x, y);
    if (m > 1)
        odd_numbers(d, y, every_second(to, 1));
    if (m % 2 == 1)
        multiply(d->whole.even, (m + 1) / 2, x, every_second(to, 0));
    else
        forward_chain(&d->whole, 1, x, m / 2, every_second(to, 0));
}

/* The other way. x has two halves, which take turns in being read. */
GWI_TARGET static void back_columns(const gwi_dct_plan *d, run from, run to)
{
    float sums[2 * MOST * LANES], differences[HALF * LANES];
    run x = {sums, LANES}, z = {sums + MOST * LANES, LANES}, y = {differences, LANES};
    const gwi_dct_chain *chain = &d->whole;
    size_t m = d->n, stride = 1, level = 0;

    for (; m % 2 == 0; m /= 2, stride *= 2)
        level++;
    multiply(chain->even_back, (m + 1) / 2, (run){from.at, 2 * stride * from.step}, x);
    for (;; level--, m *= 2, stride /= 2) {
        run odd = {from.at + stride * from.step, 2 * stride * from.step};
        if (level == 0 && m > 1)
            odd_numbers(d, odd, y);
        else if (m > 1)
            multiply(chain->odd[level], m / 2, odd, y);
        join(level == 0 ? to : z, m, x, y);
        if (level == 0)
            break;
        run other = x;
        x = z;
        z = other;
    }
}

/* ---- rows and columns ------------------------------------------------------------ */

/* Lanes of a and b in turns: the first half of both, or the second. */
#if GWI_VECTOR == 16
#define FIRST  0, 4, 1, 5
#define SECOND 2, 6, 3, 7
#elif GWI_VECTOR == 32
#define FIRST  0, 8, 1, 9, 2, 10, 3, 11
#define SECOND 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#endif

#if defined(__clang__)
#define UNROLL              _Pragma("unroll")
#define IN_TURNS(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define UNROLL              _Pragma("GCC unroll 16")
typedef int places __attribute__((vector_size(GWI_VECTOR)));
#define IN_TURNS(a, b, ...) __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif

/* One round takes the rows of both halves in turns, and their lanes. */
GWI_TARGET static inline void turn_round(const lanes *x, lanes *y)
{
    UNROLL
    for (size_t i = 0; i < LANES / 2; i++) {
        y[2 * i] = IN_TURNS(x[i], x[i + LANES / 2], FIRST);
        y[2 * i + 1] = IN_TURNS(x[i], x[i + LANES / 2], SECOND);
    }
}

/* A square of LANES rows: what is row i, lane j becomes row j, lane i. After as many
 * rounds as lanes have bits all are in their places. */
GWI_TARGET static inline void turn_square(const float *from, float *to)
{
    lanes x[LANES], y[LANES];

    UNROLL
    for (size_t i = 0; i < LANES; i++)
        x[i] = load(from + i * MOST);
    turn_round(x, y);
    turn_round(y, x);
    if (LANES > 4)
        turn_round(x, y);
    if (LANES > 8)
        turn_round(y, x);
    UNROLL
    for (size_t i = 0; i < LANES; i++)
        store(to + i * MOST, LANES == 8 ? y[i] : x[i]);
}

GWI_TARGET static void turn(const float *from, float *to, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r += LANES)
        for (size_t c = 0; c < cols; c += LANES)
            turn_square(from + r * MOST + c, to + c * MOST + r);
}

/* ---- tiles -------------------------------------------------------------------------
 */

GWI_TARGET static void move_rows(run from, run to, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(to.at + r * to.step, from.at + r * from.step, cols * sizeof(float));
}

/* Has memory fetched that is written to at last. Measured on a Zen 4 over 25 M floats,
 * this and the squares take a transform from 2.1 to 1.5 ns of a float. */
static inline void ask_for(run to, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c += 16)
            __builtin_prefetch(to.at + r * to.step + c, 1);
}

typedef void columns_run(const gwi_dct_plan *d, run from, run to);

/* A tile goes through squares of MOST floats, which stay in the first cache: rows that
 * are far apart in memory are then read and written as a whole, one after the other.
 * Where rows do not end with a whole vector, the squares have room for the rest of it.
 */
typedef float tile_square[MOST * MOST];

GWI_TARGET static void all_columns(columns_run *transform, const gwi_dct_plan *d,
                                   run from, run to, size_t cols)
{
    for (size_t c = 0; c < cols; c += LANES)
        transform(d, (run){from.at + c, from.step}, (run){to.at + c, to.step});
}

/* First the transform of columns, then that of rows, which is left turned. */
GWI_TARGET static void run_tile(columns_run *transform, const gwi_dct_plan *first,
                                const gwi_dct_plan *second, run from, run to)
{
    size_t rows = first->n, cols = second->n;
    tile_square a, b;
    run in_a = {a, MOST}, in_b = {b, MOST};

    ask_for(to, cols, rows);
    if (rows % LANES != 0 || cols % LANES != 0) {
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
    }
    move_rows(from, in_b, rows, cols);
    all_columns(transform, first, in_b, in_a, cols);
    turn(a, b, rows, cols);
    all_columns(transform, second, in_b, in_a, rows);
    move_rows(in_a, to, cols, rows);
}

/* What is read from is not changed; a run has no const for it. */
GWI_TARGET static void forward_tile(const gwi_dct_tile *t, const float *from, float *to)
{
    run_tile(forward_columns, t->down, t->across,
             (run){(float *)(uintptr_t)from, t->step}, (run){to, t->down->n});
}

GWI_TARGET static void back_tile(const gwi_dct_tile *t, const float *from, float *to)
{
    run_tile(back_columns, t->across, t->down,
             (run){(float *)(uintptr_t)from, t->down->n}, (run){to, t->step});
}

#undef FIRST
#undef SECOND
#undef IN_TURNS
