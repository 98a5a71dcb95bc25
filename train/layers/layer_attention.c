/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_attention.c - the first half of a Transformer's block: each token looks at
 * itself and those before it, with several heads, beside a shortcut.
 *
 *     in, out  batch x T x N      norm_weight, norm_bias  1 x N
 *                                 qkv_weight  3N x N      qkv_bias  1 x 3N
 *                                 out_weight   N x N      out_bias  1 x N
 *
 *     q, k, v = norm(in) * qkv_weight^T + qkv_bias            (T x N each)
 *     for each sample and head, on its D = N / heads columns:
 *       p = softmax over s <= t of q_t . k_s / sqrt(D)        (T x T, 0 above)
 *       mixed = p * v
 *     out = in + dropout(mixed * out_weight^T + out_bias)
 *
 * work, rows x ...: normed N, stat 2, qkv 3N, mixed N, mask N, dmixed N, dqkv 3N;
 * then p, batch x heads x T x T, and its derivative for one sample and head. */
#include "layers/attend.h"
#include "layers/compute.h"
#include "layers/dropout.h"
#include "layers/layernorm_rows.h"
#include "layers/rows.h"

#include <math.h>

typedef struct parts {
    float *normed, *stat, *qkv, *mixed, *mask, *dmixed, *dqkv, *p, *dp;
    size_t n, T, heads;
} parts;

/* Tensors, in the order of plan(). */
typedef struct weights {
    float *norm_weight, *norm_bias, *qkv_weight, *qkv_bias, *out_weight, *out_bias;
} weights;

static weights weights_at(float *at, size_t n)
{
    weights w = {.norm_weight = at};

    w.norm_bias = w.norm_weight + n;
    w.qkv_weight = w.norm_bias + n;
    w.qkv_bias = w.qkv_weight + 3 * n * n;
    w.out_weight = w.qkv_bias + 3 * n;
    w.out_bias = w.out_weight + n * n;
    return w;
}

static parts parts_of(const gwt_layer *layer)
{
    size_t T = layer->in.channels, rows = layer->max_batch * T;
    parts p = {.n = layer->in.width, .T = T, .heads = layer->spec->heads};

    p.normed = layer->work;
    p.stat = p.normed + rows * p.n;
    p.qkv = p.stat + rows * 2;
    p.mixed = p.qkv + rows * 3 * p.n;
    p.mask = p.mixed + rows * p.n;
    p.dmixed = p.mask + rows * p.n;
    p.dqkv = p.dmixed + rows * p.n;
    p.p = p.dqkv + rows * 3 * p.n;
    p.dp = p.p + layer->max_batch * p.heads * T * T;
    return p;
}

static gw_status plan_attention(gwt_layer *layer)
{
    size_t n = layer->in.width, T = layer->in.channels, heads = layer->spec->heads;

    if (heads == 0 || n % heads != 0 || layer->in.height != 1)
        return gw_fail(GW_ERR_ARG,
                       "layer %s: %zu heads cannot divide vectors of length %zu",
                       layer->spec->name, heads, n);
    double bound = sqrt(3.0 / (double)n);
    layer->out = layer->in;
    layer->params = 6;
    layer->tensor[0] = (gwt_param){"norm_weight", 1, n, 0.0, 1.0};
    layer->tensor[1] = (gwt_param){"norm_bias", 1, n, 0.0, 0.0};
    layer->tensor[2] = (gwt_param){"qkv_weight", 3 * n, n, bound, 0.0};
    layer->tensor[3] = (gwt_param){"qkv_bias", 1, 3 * n, 0.0, 0.0};
    layer->tensor[4] = (gwt_param){"out_weight", n, n, bound, 0.0};
    layer->tensor[5] = (gwt_param){"out_bias", 1, n, 0.0, 0.0};
    layer->work_floats = layer->max_batch * T * (10 * n + 2 + heads * T) + T * T;
    return GW_OK;
}

/* One head of one sample, h = sample * heads + head. */
static gwt_head head_of(const parts *p, size_t h)
{
    size_t sample = h / p->heads, D = p->n / p->heads, column = h % p->heads * D;
    size_t at = sample * p->T * 3 * p->n + column;

    return (gwt_head){
        .T = p->T,
        .D = D,
        .ld = 3 * p->n,
        .ld_mixed = p->n,
        .q = p->qkv + at,
        .k = p->qkv + at + p->n,
        .v = p->qkv + at + 2 * p->n,
        .dq = p->dqkv + at,
        .dk = p->dqkv + at + p->n,
        .dv = p->dqkv + at + 2 * p->n,
        .mixed = p->mixed + sample * p->T * p->n + column,
        .dmixed = p->dmixed + sample * p->T * p->n + column,
        .p = p->p + h * p->T * p->T,
        .dp = p->dp,
    };
}

static gw_status forward_attention(const gwt_layer *layer, const gwt_pass *pass,
                                   const float *in, float *out)
{
    parts p = parts_of(layer);
    weights w = weights_at(layer->param, p.n);
    size_t rows = pass->batch * p.T, n = p.n;

    gwt_layernorm_rows(p.normed, in, w.norm_weight, w.norm_bias, p.stat, n, rows);
    GWT_TRY(gwt_matmul(rows, 3 * n, n, (gwt_operand){p.normed, n, 0},
                       (gwt_operand){w.qkv_weight, n, 1}, p.qkv, 3 * n));
    gwt_add_bias(p.qkv, w.qkv_bias, 3 * n, rows);
    for (size_t h = 0; h < pass->batch * p.heads; h++) {
        gwt_head head = head_of(&p, h);
        GWT_TRY(gwt_attend(&head));
    }
    GWT_TRY(gwt_matmul(rows, n, n, (gwt_operand){p.mixed, n, 0},
                       (gwt_operand){w.out_weight, n, 1}, out, n));
    gwt_dropout_branch(layer, pass, in, w.out_bias, p.mask, out);
    return GW_OK;
}

static gw_status backward_attention(const gwt_layer *layer, const gwt_pass *pass,
                                    const float *in, const float *out, float *dout,
                                    float *din)
{
    parts p = parts_of(layer);
    weights w = weights_at(layer->param, p.n), d = weights_at(layer->grad, p.n);
    size_t rows = pass->batch * p.T, n = p.n;
    const float *dbranch = gwt_dropout_branch_back(layer, pass, dout, p.mask);

    (void)out;
    gwt_sum_columns(d.out_bias, dbranch, n, rows);
    GWT_TRY(gwt_matmul(n, n, rows, (gwt_operand){dbranch, n, 1},
                       (gwt_operand){p.mixed, n, 0}, d.out_weight, n));
    GWT_TRY(gwt_matmul(rows, n, n, (gwt_operand){dbranch, n, 0},
                       (gwt_operand){w.out_weight, n, 0}, p.dmixed, n));
    for (size_t h = 0; h < pass->batch * p.heads; h++) {
        gwt_head head = head_of(&p, h);
        GWT_TRY(gwt_attend_back(&head));
    }
    gwt_sum_columns(d.qkv_bias, p.dqkv, 3 * n, rows);
    GWT_TRY(gwt_matmul(3 * n, n, rows, (gwt_operand){p.dqkv, 3 * n, 1},
                       (gwt_operand){p.normed, n, 0}, d.qkv_weight, n));
    GWT_TRY(gwt_matmul(rows, n, 3 * n, (gwt_operand){p.dqkv, 3 * n, 0},
                       (gwt_operand){w.qkv_weight, n, 0}, p.dmixed, n));
    if (din == NULL)
        din = p.mask; /* the caller does not need din, but the norm has gradients */
    gwt_layernorm_rows_back(din, d.norm_weight, d.norm_bias, p.dmixed, in,
                            w.norm_weight, p.stat, dout, n, rows);
    return GW_OK;
}

const gwt_layer_type gwt_layer_attention = {
    .name = "attention",
    .plan = plan_attention,
    .forward = forward_attention,
    .backward = backward_attention,
};
