/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm_rows.h - the arithmetic of layer norm: each row of a matrix by itself.
 * Sums have a fixed order. */
#ifndef GWT_LAYERNORM_ROWS_H
#define GWT_LAYERNORM_ROWS_H

#include "common.h"

/* Every row of x gets mean 0 and variance 1, then is scaled and shifted:
 *
 *     out = (x - mean) / sqrt(variance + 1e-5) * weight + bias
 *
 * stat receives mean and 1 / sqrt(variance + 1e-5) of each row, for backward. */
void gwt_layernorm_rows(float *out, const float *x, const float *weight,
                        const float *bias, float *stat, size_t n, size_t rows);

/* From dout, the derivative by out: sets dweight and dbias, and din to the
 * derivative by x, plus the matrix `add` unless that is NULL. */
void gwt_layernorm_rows_back(float *din, float *dweight, float *dbias,
                             const float *dout, const float *x, const float *weight,
                             const float *stat, const float *add, size_t n,
                             size_t rows);

#endif
