/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_average.c - the mean of every channel over all pixels.
 *
 *     in  batch x C x H x W     out  batch x C
 */
#include "layers/layer.h"

static gw_status plan_average(gwt_layer *layer)
{
    layer->out = (gwt_shape){layer->in.channels, 1, 1};
    return GW_OK;
}

/* in: pixels x B. */
GWT_VECTOR static void mean(const float *restrict in, float *restrict out,
                            size_t pixels, size_t B, float scale)
{
    for (size_t l = 0; l < B; l++)
        out[l] = 0.0f;
    for (size_t p = 0; p < pixels; p++)
        for (size_t l = 0; l < B; l++)
            out[l] += in[p * B + l];
    for (size_t l = 0; l < B; l++)
        out[l] *= scale;
}

GWT_VECTOR static void spread(const float *restrict dout, float *restrict din,
                              size_t pixels, size_t B, float scale)
{
    for (size_t p = 0; p < pixels; p++)
        for (size_t l = 0; l < B; l++)
            din[p * B + l] = dout[l] * scale;
}

static gw_status forward_average(const gwt_layer *layer, const gwt_pass *pass,
                                 const float *in, float *out)
{
    size_t B = layer->in_block;
    size_t pixels = layer->in.height * layer->in.width;

    for (size_t i = 0; i < pass->batch * layer->in.channels; i += B)
        mean(in + i * pixels, out + i, pixels, B, 1.0f / (float)pixels);
    return GW_OK;
}

static gw_status backward_average(const gwt_layer *layer, const gwt_pass *pass,
                                  const float *in, const float *out, float *dout,
                                  float *din)
{
    size_t B = layer->in_block;
    size_t pixels = layer->in.height * layer->in.width;

    (void)in;
    (void)out;
    if (din == NULL)
        return GW_OK;
    for (size_t i = 0; i < pass->batch * layer->in.channels; i += B)
        spread(dout + i, din + i * pixels, pixels, B, 1.0f / (float)pixels);
    return GW_OK;
}

const gwt_layer_type gwt_layer_average = {
    .name = "average",
    .plan = plan_average,
    .forward = forward_average,
    .backward = backward_average,
};
