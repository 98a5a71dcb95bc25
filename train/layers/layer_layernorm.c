/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_layernorm.c - every vector gets mean 0 and variance 1, then a scale and a shift
 * that are learned (rows.h).
 *
 *     in, out  batch x T x N      weight, bias  1 x N
 *
 * work, rows x ...: stat 2, then N floats of scratch for din if the caller passes
 * NULL. */
#include "layers/layer.h"
#include "layers/layernorm_rows.h"

static gw_status plan_norm(gwt_layer *layer)
{
    size_t n = layer->in.width;

    if (n == 0 || layer->in.height != 1)
        return gw_fail(GW_ERR_ARG, "layer %s needs rows of vectors", layer->spec->name);
    layer->out = layer->in;
    layer->params = 2;
    layer->tensor[0] = (gwt_param){"weight", 1, n, 0.0, 1.0};
    layer->tensor[1] = (gwt_param){"bias", 1, n, 0.0, 0.0};
    layer->work_floats = layer->max_batch * layer->in.channels * (2 + n);
    return GW_OK;
}

static gw_status forward_norm(const gwt_layer *layer, const gwt_pass *pass,
                              const float *in, float *out)
{
    size_t n = layer->in.width;

    gwt_layernorm_rows(out, in, layer->param, layer->param + n, layer->work, n,
                       pass->batch * layer->in.channels);
    return GW_OK;
}

static gw_status backward_norm(const gwt_layer *layer, const gwt_pass *pass,
                               const float *in, const float *out, float *dout,
                               float *din)
{
    size_t n = layer->in.width;

    (void)out;
    if (din == NULL) /* scratch: the caller does not need it */
        din = layer->work + 2 * layer->max_batch * layer->in.channels;
    gwt_layernorm_rows_back(din, layer->grad, layer->grad + n, dout, in, layer->param,
                            layer->work, NULL, n, pass->batch * layer->in.channels);
    return GW_OK;
}

const gwt_layer_type gwt_layer_norm = {
    .name = "norm",
    .plan = plan_norm,
    .forward = forward_norm,
    .backward = backward_norm,
};
