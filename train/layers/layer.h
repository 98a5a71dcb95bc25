/* SPDX-License-Identifier: Apache-2.0
 *
 * layer.h - what a layer is. One kind of layer = one file whose only external
 * symbol is its gwt_layer_type; a model (models.c) is a list of layers.
 *
 * Everything between layers is a matrix of floats, one row per sample:
 *
 *     in  batch x floats(layer->in)       out  batch x floats(layer->out)
 *
 * A sample of text is a row of T tokens, first as T numbers {T, 1, 1}, then as T
 * vectors of N floats one after the other, {T, 1, N}. */
#ifndef GWT_LAYER_H
#define GWT_LAYER_H

#include "shape.h"

/* One parameter tensor, and how it begins: uniform in [value - bound, value + bound].
 */
typedef struct gwt_param {
    const char *name; /* "weight"; the tensor is called "<layer>.weight" */
    size_t rows, cols;
    double bound, value;
} gwt_param;

enum { GWT_PARAMS_MAX = 16 };

/* The step that a layer computes. Random numbers (dropout) depend on these counters,
 * never on earlier numbers. */
typedef struct gwt_pass {
    size_t batch;
    int training; /* 0: evaluation, which changes no statistics and drops nothing */
    uint64_t seed, step, worker;
    double dropout; /* share of the values that dropout layers drop in training */
} gwt_pass;

typedef struct gwt_layer_type gwt_layer_type;

/* One line of a model: which kind of layer, and its settings. */
typedef struct gwt_layer_spec {
    const gwt_layer_type *type;
    const char *name;
    unsigned number; /* follows the name where layers are alike; 0: it does not */
    size_t units;    /* dense, conv, residual: outputs; 0: one per class of the data */
    int relu;        /* dense, conv, batchnorm: whether max(0, x) is applied to them */
    size_t kernel;   /* conv, maxpool: pixels of the window, in height and in width */
    size_t stride;   /* conv, residual: pixels from window to window; 0: 1 */
    int no_bias;     /* conv: nothing is added to the weighted sums */
    int per_token;   /* dense: the same weights for each of the T tokens */
    int positions;   /* embedding: whether the place in the row adds a vector */
    size_t heads;    /* attention */
} gwt_layer_spec;

/* One layer of one model. The model owns all memory; plan() fills the middle
 * part and the model the last.
 *
 * Plain samples are stored channel by channel: channels x height x width. Between
 * layers of images that is slow, because a CPU needs the same pixel of several channels
 * side by side. There, samples are channels/block x height x width x block. */
typedef struct gwt_layer {
    const gwt_layer_spec *spec;
    gwt_shape in;
    size_t in_block; /* 1: plain; it divides the channels */
    size_t index;    /* of the layer in its model */
    size_t classes, max_batch;

    gwt_shape out;
    size_t out_block; /* 1 before plan() */
    size_t params;    /* tensors; they lie in param and grad one after the other */
    gwt_param tensor[GWT_PARAMS_MAX];
    size_t window[GWT_PARAMS_MAX]; /* of a convolution's weight, whose cols are channels
                                      x window x window; otherwise 0 */
    size_t work_floats;  /* what forward() leaves for backward(), besides in and out */
    size_t stats_floats; /* statistics of the data, averaged over the workers when the
                            model is evaluated; part of the model, but not trained */
    size_t carry_floats; /* what goes from one batch to the next (hidden states); each
                            worker's own */

    float *param, *grad;
    float *work, *stats, *carry; /* zeroed at first */
    void *engine;                /* open()'s, for close() */
} gwt_layer;

struct gwt_layer_type {
    const char *name;

    /* Sets out, params and tensor from spec and in. Pure. GW_ERR_ARG if the
     * settings do not fit the input. */
    gw_status (*plan)(gwt_layer *layer);

    /* Creates what the layer computes with (engine), once its memory is allocated.
     * close() is called even after a failure. Optional, like close(). */
    gw_status (*open)(gwt_layer *layer);
    void (*close)(gwt_layer *layer);

    /* Sets stats to what they are before the first step. Optional: zeros. */
    void (*begin)(gwt_layer *layer);

    /* Computes out from in, for the samples of the pass. */
    gw_status (*forward)(const gwt_layer *layer, const gwt_pass *pass, const float *in,
                         float *out);

    /* From dout, the derivative of the loss by out: sets grad, and din unless it
     * is NULL, as for the first layer. in and out are those of forward(); dout may
     * be overwritten. */
    gw_status (*backward)(const gwt_layer *layer, const gwt_pass *pass, const float *in,
                          const float *out, float *dout, float *din);
};

extern const gwt_layer_type gwt_layer_dense;
extern const gwt_layer_type gwt_layer_conv;
extern const gwt_layer_type gwt_layer_batchnorm;
extern const gwt_layer_type gwt_layer_residual;
extern const gwt_layer_type gwt_layer_maxpool;
extern const gwt_layer_type gwt_layer_average;
extern const gwt_layer_type gwt_layer_flatten;
extern const gwt_layer_type gwt_layer_embedding;
extern const gwt_layer_type gwt_layer_dropout;
extern const gwt_layer_type gwt_layer_lstm;
extern const gwt_layer_type gwt_layer_norm;
extern const gwt_layer_type gwt_layer_attention;
extern const gwt_layer_type gwt_layer_mlp;

#endif
