/* SPDX-License-Identifier: Apache-2.0
 *
 * batchnorm_rows.c - the arithmetic of batch normalisation.
 *
 * All loops go over rows: the pixels of one block of channels of one sample, which
 * lie in memory as pixels x block. Sums over a row are of floats, sums over rows of
 * doubles, always in the same order. These loops wait for memory, so each
 * direction reads its input twice and no more: once to sum, once to compute.
 *
 * With x the input, g the derivative by the output before the cut-off, m values per
 * channel and r = 1/sqrt(var + eps):
 *
 *     scale = weight r,  offset = bias - mean scale,  out = x scale + offset
 *     dbias = sum g,     dweight = r sum g (x - mean)
 *     din   = scale (g - dbias/m) - (x - mean) scale r dweight/m
 */
#include "layers/batchnorm_rows.h"

#include <math.h>
#include <stdint.h>

/* As in most frameworks. */
static const double epsilon = 1e-5, momentum = 0.1;

/* The largest block there is. */
enum { LANES = 16 };

#define ROW static inline __attribute__((always_inline))

/* One row, and its block of every vector per channel. */
typedef struct row {
    const float *in;
    const float *more; /* forward: what is added. backward: the output */
    float *out;        /* forward only */
    float *dout, *din; /* backward only */
    size_t pixels, block;
    const float *mean, *scale, *offset, *a, *b;
} row;

/* What tells which outputs were cut off. */
enum { NONE, FROM_IN, FROM_OUT };

/* ---- over the pixels of a row ------------------------------------------------------
 */

/* A float or an integer of each channel of a block; they need no alignment. */
typedef float floats8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float floats16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ints8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t ints16 __attribute__((vector_size(64), aligned(4), may_alias));

#define LANE           floats16
#define KEEP(so, y)    (floats16)((ints16)(y) & (so))
#define CUT(so, y)     (floats16)((ints16)(y) & ~(so))
#define NAME(function) function##_16
#include "layers/batchnorm_lanes.h"

#define LANE           floats8
#define KEEP(so, y)    (floats8)((ints8)(y) & (so))
#define CUT(so, y)     (floats8)((ints8)(y) & ~(so))
#define NAME(function) function##_8
#include "layers/batchnorm_lanes.h"

#define LANE           float
#define KEEP(so, y)    ((so) ? (y) : 0.0f)
#define CUT(so, y)     ((so) ? 0.0f : (y))
#define NAME(function) function##_1
#include "layers/batchnorm_lanes.h"

GWT_VECTOR static void sums(const float *x, const float *shift, size_t pixels,
                            size_t block, float *sum, float *square)
{
    if (block == 16)
        sum_row_16(x, shift, pixels, sum, square);
    else if (block == 8)
        sum_row_8(x, shift, pixels, sum, square);
    else
        sum_row_1(x, shift, pixels, sum, square);
}

GWT_VECTOR static void scale(const row *r, int relu)
{
    if (r->block == 16)
        scale_kind_16(r, relu);
    else if (r->block == 8)
        scale_kind_8(r, relu);
    else
        scale_kind_1(r, relu);
}

GWT_VECTOR static void back_sums(const row *r, int cut, float *sum, float *product)
{
    if (r->block == 16)
        back_kind_16(r, cut, sum, product);
    else if (r->block == 8)
        back_kind_8(r, cut, sum, product);
    else
        back_kind_1(r, cut, sum, product);
}

GWT_VECTOR static void back_input(const row *r, int cut)
{
    if (r->block == 16)
        din_kind_16(r, cut);
    else if (r->block == 8)
        din_kind_8(r, cut);
    else
        din_kind_1(r, cut);
}

/* ---- over all rows ------------------------------------------------------------------
 */

static size_t pixels_of(const gwt_norm *n)
{
    return n->shape.height * n->shape.width;
}

/* What forward leaves for backward, a vector each. */
static float *saved(const gwt_norm *n, int which)
{
    return n->saved + (size_t)which * n->shape.channels;
}
enum { MEAN, SCALE, OFFSET, INVERSE };

/* Where the row of the block that begins with channel c is, in sample i. */
static size_t at(const gwt_norm *n, size_t i, size_t c)
{
    return i * gwt_shape_floats(n->shape) + c * pixels_of(n);
}

/* Mean and variance (with n) of the block that begins with channel c. */
static void measure(const gwt_norm *n, size_t batch, const float *in, size_t c,
                    double *mean, double *var)
{
    size_t B = n->block, pixels = pixels_of(n);
    double m = (double)(batch * pixels), total[LANES] = {0}, squares[LANES] = {0};
    float shift[LANES], sum[LANES], square[LANES];

    for (size_t l = 0; l < B; l++)
        shift[l] = in[at(n, 0, c) + l];
    for (size_t i = 0; i < batch; i++) {
        sums(in + at(n, i, c), shift, pixels, B, sum, square);
        for (size_t l = 0; l < B; l++) {
            total[l] += (double)sum[l];
            squares[l] += (double)square[l];
        }
    }
    for (size_t l = 0; l < B; l++) {
        double d = total[l] / m, v = squares[l] / m - d * d;
        mean[l] = (double)shift[l] + d;
        var[l] = v < 0.0 ? 0.0 : v;
    }
}

/* A step whose batch holds NaN can be skipped; it must leave nothing behind. */
static void remember(const gwt_norm *n, size_t c, double mean, double var, double m)
{
    float *running = n->stats + c, *variance = n->stats + n->shape.channels + c;
    double unbiased = m > 1.0 ? var * m / (m - 1.0) : var;

    if (!isfinite(mean) || !isfinite(var))
        return;
    *running = (float)((1.0 - momentum) * (double)*running + momentum * mean);
    *variance = (float)((1.0 - momentum) * (double)*variance + momentum * unbiased);
}

static void keep(const gwt_norm *n, size_t c, double mean, double var)
{
    double inverse = 1.0 / sqrt(var + epsilon), k = (double)n->weight[c] * inverse;

    saved(n, MEAN)[c] = (float)mean;
    saved(n, SCALE)[c] = (float)k;
    saved(n, OFFSET)[c] = (float)((double)n->bias[c] - mean * k);
    saved(n, INVERSE)[c] = (float)inverse;
}

/* Sets what is saved of the block that begins with channel c. */
static void prepare(const gwt_norm *n, const gwt_pass *pass, const float *in, size_t c)
{
    size_t B = n->block, channels = n->shape.channels;
    double mean[LANES], var[LANES], m = (double)(pass->batch * pixels_of(n));

    if (pass->training)
        measure(n, pass->batch, in, c, mean, var);
    for (size_t l = 0; l < B; l++) {
        if (pass->training) {
            remember(n, c + l, mean[l], var[l], m);
        } else {
            mean[l] = (double)n->stats[c + l];
            var[l] = (double)n->stats[channels + c + l];
        }
        keep(n, c + l, mean[l], var[l]);
    }
}

void gwt_norm_begin(const gwt_norm *n)
{
    for (size_t c = 0; c < n->shape.channels; c++) {
        n->stats[c] = 0.0f;
        n->stats[n->shape.channels + c] = 1.0f;
    }
}

void gwt_norm_forward(const gwt_norm *n, const gwt_pass *pass, const float *in,
                      const float *add, float *out)
{
    size_t B = n->block;

    for (size_t c = 0; c < n->shape.channels; c += B) {
        prepare(n, pass, in, c);
        for (size_t i = 0; i < pass->batch; i++) {
            size_t here = at(n, i, c);
            row r = {.in = in + here,
                     .more = add == NULL ? NULL : add + here,
                     .out = out + here,
                     .pixels = pixels_of(n),
                     .block = B,
                     .scale = saved(n, SCALE) + c,
                     .offset = saved(n, OFFSET) + c};
            scale(&r, n->relu);
        }
    }
}

static row row_back(const gwt_norm *n, size_t i, size_t c, const float *in, float *dout)
{
    return (row){.in = in + at(n, i, c),
                 .dout = dout + at(n, i, c),
                 .pixels = pixels_of(n),
                 .block = n->block,
                 .mean = saved(n, MEAN) + c,
                 .scale = saved(n, SCALE) + c,
                 .offset = saved(n, OFFSET) + c};
}

/* Sets the derivatives by weight and bias of a block, and the factors of din. */
static void back_block(const gwt_norm *n, size_t batch, size_t c, const float *in,
                       const float *out, float *dout, float *a, float *b)
{
    size_t B = n->block;
    double m = (double)(batch * pixels_of(n)), total[LANES] = {0},
           products[LANES] = {0};
    float sum[LANES], product[LANES];
    int cut = !n->relu ? NONE : out == NULL ? FROM_IN : FROM_OUT;

    for (size_t i = 0; i < batch; i++) {
        row r = row_back(n, i, c, in, dout);
        r.more = out == NULL ? NULL : out + at(n, i, c);
        back_sums(&r, cut, sum, product);
        for (size_t l = 0; l < B; l++) {
            total[l] += (double)sum[l];
            products[l] += (double)product[l];
        }
    }
    for (size_t l = 0; l < B; l++) {
        double k = (double)saved(n, SCALE)[c + l];
        double inverse = (double)saved(n, INVERSE)[c + l];
        n->dbias[c + l] = (float)total[l];
        n->dweight[c + l] = (float)(products[l] * inverse);
        a[l] = (float)(-k * inverse * inverse * products[l] / m);
        b[l] = (float)(-k * total[l] / m);
    }
}

void gwt_norm_backward(const gwt_norm *n, const gwt_pass *pass, const float *in,
                       const float *out, float *dout, float *din)
{
    size_t B = n->block;
    float a[LANES], b[LANES];

    for (size_t c = 0; c < n->shape.channels; c += B) {
        back_block(n, pass->batch, c, in, out, dout, a, b);
        for (size_t i = 0; i < pass->batch; i++) {
            row r = row_back(n, i, c, in, dout);
            r.din = din + at(n, i, c);
            r.a = a;
            r.b = b;
            back_input(&r, n->relu && out == NULL);
        }
    }
}
