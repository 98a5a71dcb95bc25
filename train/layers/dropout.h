/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout.h - which values a layer drops in a step. */
#ifndef GWT_DROPOUT_H
#define GWT_DROPOUT_H

#include "layers/layer.h"

/* Whether anything is dropped in this pass. */
int gwt_dropout_on(const gwt_pass *pass);

/* Sets mask[i] for the pass->batch x n values of the layer: 0 where dropped, else
 * 1 / (1 - dropout), so that the mean stays. The same for the same seed, step,
 * worker and layer. */
void gwt_dropout_mask(const gwt_layer *layer, const gwt_pass *pass, size_t n,
                      float *mask);

/* The end of a branch beside a shortcut: out = in + mask * (out + bias), row by row
 * of the width of the layer's input. mask, as large as out, is set if anything is
 * dropped in the pass and left alone if not. */
void gwt_dropout_branch(const gwt_layer *layer, const gwt_pass *pass, const float *in,
                        const float *bias, float *mask, float *out);

/* Its derivative: returns the derivative by the branch, which is dout itself, or is
 * written to mask and overwrites it. */
const float *gwt_dropout_branch_back(const gwt_layer *layer, const gwt_pass *pass,
                                     const float *dout, float *mask);

/* out = a * b, value by value; out may be a or b. */
void gwt_multiply(float *out, const float *a, const float *b, size_t n);

#endif
