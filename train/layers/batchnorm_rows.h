/* SPDX-License-Identifier: Apache-2.0
 *
 * batchnorm_rows.h - the arithmetic of batch normalisation, for the layers that contain
 * one.
 *
 *     mean, var   of a channel, over all pixels of all samples of the batch
 *     out = (in - mean) / sqrt(var + eps) * weight + bias        [+ add]
 *
 * In evaluation mean and var are the running ones, which training has gathered:
 * running = 0.9 running + 0.1 of the batch, the variance with n - 1. */
#ifndef GWT_BATCHNORM_ROWS_H
#define GWT_BATCHNORM_ROWS_H

#include "layers/layer.h"

/* Per channel: two parameters (weight, bias), two statistics (running mean and
 * variance), and what forward leaves for backward. */
enum { GWT_NORM_STATS = 2, GWT_NORM_SAVED = 4 };

typedef struct gwt_norm {
    gwt_shape shape;
    size_t block;
    int relu; /* max(0, x) is applied last */
    const float *weight, *bias;
    float *dweight, *dbias;
    float *stats; /* GWT_NORM_STATS x channels */
    float *saved; /* GWT_NORM_SAVED x channels */
} gwt_norm;

/* Statistics before the first step: mean 0, variance 1. */
void gwt_norm_begin(const gwt_norm *n);

/* out from in, and from add (which has the shape of out) unless that is NULL. */
void gwt_norm_forward(const gwt_norm *n, const gwt_pass *pass, const float *in,
                      const float *add, float *out);

/* Sets dweight, dbias and din. Without add, out is NULL, and ReLU is computed from in
 * again. With add, out is that of forward(), and dout becomes the derivative by the sum
 * before ReLU, which is also the derivative by add. din may be in or dout. */
void gwt_norm_backward(const gwt_norm *n, const gwt_pass *pass, const float *in,
                       const float *out, float *dout, float *din);

#endif
