/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.h - what layers do to matrices row by row, besides products: biases, ReLU
 * and sums of columns. Sums have a fixed order. */
#ifndef GWT_ROWS_H
#define GWT_ROWS_H

#include "common.h"

/* x (rows x n) += bias, in every row; with relu then max(0, x), which keeps NaN. */
void gwt_add_bias(float *x, const float *bias, size_t n, size_t rows);
void gwt_add_bias_relu(float *x, const float *bias, size_t n, size_t rows);

/* sum (n) = the sums of d's columns (d is rows x n); with relu d is set to 0 first
 * where out, the result of gwt_add_bias_relu(), is not above 0. */
void gwt_sum_columns(float *sum, const float *d, size_t n, size_t rows);
void gwt_sum_columns_relu(float *sum, float *d, const float *out, size_t n,
                          size_t rows);

#endif
