/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_flatten.c - images become vectors, channel by channel, for layers that know
 * nothing of blocks.
 *
 *     in  batch x C x H x W, blocked or not     out  batch x (C H W)
 */
#include "layers/layer.h"

static gw_status plan_flatten(gwt_layer *layer)
{
    layer->out = (gwt_shape){gwt_shape_floats(layer->in), 1, 1};
    return GW_OK;
}

/* from: n x m, to: m x n. */
static void turn(const float *restrict from, float *restrict to, size_t n, size_t m)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            to[j * n + i] = from[i * m + j];
}

static gw_status forward_flatten(const gwt_layer *layer, const gwt_pass *pass,
                                 const float *in, float *out)
{
    size_t B = layer->in_block;
    size_t pixels = layer->in.height * layer->in.width;
    size_t floats = pass->batch * gwt_shape_floats(layer->in);

    for (size_t at = 0; at < floats; at += pixels * B)
        turn(in + at, out + at, pixels, B);
    return GW_OK;
}

static gw_status backward_flatten(const gwt_layer *layer, const gwt_pass *pass,
                                  const float *in, const float *out, float *dout,
                                  float *din)
{
    size_t B = layer->in_block;
    size_t pixels = layer->in.height * layer->in.width;
    size_t floats = pass->batch * gwt_shape_floats(layer->in);

    (void)in;
    (void)out;
    if (din == NULL)
        return GW_OK;
    for (size_t at = 0; at < floats; at += pixels * B)
        turn(dout + at, din + at, B, pixels);
    return GW_OK;
}

const gwt_layer_type gwt_layer_flatten = {
    .name = "flatten",
    .plan = plan_flatten,
    .forward = forward_flatten,
    .backward = backward_flatten,
};
