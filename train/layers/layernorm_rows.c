/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm_rows.c - the arithmetic of layer norm. */
#include "layers/layernorm_rows.h"

#include <math.h>

enum { LANES = 16 };

static const float epsilon = 1e-5f; /* as PyTorch's */

/* Sums side by side, added up in the end: the order is the same on every machine. */
GWT_VECTOR static float sum(const float *x, size_t n)
{
    float lane[LANES] = {0}, total = 0.0f;
    size_t j = 0;

    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += x[j + l];
    for (size_t l = 0; j < n; j++, l++)
        lane[l] += x[j];
    for (size_t l = 0; l < LANES; l++)
        total += lane[l];
    return total;
}

/* The sum of (x - a) (y - b). */
GWT_VECTOR static float sum_products(const float *x, float a, const float *y, float b,
                                     size_t n)
{
    float lane[LANES] = {0}, total = 0.0f;
    size_t j = 0;

    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (x[j + l] - a) * (y[j + l] - b);
    for (size_t l = 0; j < n; j++, l++)
        lane[l] += (x[j] - a) * (y[j] - b);
    for (size_t l = 0; l < LANES; l++)
        total += lane[l];
    return total;
}

GWT_VECTOR static void norm_row(float *restrict out, const float *restrict x,
                                const float *restrict weight,
                                const float *restrict bias, float mean, float scale,
                                size_t n)
{
    for (size_t j = 0; j < n; j++)
        out[j] = (x[j] - mean) * scale * weight[j] + bias[j];
}

void gwt_layernorm_rows(float *out, const float *x, const float *weight,
                        const float *bias, float *stat, size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * n;
        float mean = sum(row, n) / (float)n;
        float variance = sum_products(row, mean, row, mean, n) / (float)n;
        float scale = 1.0f / sqrtf(variance + epsilon);
        norm_row(out + i * n, row, weight, bias, mean, scale, n);
        stat[2 * i] = mean;
        stat[2 * i + 1] = scale;
    }
}

/* One row: adds to dweight and dbias, and writes dout * weight to d. */
GWT_VECTOR static void norm_row_sums(float *restrict d, float *restrict dweight,
                                     float *restrict dbias, const float *restrict dout,
                                     const float *restrict x,
                                     const float *restrict weight, float mean,
                                     float scale, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        dweight[j] += dout[j] * ((x[j] - mean) * scale);
        dbias[j] += dout[j];
        d[j] = dout[j] * weight[j];
    }
}

/* d = scale * (d - centre - (x - mean) * slope) */
GWT_VECTOR static void norm_row_back(float *restrict d, const float *restrict x,
                                     float mean, float scale, float centre, float slope,
                                     size_t n)
{
    for (size_t j = 0; j < n; j++)
        d[j] = scale * (d[j] - centre - (x[j] - mean) * slope);
}

GWT_VECTOR static void add_to(float *restrict x, const float *restrict y, size_t n)
{
    for (size_t j = 0; j < n; j++)
        x[j] += y[j];
}

void gwt_layernorm_rows_back(float *din, float *dweight, float *dbias,
                             const float *dout, const float *x, const float *weight,
                             const float *stat, const float *add, size_t n, size_t rows)
{
    for (size_t j = 0; j < n; j++)
        dweight[j] = dbias[j] = 0.0f;
    for (size_t i = 0; i < rows; i++) {
        const float *row = x + i * n;
        float *d = din + i * n, mean = stat[2 * i], scale = stat[2 * i + 1];
        norm_row_sums(d, dweight, dbias, dout + i * n, row, weight, mean, scale, n);
        float centre = sum(d, n) / (float)n;
        float slope = sum_products(d, 0.0f, row, mean, n) / (float)n * scale * scale;
        norm_row_back(d, row, mean, scale, centre, slope, n);
        if (add != NULL)
            add_to(d, add + i * n, n);
    }
}
