/* SPDX-License-Identifier: Apache-2.0
 *
 * lowrank_loops.h - the loops of lowrank.h, for any instruction set. The file that
 * includes this has defined GWI_TARGET, the attribute that allows its instructions.
 *
 * They are written in vectors of 16 floats, which the compiler makes of one, two or
 * four registers. Operations on them are those on 16 floats, so that all give the same
 * bits. Four columns of a factor are done at a time, and two or eight rows of the
 * matrix, so that what was loaded is used several times. */
#include <string.h>

enum { STEP = 16, ROWS = 8 };

typedef float lanes __attribute__((vector_size(64)));

#define LOAD(to, from)  memcpy(&(to), (from), sizeof(lanes))
#define STORE(to, from) memcpy((to), &(from), sizeof(lanes))

GWI_TARGET static float fold_lanes(const lanes *sum)
{
    float lane[STEP];

    memcpy(lane, sum, sizeof lane);
    for (size_t half = STEP / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* The last floats of a row, fewer than a step, go on with zeros. Adding 0 * 0 changes
 * no sum but one that is -0; those begin with 0, so there are none. */
GWI_TARGET static void load_rest(lanes *to, const float *from, size_t n)
{
    float rest[STEP] = {0};

    memcpy(rest, from, n * sizeof *from);
    memcpy(to, rest, sizeof rest);
}

/* ---- p = m q ---------------------------------------------------------------- */

/* Rows r and r + 1 with columns c to c + 3 of q. */
GWI_TARGET static void project_block(const float *m, const float *q, float *p,
                                     gwi_lowrank_shape s, size_t r, size_t c)
{
    const float *m0 = m + r * s.cols, *m1 = m0 + s.cols, *q0 = q + c * s.cols;
    const float *q1 = q0 + s.cols, *q2 = q1 + s.cols, *q3 = q2 + s.cols;
    lanes a[4] = {{0}}, b[4] = {{0}}, x, y, f0, f1, f2, f3;

    for (size_t j = 0; j < s.cols; j += STEP) {
        size_t left = s.cols - j;
        if (left >= STEP) {
            LOAD(x, m0 + j);
            LOAD(y, m1 + j);
            LOAD(f0, q0 + j);
            LOAD(f1, q1 + j);
            LOAD(f2, q2 + j);
            LOAD(f3, q3 + j);
        } else {
            load_rest(&x, m0 + j, left);
            load_rest(&y, m1 + j, left);
            load_rest(&f0, q0 + j, left);
            load_rest(&f1, q1 + j, left);
            load_rest(&f2, q2 + j, left);
            load_rest(&f3, q3 + j, left);
        }
        a[0] += x * f0;
        a[1] += x * f1;
        a[2] += x * f2;
        a[3] += x * f3;
        b[0] += y * f0;
        b[1] += y * f1;
        b[2] += y * f2;
        b[3] += y * f3;
    }
    for (size_t i = 0; i < 4; i++) {
        p[(c + i) * s.rows + r] = fold_lanes(&a[i]);
        p[(c + i) * s.rows + r + 1] = fold_lanes(&b[i]);
    }
}

GWI_TARGET static float dot(const float *x, const float *y, size_t n)
{
    lanes sum = {0}, a, b;
    size_t j = 0;

    for (; j + STEP <= n; j += STEP) {
        LOAD(a, x + j);
        LOAD(b, y + j);
        sum += a * b;
    }
    if (j < n) {
        load_rest(&a, x + j, n - j);
        load_rest(&b, y + j, n - j);
        sum += a * b;
    }
    return fold_lanes(&sum);
}

GWI_TARGET static void project_loop(const float *m, const float *q, float *p,
                                    gwi_lowrank_shape s, size_t begin, size_t end)
{
    for (size_t r = begin; r < end; r += 2)
        for (size_t c = 0; c < s.rank;) {
            if (r + 2 <= end && c + 4 <= s.rank) {
                project_block(m, q, p, s, r, c);
                c += 4;
                continue;
            }
            for (size_t i = r; i < end && i < r + 2; i++)
                p[c * s.rows + i] = dot(m + i * s.cols, q + c * s.cols, s.cols);
            c++;
        }
}

/* ---- q = m^T p -------------------------------------------------------------- */

/* Adds rows [r, r + ROWS) to columns c to c + 3 of q, at [begin, end). */
GWI_TARGET static void back_block(const float *m, const float *p, float *q,
                                  gwi_lowrank_shape s, size_t r, size_t c, size_t begin,
                                  size_t end)
{
    const float *p0 = p + c * s.rows + r, *p1 = p0 + s.rows, *p2 = p1 + s.rows,
                *p3 = p2 + s.rows;
    float *q0 = q + c * s.cols, *q1 = q0 + s.cols, *q2 = q1 + s.cols, *q3 = q2 + s.cols;
    lanes a0, a1, a2, a3, x;
    size_t j = begin;

    for (; j + STEP <= end; j += STEP) {
        LOAD(a0, q0 + j);
        LOAD(a1, q1 + j);
        LOAD(a2, q2 + j);
        LOAD(a3, q3 + j);
        for (size_t i = 0; i < ROWS; i++) {
            LOAD(x, m + (r + i) * s.cols + j);
            a0 += p0[i] * x;
            a1 += p1[i] * x;
            a2 += p2[i] * x;
            a3 += p3[i] * x;
        }
        STORE(q0 + j, a0);
        STORE(q1 + j, a1);
        STORE(q2 + j, a2);
        STORE(q3 + j, a3);
    }
    for (; j < end; j++)
        for (size_t i = 0; i < ROWS; i++) {
            float v = m[(r + i) * s.cols + j];
            q0[j] += p0[i] * v;
            q1[j] += p1[i] * v;
            q2[j] += p2[i] * v;
            q3[j] += p3[i] * v;
        }
}

/* y += a * x */
GWI_TARGET static void add_multiple(float *y, float a, const float *x, size_t n)
{
    lanes u, v;
    size_t j = 0;

    for (; j + STEP <= n; j += STEP) {
        LOAD(u, y + j);
        LOAD(v, x + j);
        u += a * v;
        STORE(y + j, u);
    }
    for (; j < n; j++)
        y[j] += a * x[j];
}

GWI_TARGET static void back_loop(const float *m, const float *p, float *q,
                                 gwi_lowrank_shape s, size_t begin, size_t end)
{
    for (size_t c = 0; c < s.rank; c++)
        memset(q + c * s.cols + begin, 0, (end - begin) * sizeof *q);
    for (size_t r = 0; r < s.rows; r += ROWS)
        for (size_t c = 0; c < s.rank;) {
            if (r + ROWS <= s.rows && c + 4 <= s.rank) {
                back_block(m, p, q, s, r, c, begin, end);
                c += 4;
                continue;
            }
            for (size_t i = r; i < s.rows && i < r + ROWS; i++)
                add_multiple(q + c * s.cols + begin, p[c * s.rows + i],
                             m + i * s.cols + begin, end - begin);
            c++;
        }
}

/* ---- p q^T ------------------------------------------------------------------- */

/* Row r of out, from columns 0 to 3 of the factors, added to 0. */
GWI_TARGET static void expand_first(const float *p, const float *q, float *out,
                                    gwi_lowrank_shape s, size_t r)
{
    const float *q1 = q + s.cols, *q2 = q1 + s.cols, *q3 = q2 + s.cols;
    float p0 = p[r], p1 = p[s.rows + r], p2 = p[2 * s.rows + r], p3 = p[3 * s.rows + r];
    lanes sum, zero = {0}, f0, f1, f2, f3;
    size_t j = 0;

    for (; j + STEP <= s.cols; j += STEP) {
        LOAD(f0, q + j);
        LOAD(f1, q1 + j);
        LOAD(f2, q2 + j);
        LOAD(f3, q3 + j);
        sum = zero + p0 * f0;
        sum += p1 * f1;
        sum += p2 * f2;
        sum += p3 * f3;
        STORE(out + j, sum);
    }
    for (; j < s.cols; j++)
        out[j] = 0.0f + p0 * q[j] + p1 * q1[j] + p2 * q2[j] + p3 * q3[j];
}

GWI_TARGET static void subtract_row(float *y, const float *x, size_t n)
{
    lanes u, v;
    size_t j = 0;

    for (; j + STEP <= n; j += STEP) {
        LOAD(u, y + j);
        LOAD(v, x + j);
        u -= v;
        STORE(y + j, u);
    }
    for (; j < n; j++)
        y[j] -= x[j];
}

/* A row is in the cache while it is worked on. */
GWI_TARGET static void expand_loop(const float *p, const float *q, float *out, float *m,
                                   gwi_lowrank_shape s, size_t begin, size_t end)
{
    for (size_t r = begin; r < end; r++) {
        float *row = out + r * s.cols;
        size_t c = s.rank >= 4 ? 4 : 0;
        if (c > 0)
            expand_first(p, q, row, s, r);
        else
            memset(row, 0, s.cols * sizeof *row);
        for (; c < s.rank; c++)
            add_multiple(row, p[c * s.rows + r], q + c * s.cols, s.cols);
        if (m != NULL)
            subtract_row(m + r * s.cols, row, s.cols);
    }
}

#undef LOAD
#undef STORE
