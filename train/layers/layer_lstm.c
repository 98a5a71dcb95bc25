/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_lstm.c - one layer of long short-term memory over rows of T vectors. h and c
 * go on from one batch to the next (carry); derivatives end at the batch's begin.
 *
 *     in   batch x T x I      weight_ih  4H x I     bias_ih  1 x 4H
 *     out  batch x T x H      weight_hh  4H x H     bias_hh  1 x 4H
 *
 *     i, f, g, o = in_t * weight_ih^T + h_(t-1) * weight_hh^T + both biases
 *     i, f, o = sigmoid of themselves, g = tanh(g)
 *     c_t = f c_(t-1) + i g,  h_t = o tanh(c_t) = out_t
 *
 * carry: h, then c, max_batch x H each. The rows of all matrices in work are (b, t),
 * as in and out have them:
 *
 *     gate    4H  i, f, g, o; backward puts the derivatives by their sums there
 *     before   H  h_(t-1)
 *     cell     H  c_(t-1)
 *     squash   H  tanh(c_t)
 *
 * and dc (batch x H), bias (4H, the sum of the two). */
#include "layers/compute.h"
#include "layers/layer.h"
#include "layers/rows.h"
#include "layers/smooth.h"

#include <math.h>

typedef struct memory {
    float *gate, *before, *cell, *squash, *dc, *bias;
    float *h, *c; /* carried */
    const float *weight_ih, *weight_hh, *bias_ih, *bias_hh;
    size_t T, H, I;
} memory;

static memory memory_of(const gwt_layer *layer)
{
    size_t T = layer->in.channels, H = layer->spec->units, I = layer->in.width;
    size_t rows = layer->max_batch * T;
    memory m = {.T = T, .H = H, .I = I};

    m.gate = layer->work;
    m.before = m.gate + rows * 4 * H;
    m.cell = m.before + rows * H;
    m.squash = m.cell + rows * H;
    m.dc = m.squash + rows * H;
    m.bias = m.dc + layer->max_batch * H;
    m.h = layer->carry;
    m.c = layer->carry + layer->max_batch * H;
    m.weight_ih = layer->param;
    m.weight_hh = m.weight_ih + 4 * H * I;
    m.bias_ih = m.weight_hh + 4 * H * H;
    m.bias_hh = m.bias_ih + 4 * H;
    return m;
}

static gw_status plan_lstm(gwt_layer *layer)
{
    size_t T = layer->in.channels, H = layer->spec->units, I = layer->in.width;
    double bound = 1.0 / sqrt((double)H);

    if (layer->in.height != 1 || T == 0 || H == 0 || I == 0)
        return gw_fail(GW_ERR_ARG, "layer %s needs rows of vectors, not %zux%zux%zu",
                       layer->spec->name, T, layer->in.height, I);
    layer->out = (gwt_shape){T, 1, H};
    layer->params = 4;
    layer->tensor[0] = (gwt_param){"weight_ih", 4 * H, I, bound, 0.0};
    layer->tensor[1] = (gwt_param){"weight_hh", 4 * H, H, bound, 0.0};
    layer->tensor[2] = (gwt_param){"bias_ih", 1, 4 * H, bound, 0.0};
    layer->tensor[3] = (gwt_param){"bias_hh", 1, 4 * H, bound, 0.0};
    layer->work_floats = layer->max_batch * (T * 7 * H + H) + 4 * H;
    layer->carry_floats = 2 * layer->max_batch * H;
    return GW_OK;
}

/* ---- forward ------------------------------------------------------------------ */

/* One sample, one step: sums of the gates become the gates, and c and h go on.
 * Rows: x 4H, bias 4H, the others H. */
GWT_VECTOR static void step_forward(float *restrict x, const float *restrict bias,
                                    float *restrict c, float *restrict cell,
                                    float *restrict squash, float *restrict h,
                                    float *restrict out, size_t H)
{
    for (size_t j = 0; j < H; j++) {
        float i = gwt_sigmoid(x[j] + bias[j]);
        float f = gwt_sigmoid(x[H + j] + bias[H + j]);
        float g = gwt_tanh(x[2 * H + j] + bias[2 * H + j]);
        float o = gwt_sigmoid(x[3 * H + j] + bias[3 * H + j]);
        float next = f * c[j] + i * g, s = gwt_tanh(next);
        x[j] = i;
        x[H + j] = f;
        x[2 * H + j] = g;
        x[3 * H + j] = o;
        cell[j] = c[j];
        squash[j] = s;
        c[j] = next;
        h[j] = o * s;
        out[j] = o * s;
    }
}

/* h_(t-1) of all samples is in m->h; kept for backward. */
static void keep_before(const memory *m, size_t batch, size_t t)
{
    for (size_t b = 0; b < batch; b++)
        memcpy(m->before + (b * m->T + t) * m->H, m->h + b * m->H,
               m->H * sizeof(float));
}

static gw_status forward_lstm(const gwt_layer *layer, const gwt_pass *pass,
                              const float *in, float *out)
{
    memory m = memory_of(layer);
    size_t T = m.T, H = m.H;

    for (size_t j = 0; j < 4 * H; j++)
        m.bias[j] = m.bias_ih[j] + m.bias_hh[j];
    GWT_TRY(gwt_matmul(pass->batch * T, 4 * H, m.I, (gwt_operand){in, m.I, 0},
                       (gwt_operand){m.weight_ih, m.I, 1}, m.gate, 4 * H));
    for (size_t t = 0; t < T; t++) {
        keep_before(&m, pass->batch, t);
        GWT_TRY(gwt_matmul_add(pass->batch, 4 * H, H, (gwt_operand){m.h, H, 0},
                               (gwt_operand){m.weight_hh, H, 1}, m.gate + t * 4 * H,
                               T * 4 * H));
        for (size_t b = 0; b < pass->batch; b++) {
            size_t row = b * T + t;
            step_forward(m.gate + row * 4 * H, m.bias, m.c + b * H, m.cell + row * H,
                         m.squash + row * H, m.h + b * H, out + row * H, H);
        }
    }
    return GW_OK;
}

/* ---- backward ----------------------------------------------------------------- */

/* One sample, one step: dh and dc are the derivatives by h_t and c_t (the latter
 * from later steps alone); the gates become the derivatives by their sums. */
GWT_VECTOR static void step_backward(float *restrict x, const float *restrict cell,
                                     const float *restrict squash,
                                     const float *restrict dh, float *restrict dc,
                                     size_t H)
{
    for (size_t j = 0; j < H; j++) {
        float i = x[j], f = x[H + j], g = x[2 * H + j], o = x[3 * H + j];
        float s = squash[j], d = dc[j] + dh[j] * o * (1.0f - s * s);
        x[j] = d * g * (i * (1.0f - i));
        x[H + j] = d * cell[j] * (f * (1.0f - f));
        x[2 * H + j] = d * i * (1.0f - g * g);
        x[3 * H + j] = dh[j] * s * (o * (1.0f - o));
        dc[j] = d * f;
    }
}

static gw_status steps_backward(const memory *m, size_t batch, float *dout)
{
    size_t T = m->T, H = m->H;

    memset(m->dc, 0, batch * H * sizeof *m->dc);
    for (size_t t = T; t-- > 0;) {
        for (size_t b = 0; b < batch; b++) {
            size_t row = b * T + t;
            step_backward(m->gate + row * 4 * H, m->cell + row * H, m->squash + row * H,
                          dout + row * H, m->dc + b * H, H);
        }
        if (t > 0)
            GWT_TRY(gwt_matmul_add(
                batch, H, 4 * H, (gwt_operand){m->gate + t * 4 * H, T * 4 * H, 0},
                (gwt_operand){m->weight_hh, H, 0}, dout + (t - 1) * H, T * H));
    }
    return GW_OK;
}

static gw_status backward_lstm(const gwt_layer *layer, const gwt_pass *pass,
                               const float *in, const float *out, float *dout,
                               float *din)
{
    memory m = memory_of(layer);
    size_t H = m.H, I = m.I, rows = pass->batch * m.T;
    float *dweight_hh = layer->grad + 4 * H * I, *dbias = dweight_hh + 4 * H * H;

    (void)out;
    GWT_TRY(steps_backward(&m, pass->batch, dout));
    gwt_sum_columns(dbias, m.gate, 4 * H, rows);
    memcpy(dbias + 4 * H, dbias, 4 * H * sizeof *dbias);
    GWT_TRY(gwt_matmul(4 * H, I, rows, (gwt_operand){m.gate, 4 * H, 1},
                       (gwt_operand){in, I, 0}, layer->grad, I));
    GWT_TRY(gwt_matmul(4 * H, H, rows, (gwt_operand){m.gate, 4 * H, 1},
                       (gwt_operand){m.before, H, 0}, dweight_hh, H));
    if (din == NULL)
        return GW_OK;
    return gwt_matmul(rows, I, 4 * H, (gwt_operand){m.gate, 4 * H, 0},
                      (gwt_operand){m.weight_ih, I, 0}, din, I);
}

const gwt_layer_type gwt_layer_lstm = {
    .name = "lstm",
    .plan = plan_lstm,
    .forward = forward_lstm,
    .backward = backward_lstm,
};
