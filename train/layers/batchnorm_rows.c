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

/* ---- forward ----------------------------------------------------------------------
 */

/* Sums of (x - shift) and its square. A shift near the mean keeps their difference
 * exact enough for a variance. */
ROW void sum_row(const float *restrict x, const float *restrict shift, size_t pixels,
                 size_t B, float *restrict sum, float *restrict square)
{
    float s[2][LANES] = {{0}}, q[2][LANES] = {{0}};

    for (size_t p = 0; p + 2 <= pixels; p += 2, x += 2 * B)
        for (size_t l = 0; l < B; l++) {
            float u = x[l] - shift[l], v = x[B + l] - shift[l];
            s[0][l] += u;
            q[0][l] += u * u;
            s[1][l] += v;
            q[1][l] += v * v;
        }
    for (size_t l = 0; l < B; l++) {
        float u = pixels % 2 ? x[l] - shift[l] : 0.0f;
        sum[l] = s[0][l] + s[1][l] + u;
        square[l] = q[0][l] + q[1][l] + u * u;
    }
}

GWT_VECTOR static void sums(const float *x, const float *shift, size_t pixels,
                            size_t block, float *sum, float *square)
{
    if (block == 16)
        sum_row(x, shift, pixels, 16, sum, square);
    else if (block == 8)
        sum_row(x, shift, pixels, 8, sum, square);
    else
        sum_row(x, shift, pixels, 1, sum, square);
}

/* NaN is not below 0 and stays. */
ROW void scale_row(const row *r, size_t B, int add, int relu)
{
    const float *restrict x = r->in, *restrict more = r->more;
    float *restrict out = r->out;
    float a[LANES], b[LANES];

    for (size_t l = 0; l < B; l++) {
        a[l] = r->scale[l];
        b[l] = r->offset[l];
    }
    for (size_t p = 0; p < r->pixels; p++)
        for (size_t l = 0; l < B; l++) {
            float y = x[p * B + l] * a[l] + b[l];
            if (add)
                y += more[p * B + l];
            out[p * B + l] = relu && y < 0.0f ? 0.0f : y;
        }
}

ROW void scale_kind(const row *r, size_t B, int relu)
{
    if (r->more != NULL && relu)
        scale_row(r, B, 1, 1);
    else if (r->more != NULL)
        scale_row(r, B, 1, 0);
    else if (relu)
        scale_row(r, B, 0, 1);
    else
        scale_row(r, B, 0, 0);
}

GWT_VECTOR static void scale(const row *r, int relu)
{
    if (r->block == 16)
        scale_kind(r, 16, relu);
    else if (r->block == 8)
        scale_kind(r, 8, relu);
    else
        scale_kind(r, 1, relu);
}

/* ---- backward ---------------------------------------------------------------------
 */

/* What tells which outputs were cut off. */
enum { NONE, FROM_IN, FROM_OUT };

/* Sums of g and of g (x - mean). FROM_OUT also replaces dout by g. */
ROW void back_row(const row *r, size_t B, int cut, float *restrict sum,
                  float *restrict product)
{
    const float *restrict x = r->in, *restrict out = r->more;
    float *restrict dout = r->dout;
    float s[LANES] = {0}, q[LANES] = {0}, mean[LANES], a[LANES], b[LANES];

    for (size_t l = 0; l < B; l++) {
        mean[l] = r->mean[l];
        a[l] = r->scale[l];
        b[l] = r->offset[l];
    }
    for (size_t p = 0; p < r->pixels; p++)
        for (size_t l = 0; l < B; l++) {
            size_t i = p * B + l;
            float g = dout[i];
            if (cut == FROM_IN)
                g = x[i] * a[l] + b[l] > 0.0f ? g : 0.0f;
            if (cut == FROM_OUT)
                dout[i] = g = out[i] > 0.0f ? g : 0.0f;
            s[l] += g;
            q[l] += g * (x[i] - mean[l]);
        }
    for (size_t l = 0; l < B; l++) {
        sum[l] = s[l];
        product[l] = q[l];
    }
}

ROW void back_kind(const row *r, size_t B, int cut, float *sum, float *product)
{
    if (cut == FROM_IN)
        back_row(r, B, FROM_IN, sum, product);
    else if (cut == FROM_OUT)
        back_row(r, B, FROM_OUT, sum, product);
    else
        back_row(r, B, NONE, sum, product);
}

GWT_VECTOR static void back_sums(const row *r, int cut, float *sum, float *product)
{
    if (r->block == 16)
        back_kind(r, 16, cut, sum, product);
    else if (r->block == 8)
        back_kind(r, 8, cut, sum, product);
    else
        back_kind(r, 1, cut, sum, product);
}

/* din = scale g + a (x - mean) + b. din may lie where x or dout does: every element
 * depends on those of its own place alone. */
ROW void din_row(const row *r, size_t B, int cut)
{
    float mean[LANES], k[LANES], o[LANES], a[LANES], b[LANES];

    for (size_t l = 0; l < B; l++) {
        mean[l] = r->mean[l];
        k[l] = r->scale[l];
        o[l] = r->offset[l];
        a[l] = r->a[l];
        b[l] = r->b[l];
    }
    for (size_t p = 0; p < r->pixels; p++) {
        const float *x = r->in + p * B, *dout = r->dout + p * B;
        float *din = r->din + p * B;
#if !defined(__clang__)
#pragma GCC ivdep
#endif
        for (size_t l = 0; l < B; l++) {
            float g = dout[l];
            if (cut)
                g = x[l] * k[l] + o[l] > 0.0f ? g : 0.0f;
            din[l] = k[l] * g + (a[l] * (x[l] - mean[l]) + b[l]);
        }
    }
}

ROW void din_kind(const row *r, size_t B, int cut)
{
    if (cut)
        din_row(r, B, 1);
    else
        din_row(r, B, 0);
}

GWT_VECTOR static void back_input(const row *r, int cut)
{
    if (r->block == 16)
        din_kind(r, 16, cut);
    else if (r->block == 8)
        din_kind(r, 8, cut);
    else
        din_kind(r, 1, cut);
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
