/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_mlp.c - the second half of a Transformer's block: two dense layers for each
 * vector by itself, beside a shortcut.
 *
 *     in, out  batch x T x N      norm_weight, norm_bias  1 x N
 *                                 up_weight    M x N      up_bias    1 x M
 *                                 down_weight  N x M      down_bias  1 x N
 *
 *     u   = max(0, norm(in) * up_weight^T + up_bias)          (rows x M)
 *     out = in + dropout(u * down_weight^T + down_bias)
 *
 * work, rows x ...: normed N, stat 2, up M, mask N, dup M, dnormed N. */
#include "layers/compute.h"
#include "layers/dropout.h"
#include "layers/layernorm_rows.h"
#include "layers/rows.h"

#include <math.h>

typedef struct parts {
    float *normed, *stat, *up, *mask, *dup, *dnormed;
    size_t n, m;
} parts;

/* Tensors, in the order of plan(). */
typedef struct weights {
    float *norm_weight, *norm_bias, *up_weight, *up_bias, *down_weight, *down_bias;
} weights;

static weights weights_at(float *at, size_t n, size_t m)
{
    weights w = {.norm_weight = at};

    w.norm_bias = w.norm_weight + n;
    w.up_weight = w.norm_bias + n;
    w.up_bias = w.up_weight + m * n;
    w.down_weight = w.up_bias + m;
    w.down_bias = w.down_weight + n * m;
    return w;
}

static parts parts_of(const gwt_layer *layer)
{
    size_t rows = layer->max_batch * layer->in.channels;
    parts p = {.n = layer->in.width, .m = layer->spec->units};

    p.normed = layer->work;
    p.stat = p.normed + rows * p.n;
    p.up = p.stat + rows * 2;
    p.mask = p.up + rows * p.m;
    p.dup = p.mask + rows * p.n;
    p.dnormed = p.dup + rows * p.m;
    return p;
}

static gw_status plan_mlp(gwt_layer *layer)
{
    size_t n = layer->in.width, m = layer->spec->units;

    if (n == 0 || m == 0 || layer->in.height != 1)
        return gw_fail(GW_ERR_ARG, "layer %s needs rows of vectors", layer->spec->name);
    double up = sqrt(6.0 / (double)n), down = sqrt(6.0 / (double)(n + m));
    layer->out = layer->in;
    layer->params = 6;
    layer->tensor[0] = (gwt_param){"norm_weight", 1, n, 0.0, 1.0};
    layer->tensor[1] = (gwt_param){"norm_bias", 1, n, 0.0, 0.0};
    layer->tensor[2] = (gwt_param){"up_weight", m, n, up, 0.0};
    layer->tensor[3] = (gwt_param){"up_bias", 1, m, 0.0, 0.0};
    layer->tensor[4] = (gwt_param){"down_weight", n, m, down, 0.0};
    layer->tensor[5] = (gwt_param){"down_bias", 1, n, 0.0, 0.0};
    layer->work_floats = layer->max_batch * layer->in.channels * (3 * n + 2 * m + 2);
    return GW_OK;
}

static gw_status forward_mlp(const gwt_layer *layer, const gwt_pass *pass,
                             const float *in, float *out)
{
    parts p = parts_of(layer);
    weights w = weights_at(layer->param, p.n, p.m);
    size_t rows = pass->batch * layer->in.channels, n = p.n, m = p.m;

    gwt_layernorm_rows(p.normed, in, w.norm_weight, w.norm_bias, p.stat, n, rows);
    GWT_TRY(gwt_matmul(rows, m, n, (gwt_operand){p.normed, n, 0},
                       (gwt_operand){w.up_weight, n, 1}, p.up, m));
    gwt_add_bias_relu(p.up, w.up_bias, m, rows);
    GWT_TRY(gwt_matmul(rows, n, m, (gwt_operand){p.up, m, 0},
                       (gwt_operand){w.down_weight, m, 1}, out, n));
    gwt_dropout_branch(layer, pass, in, w.down_bias, p.mask, out);
    return GW_OK;
}

static gw_status backward_mlp(const gwt_layer *layer, const gwt_pass *pass,
                              const float *in, const float *out, float *dout,
                              float *din)
{
    parts p = parts_of(layer);
    weights w = weights_at(layer->param, p.n, p.m);
    weights d = weights_at(layer->grad, p.n, p.m);
    size_t rows = pass->batch * layer->in.channels, n = p.n, m = p.m;
    const float *dbranch = gwt_dropout_branch_back(layer, pass, dout, p.mask);

    (void)out;
    gwt_sum_columns(d.down_bias, dbranch, n, rows);
    GWT_TRY(gwt_matmul(n, m, rows, (gwt_operand){dbranch, n, 1},
                       (gwt_operand){p.up, m, 0}, d.down_weight, m));
    GWT_TRY(gwt_matmul(rows, m, n, (gwt_operand){dbranch, n, 0},
                       (gwt_operand){w.down_weight, m, 0}, p.dup, m));
    gwt_sum_columns_relu(d.up_bias, p.dup, p.up, m, rows);
    GWT_TRY(gwt_matmul(m, n, rows, (gwt_operand){p.dup, m, 1},
                       (gwt_operand){p.normed, n, 0}, d.up_weight, n));
    GWT_TRY(gwt_matmul(rows, n, m, (gwt_operand){p.dup, m, 0},
                       (gwt_operand){w.up_weight, n, 0}, p.dnormed, n));
    if (din == NULL)
        din = p.mask; /* the caller does not need din, but the norm has gradients */
    gwt_layernorm_rows_back(din, d.norm_weight, d.norm_bias, p.dnormed, in,
                            w.norm_weight, p.stat, dout, n, rows);
    return GW_OK;
}

const gwt_layer_type gwt_layer_mlp = {
    .name = "mlp",
    .plan = plan_mlp,
    .forward = forward_mlp,
    .backward = backward_mlp,
};
