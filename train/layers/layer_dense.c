/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_dense.c - every output is a weighted sum of all inputs, plus a bias, cut
 * off below 0 if asked.
 *
 *     in   batch x I          weight  O x I     (row o: what output o looks at)
 *     out  batch x O          bias    1 x O
 *
 *     out  = max(0, in * weight^T + bias)
 *     dout = dout where out > 0, else 0
 *     d weight = dout^T * in,  d bias = column sums of dout,  din = dout * weight
 *
 * With per_token a sample of T vectors counts as T samples of one. */
#include "layers/compute.h"
#include "layers/layer.h"
#include "layers/rows.h"

#include <math.h>

/* Vectors in a sample, and their floats before and after. */
static size_t vectors(const gwt_layer *layer)
{
    return layer->spec->per_token ? layer->in.channels : 1;
}

static size_t inputs(const gwt_layer *layer)
{
    return gwt_shape_floats(layer->in) / vectors(layer);
}

static gw_status plan_dense(gwt_layer *layer)
{
    size_t in = gwt_shape_floats(layer->in), out = layer->spec->units;

    if (in == 0 || out == 0)
        return gw_fail(GW_ERR_ARG, "layer %s: cannot have %zu inputs and %zu outputs",
                       layer->spec->name, in, out);
    if (layer->in_block > 1 && layer->in.height * layer->in.width > 1)
        return gw_fail(GW_ERR_ARG, "layer %s needs a flatten layer before it",
                       layer->spec->name);
    in = inputs(layer);
    /* Keeps the scale of signals from layer to layer: He's bound where half of the
     * outputs will be cut off, Glorot's otherwise. */
    double fan = layer->spec->relu ? (double)in : (double)(in + out);
    layer->out = layer->spec->per_token ? (gwt_shape){layer->in.channels, 1, out}
                                        : (gwt_shape){out, 1, 1};
    layer->params = 2;
    layer->tensor[0] = (gwt_param){"weight", out, in, sqrt(6.0 / fan), 0.0};
    layer->tensor[1] = (gwt_param){"bias", 1, out, 0.0, 0.0};
    return GW_OK;
}

static gw_status forward_dense(const gwt_layer *layer, const gwt_pass *pass,
                               const float *in, float *out)
{
    size_t batch = pass->batch * vectors(layer);
    size_t ni = inputs(layer), no = layer->spec->units;
    const float *weight = layer->param, *bias = layer->param + no * ni;

    GWT_TRY(gwt_matmul(batch, no, ni, (gwt_operand){in, ni, 0},
                       (gwt_operand){weight, ni, 1}, out, no));
    if (layer->spec->relu)
        gwt_add_bias_relu(out, bias, no, batch);
    else
        gwt_add_bias(out, bias, no, batch);
    return GW_OK;
}

static gw_status backward_dense(const gwt_layer *layer, const gwt_pass *pass,
                                const float *in, const float *out, float *dout,
                                float *din)
{
    size_t batch = pass->batch * vectors(layer);
    size_t ni = inputs(layer), no = layer->spec->units;
    float *dweight = layer->grad, *dbias = layer->grad + no * ni;

    if (layer->spec->relu)
        gwt_sum_columns_relu(dbias, dout, out, no, batch);
    else
        gwt_sum_columns(dbias, dout, no, batch);
    GWT_TRY(gwt_matmul(no, ni, batch, (gwt_operand){dout, no, 1},
                       (gwt_operand){in, ni, 0}, dweight, ni));
    if (din == NULL)
        return GW_OK;
    return gwt_matmul(batch, ni, no, (gwt_operand){dout, no, 0},
                      (gwt_operand){layer->param, ni, 0}, din, ni);
}

const gwt_layer_type gwt_layer_dense = {
    .name = "dense",
    .plan = plan_dense,
    .forward = forward_dense,
    .backward = backward_dense,
};
