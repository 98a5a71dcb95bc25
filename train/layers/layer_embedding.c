/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_embedding.c - a vector for each token, looked up, and if asked one for its
 * place in the row.
 *
 *     in   batch x T          token numbers, whole floats below C
 *     out  batch x T x N      weight  C x N     position  T x N
 *
 *     out[b][t] = weight[in[b][t]] (+ position[t])
 *
 * The gradient is dense: rows of tokens that did not occur are 0. An invalid token (NaN
 * or too large) becomes a row of NaN, so that the error is noticed. */
#include "layers/layer.h"

#include <math.h>
#include <string.h>

static gw_status plan_embedding(gwt_layer *layer)
{
    size_t steps = layer->in.channels, units = layer->spec->units;

    if (steps == 0 || gwt_shape_floats(layer->in) != steps)
        return gw_fail(GW_ERR_ARG, "layer %s needs rows of tokens, not %zux%zux%zu",
                       layer->spec->name, steps, layer->in.height, layer->in.width);
    layer->out = (gwt_shape){steps, 1, units};
    layer->params = layer->spec->positions ? 2 : 1;
    layer->tensor[0] = (gwt_param){"weight", layer->classes, units, 0.1, 0.0};
    layer->tensor[1] = (gwt_param){"position", steps, units, 0.1, 0.0};
    return GW_OK;
}

/* The row of that token, or C if there is none. */
static size_t row_of(const gwt_layer *layer, float token)
{
    return token >= 0.0f && token < (float)layer->classes ? (size_t)token
                                                          : layer->classes;
}

static void add_row(float *restrict to, const float *restrict from, size_t n)
{
    for (size_t j = 0; j < n; j++)
        to[j] += from[j];
}

static gw_status forward_embedding(const gwt_layer *layer, const gwt_pass *pass,
                                   const float *in, float *out)
{
    size_t steps = layer->in.channels, n = layer->out.width;
    const float *position = layer->param + layer->classes * n;

    for (size_t i = 0; i < pass->batch * steps; i++) {
        size_t row = row_of(layer, in[i]);
        if (row < layer->classes)
            memcpy(out + i * n, layer->param + row * n, n * sizeof *out);
        else
            for (size_t j = 0; j < n; j++)
                out[i * n + j] = NAN;
        if (layer->spec->positions)
            add_row(out + i * n, position + i % steps * n, n);
    }
    return GW_OK;
}

static gw_status backward_embedding(const gwt_layer *layer, const gwt_pass *pass,
                                    const float *in, const float *out, float *dout,
                                    float *din)
{
    size_t steps = layer->in.channels, n = layer->out.width;
    float *dposition = layer->grad + layer->classes * n;

    (void)out;
    (void)din; /* tokens have no derivative */
    memset(layer->grad, 0, layer->classes * n * sizeof *dout);
    if (layer->spec->positions)
        memset(dposition, 0, steps * n * sizeof *dout);
    for (size_t i = 0; i < pass->batch * steps; i++) {
        size_t row = row_of(layer, in[i]);
        if (row < layer->classes)
            add_row(layer->grad + row * n, dout + i * n, n);
        if (layer->spec->positions)
            add_row(dposition + i % steps * n, dout + i * n, n);
    }
    return GW_OK;
}

const gwt_layer_type gwt_layer_embedding = {
    .name = "embedding",
    .plan = plan_embedding,
    .forward = forward_embedding,
    .backward = backward_embedding,
};
