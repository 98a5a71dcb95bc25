/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_batchnorm.c - every channel is brought to mean 0 and variance 1 over the
 * batch, then scaled and shifted, and cut off below 0 if asked; batchnorm_rows.h has
 * the arithmetic.
 *
 *     in, out  batch x C x H x W     weight, bias  1 x C
 *     stats    running mean C, running variance C
 *     work     mean, scale, offset, 1/deviation: C each
 */
#include "layers/batchnorm_rows.h"

static gw_status plan_batchnorm(gwt_layer *layer)
{
    size_t channels = layer->in.channels;

    layer->out = layer->in;
    layer->out_block = layer->in_block;
    layer->params = 2;
    layer->tensor[0] = (gwt_param){"weight", 1, channels, 0.0, 1.0};
    layer->tensor[1] = (gwt_param){"bias", 1, channels, 0.0, 0.0};
    layer->stats_floats = GWT_NORM_STATS * channels;
    layer->work_floats = GWT_NORM_SAVED * channels;
    return GW_OK;
}

static gwt_norm norm_of(const gwt_layer *layer)
{
    size_t channels = layer->in.channels;

    return (gwt_norm){
        .shape = layer->in,
        .block = layer->in_block,
        .relu = layer->spec->relu,
        .weight = layer->param,
        .bias = layer->param + channels,
        .dweight = layer->grad,
        .dbias = layer->grad + channels,
        .stats = layer->stats,
        .saved = layer->work,
    };
}

static void begin_batchnorm(gwt_layer *layer)
{
    gwt_norm n = norm_of(layer);

    gwt_norm_begin(&n);
}

static gw_status forward_batchnorm(const gwt_layer *layer, const gwt_pass *pass,
                                   const float *in, float *out)
{
    gwt_norm n = norm_of(layer);

    gwt_norm_forward(&n, pass, in, NULL, out);
    return GW_OK;
}

/* As the first layer it gets no din; then it writes to dout instead. */
static gw_status backward_batchnorm(const gwt_layer *layer, const gwt_pass *pass,
                                    const float *in, const float *out, float *dout,
                                    float *din)
{
    gwt_norm n = norm_of(layer);

    (void)out;
    gwt_norm_backward(&n, pass, in, NULL, dout, din != NULL ? din : dout);
    return GW_OK;
}

const gwt_layer_type gwt_layer_batchnorm = {
    .name = "batchnorm",
    .plan = plan_batchnorm,
    .begin = begin_batchnorm,
    .forward = forward_batchnorm,
    .backward = backward_batchnorm,
};
