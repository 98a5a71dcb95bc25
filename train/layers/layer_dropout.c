/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_dropout.c - in training, some values become 0 and the others grow so that
 * the mean stays; in evaluation nothing changes.
 *
 *     out = in * mask,  din = dout * mask      (all batch x floats(in))
 */
#include "layers/dropout.h"

#include <math.h>
#include <string.h>

enum { BITS = 16, PER_WORD = 64 / BITS };

int gwt_dropout_on(const gwt_pass *pass)
{
    return pass->training && pass->dropout > 0.0;
}

/* One random word decides on four values: a share of values is good to 2^-16. */
void gwt_dropout_mask(const gwt_layer *layer, const gwt_pass *pass, size_t n,
                      float *mask)
{
    uint64_t key = gwt_random(pass->seed, GWT_STREAM_DROPOUT, pass->step,
                              pass->worker << 16 | layer->index);
    uint64_t limit = (uint64_t)llround(pass->dropout * (1 << BITS));
    float keep = (float)(1.0 / (1.0 - pass->dropout));
    size_t total = pass->batch * n;

    for (size_t i = 0; i < total; i += PER_WORD) {
        uint64_t word = gwt_random(key, GWT_STREAM_DROPOUT, 0, i / PER_WORD);
        for (size_t j = i; j < total && j < i + PER_WORD; j++, word >>= BITS)
            mask[j] = (word & ((1 << BITS) - 1)) < limit ? 0.0f : keep;
    }
}

GWT_VECTOR void gwt_multiply(float *out, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = a[i] * b[i];
}

GWT_VECTOR static void join(float *restrict out, const float *restrict in,
                            const float *restrict bias, size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            out[i * n + j] = in[i * n + j] + (out[i * n + j] + bias[j]);
}

GWT_VECTOR static void join_masked(float *restrict out, const float *restrict in,
                                   const float *restrict bias,
                                   const float *restrict mask, size_t n, size_t rows)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < n; j++)
            out[i * n + j] =
                in[i * n + j] + (out[i * n + j] + bias[j]) * mask[i * n + j];
}

void gwt_dropout_branch(const gwt_layer *layer, const gwt_pass *pass, const float *in,
                        const float *bias, float *mask, float *out)
{
    size_t n = layer->in.width, rows = pass->batch * layer->in.channels;

    if (!gwt_dropout_on(pass)) {
        join(out, in, bias, n, rows);
        return;
    }
    gwt_dropout_mask(layer, pass, layer->in.channels * n, mask);
    join_masked(out, in, bias, mask, n, rows);
}

const float *gwt_dropout_branch_back(const gwt_layer *layer, const gwt_pass *pass,
                                     const float *dout, float *mask)
{
    if (!gwt_dropout_on(pass))
        return dout;
    gwt_multiply(mask, mask, dout, pass->batch * layer->in.channels * layer->in.width);
    return mask;
}

static gw_status plan_dropout(gwt_layer *layer)
{
    layer->out = layer->in;
    layer->out_block = layer->in_block;
    layer->work_floats = layer->max_batch * gwt_shape_floats(layer->in);
    return GW_OK;
}

static gw_status forward_dropout(const gwt_layer *layer, const gwt_pass *pass,
                                 const float *in, float *out)
{
    size_t n = gwt_shape_floats(layer->in);

    if (!gwt_dropout_on(pass)) {
        memcpy(out, in, pass->batch * n * sizeof *out);
        return GW_OK;
    }
    gwt_dropout_mask(layer, pass, n, layer->work);
    gwt_multiply(out, in, layer->work, pass->batch * n);
    return GW_OK;
}

static gw_status backward_dropout(const gwt_layer *layer, const gwt_pass *pass,
                                  const float *in, const float *out, float *dout,
                                  float *din)
{
    size_t n = pass->batch * gwt_shape_floats(layer->in);

    (void)in;
    (void)out;
    if (din == NULL)
        return GW_OK;
    if (gwt_dropout_on(pass))
        gwt_multiply(din, dout, layer->work, n);
    else
        memcpy(din, dout, n * sizeof *din);
    return GW_OK;
}

const gwt_layer_type gwt_layer_dropout = {
    .name = "dropout",
    .plan = plan_dropout,
    .forward = forward_dropout,
    .backward = backward_dropout,
};
