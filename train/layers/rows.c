/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - biases, ReLU and sums of columns of matrices. */
#include "layers/rows.h"

GWT_VECTOR void gwt_add_bias(float *restrict out, const float *restrict bias, size_t n,
                             size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            out[i * n + j] += bias[j];
}

GWT_VECTOR void gwt_add_bias_relu(float *restrict out, const float *restrict bias,
                                  size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            float x = out[i * n + j] + bias[j];
            /* Written so that NaN stays NaN and is noticed further on. */
            out[i * n + j] = x < 0.0f ? 0.0f : x;
        }
}

GWT_VECTOR void gwt_sum_columns(float *restrict sum, const float *restrict d, size_t n,
                                size_t rows)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = d[j];
    for (size_t i = 1; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            sum[j] += d[i * n + j];
}

/* The same, and in the same pass the derivative of the cut-off. */
GWT_VECTOR void gwt_sum_columns_relu(float *restrict sum, float *restrict d,
                                     const float *restrict out, size_t n, size_t rows)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = 0.0f;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++) {
            float x = out[i * n + j] > 0.0f ? d[i * n + j] : 0.0f;
            d[i * n + j] = x;
            sum[j] += x;
        }
}
