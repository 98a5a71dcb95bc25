/* SPDX-License-Identifier: Apache-2.0
 *
 * compute.h - the heavy arithmetic of the trainer. The files compute_*.c implement
 * it, and they alone know which engine does the work. */
#ifndef GWT_COMPUTE_H
#define GWT_COMPUTE_H

#include "layers/layer.h"

/* Sets the number of threads that this worker computes with (at least 1). Each worker
 * calls it for itself, never before a fork: if a parent has computed with threads, the
 * engine in its children waits for threads that they do not have. */
void gwt_compute_threads(int threads);

/* "oneDNN 2.6.3", for lists. Static. */
const char *gwt_compute_name(void);

/* One matrix of a product: row by row in memory, ld floats from one row to the
 * next. With `turned` the product uses its transpose. */
typedef struct gwt_operand {
    const float *at;
    size_t ld;
    int turned;
} gwt_operand;

/* c (m x n, ldc floats from row to row) = a (m x k) * b (k x n), where m, k and
 * n are the sizes after turning. Fails if the engine does (GW_ERR_SYSTEM). */
gw_status gwt_matmul(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                     float *c, size_t ldc);

/* The same, added to what c holds. */
gw_status gwt_matmul_add(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                         float *c, size_t ldc);

/* The best number of channels side by side on this CPU (see gwt_layer); 1: plain. */
size_t gwt_compute_block(void);

/* A convolution: each output is a weighted sum over a square window of the input,
 * which is padded with zeros. Weights are plain:
 * out.channels x in.channels x kernel x kernel. */
typedef struct gwt_conv_options {
    gwt_shape in, out;
    size_t in_block, out_block;
    size_t kernel, stride, padding;
    int bias;
} gwt_conv_options;

typedef struct gwt_conv gwt_conv;

/* Prepares a convolution. What depends on the batch size is made at the first batch of
 * that size and kept. GW_ERR_NOMEM, GW_ERR_SYSTEM. */
gw_status gwt_conv_new(gwt_conv **out, const gwt_conv_options *options);
void gwt_conv_free(gwt_conv *conv);

/* out from in; bias is NULL where the convolution has none. */
gw_status gwt_conv_forward(gwt_conv *conv, size_t batch, const float *in,
                           const float *weight, const float *bias, float *out);

/* From dout, the derivative by out: sets dweight, dbias unless there is none, and din
 * unless it is NULL. */
gw_status gwt_conv_backward(gwt_conv *conv, size_t batch, const float *in,
                            const float *weight, const float *dout, float *dweight,
                            float *dbias, float *din);

#endif
