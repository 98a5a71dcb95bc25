/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_conv.c - every output is a weighted sum over a K x K window of all input
 * channels, plus a bias, cut off below 0 if asked. The image is padded with zeros so
 * that stride 1 keeps its size.
 *
 *     in   batch x I x H x W                  weight  O x (I K K)
 *     out  batch x O x H/stride x W/stride    bias    1 x O
 *
 * Outputs are blocked wherever their channels allow it (gwt_layer).
 */
#include "layers/compute.h"

#include <math.h>

static gwt_conv_options options_of(const gwt_layer *layer)
{
    const gwt_layer_spec *spec = layer->spec;

    return (gwt_conv_options){
        .in = layer->in,
        .out = layer->out,
        .in_block = layer->in_block,
        .out_block = layer->out_block,
        .kernel = spec->kernel,
        .stride = spec->stride != 0 ? spec->stride : 1,
        .padding = spec->kernel / 2,
        .bias = !spec->no_bias,
    };
}

static gw_status plan_conv(gwt_layer *layer)
{
    const gwt_layer_spec *spec = layer->spec;
    size_t stride = spec->stride != 0 ? spec->stride : 1;
    size_t block = gwt_compute_block(),
           fan = layer->in.channels * spec->kernel * spec->kernel;

    if (spec->kernel % 2 != 1 || gwt_shape_floats(layer->in) == 0)
        return gw_fail(GW_ERR_ARG,
                       "layer %s: the window of %zu pixels must have an odd width",
                       spec->name, spec->kernel);
    layer->out = (gwt_shape){
        .channels = spec->units,
        .height = (layer->in.height - 1) / stride + 1,
        .width = (layer->in.width - 1) / stride + 1,
    };
    layer->out_block = spec->units % block == 0 ? block : 1;
    layer->params = spec->no_bias ? 1 : 2;
    /* He's bound: half of the outputs will be cut off, here or after the next
     * layer. */
    layer->tensor[0] =
        (gwt_param){"weight", spec->units, fan, sqrt(6.0 / (double)fan), 0.0};
    layer->window[0] = spec->kernel;
    layer->tensor[1] = (gwt_param){"bias", 1, spec->units, 0.0, 0.0};
    return GW_OK;
}

static gw_status open_conv(gwt_layer *layer)
{
    gwt_conv_options options = options_of(layer);
    gwt_conv *conv;

    GWT_TRY(gwt_conv_new(&conv, &options));
    layer->engine = conv;
    return GW_OK;
}

static void close_conv(gwt_layer *layer)
{
    gwt_conv_free(layer->engine);
}

/* Written so that NaN stays NaN and is noticed further on. */
GWT_VECTOR static void cut_off(float *restrict x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

GWT_VECTOR static void cut_off_back(float *restrict d, const float *restrict out,
                                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        d[i] = out[i] > 0.0f ? d[i] : 0.0f;
}

static size_t weights(const gwt_layer *layer)
{
    return layer->tensor[0].rows * layer->tensor[0].cols;
}

static gw_status forward_conv(const gwt_layer *layer, const gwt_pass *pass,
                              const float *in, float *out)
{
    const float *bias = layer->spec->no_bias ? NULL : layer->param + weights(layer);

    GWT_TRY(gwt_conv_forward(layer->engine, pass->batch, in, layer->param, bias, out));
    if (layer->spec->relu)
        cut_off(out, pass->batch * gwt_shape_floats(layer->out));
    return GW_OK;
}

static gw_status backward_conv(const gwt_layer *layer, const gwt_pass *pass,
                               const float *in, const float *out, float *dout,
                               float *din)
{
    float *dbias = layer->spec->no_bias ? NULL : layer->grad + weights(layer);

    if (layer->spec->relu)
        cut_off_back(dout, out, pass->batch * gwt_shape_floats(layer->out));
    return gwt_conv_backward(layer->engine, pass->batch, in, layer->param, dout,
                             layer->grad, dbias, din);
}

const gwt_layer_type gwt_layer_conv = {
    .name = "conv",
    .plan = plan_conv,
    .open = open_conv,
    .close = close_conv,
    .forward = forward_conv,
    .backward = backward_conv,
};
