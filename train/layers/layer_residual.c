/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_residual.c - the basic block of a residual network: two convolutions whose
 * result is added to the input.
 *
 *     in --conv1--> a --bn1, relu--> b --conv2--> c --bn2--> (+) --relu--> out
 *      \-------------------- shortcut ----------------------/
 *
 *     in   batch x I x H x W    out, a, b, c   batch x O x H/stride x W/stride
 *
 * The shortcut has no parameters: every stride-th pixel in height and width, and
 * zeros for the channels that the input lacks. Convolutions are 3 x 3 without
 * bias. Where O = I and the stride is 1 the input itself is added.
 *
 *     work   a, b, c, the shortcut if it is not the input, what the norms save
 *     stats  those of bn1, then of bn2
 *
 * Backward needs no memory of its own: c and then b give their place to the
 * derivatives by themselves. */
#include "layers/compute.h"
#include "layers/batchnorm_rows.h"

#include <math.h>
#include <string.h>

enum { KERNEL = 3 };

typedef struct engines {
    gwt_conv *first, *second;
} engines;

/* The parts of work, and the sizes of the parameters. */
typedef struct parts {
    float *a, *b, *c, *shortcut, *saved[2];
    size_t conv1, conv2, channels;
} parts;

static int shortcut_is_input(const gwt_layer *layer)
{
    return layer->in.channels == layer->out.channels &&
           layer->in.height == layer->out.height && layer->in_block == layer->out_block;
}

static parts parts_of(const gwt_layer *layer)
{
    size_t floats = layer->max_batch * gwt_shape_floats(layer->out);
    size_t channels = layer->out.channels;
    parts p = {.conv1 = layer->in.channels * channels * KERNEL * KERNEL,
               .conv2 = channels * channels * KERNEL * KERNEL,
               .channels = channels};

    p.a = layer->work;
    p.b = p.a + floats;
    p.c = p.b + floats;
    p.saved[0] = p.c + floats;
    p.saved[1] = p.saved[0] + GWT_NORM_SAVED * channels;
    p.shortcut = p.saved[1] + GWT_NORM_SAVED * channels;
    return p;
}

/* ---- planning ----------------------------------------------------------------------
 */

static void plan_tensors(gwt_layer *layer)
{
    size_t in = layer->in.channels * KERNEL * KERNEL, out = layer->out.channels;
    size_t middle = out * KERNEL * KERNEL;
    const gwt_param tensors[] = {
        {"conv1.weight", out, in, sqrt(6.0 / (double)in), 0.0},
        {"bn1.weight", 1, out, 0.0, 1.0},
        {"bn1.bias", 1, out, 0.0, 0.0},
        {"conv2.weight", out, middle, sqrt(6.0 / (double)middle), 0.0},
        {"bn2.weight", 1, out, 0.0, 1.0},
        {"bn2.bias", 1, out, 0.0, 0.0},
    };

    layer->params = sizeof tensors / sizeof tensors[0];
    memcpy(layer->tensor, tensors, sizeof tensors);
    layer->window[0] = layer->window[3] = KERNEL;
}

static gw_status plan_residual(gwt_layer *layer)
{
    size_t stride = layer->spec->stride != 0 ? layer->spec->stride : 1;
    size_t channels = layer->spec->units, block = gwt_compute_block();

    if (channels < layer->in.channels)
        return gw_fail(GW_ERR_ARG, "layer %s: %zu channels cannot be added to %zu",
                       layer->spec->name, layer->in.channels, channels);
    layer->out = (gwt_shape){
        .channels = channels,
        .height = (layer->in.height - 1) / stride + 1,
        .width = (layer->in.width - 1) / stride + 1,
    };
    layer->out_block = channels % block == 0 ? block : 1;
    plan_tensors(layer);
    size_t floats = layer->max_batch * gwt_shape_floats(layer->out);
    layer->work_floats =
        (shortcut_is_input(layer) ? 3 : 4) * floats + 2 * GWT_NORM_SAVED * channels;
    layer->stats_floats = 2 * GWT_NORM_STATS * channels;
    return GW_OK;
}

static gw_status open_residual(gwt_layer *layer)
{
    engines *e = gwt_calloc(1, sizeof *e, "a residual block");
    gwt_conv_options options = {
        .in = layer->in,
        .out = layer->out,
        .in_block = layer->in_block,
        .out_block = layer->out_block,
        .kernel = KERNEL,
        .stride = layer->spec->stride != 0 ? layer->spec->stride : 1,
        .padding = KERNEL / 2,
    };

    if (e == NULL)
        return GW_ERR_NOMEM;
    layer->engine = e;
    GWT_TRY(gwt_conv_new(&e->first, &options));
    options.in = layer->out;
    options.in_block = layer->out_block;
    options.stride = 1;
    return gwt_conv_new(&e->second, &options);
}

static void close_residual(gwt_layer *layer)
{
    engines *e = layer->engine;

    if (e == NULL)
        return;
    gwt_conv_free(e->first);
    gwt_conv_free(e->second);
    gwt_free(e);
}

/* The norm after the first (which = 0) or the second convolution. */
static gwt_norm norm_of(const gwt_layer *layer, const parts *p, int which)
{
    size_t at = p->conv1 + (which ? p->conv2 + 2 * p->channels : 0);

    return (gwt_norm){
        .shape = layer->out,
        .block = layer->out_block,
        .relu = 1,
        .weight = layer->param + at,
        .bias = layer->param + at + p->channels,
        .dweight = layer->grad + at,
        .dbias = layer->grad + at + p->channels,
        .stats = layer->stats + (which ? GWT_NORM_STATS * p->channels : 0),
        .saved = p->saved[which],
    };
}

static void begin_residual(gwt_layer *layer)
{
    parts p = parts_of(layer);

    for (int which = 0; which < 2; which++) {
        gwt_norm n = norm_of(layer, &p, which);
        gwt_norm_begin(&n);
    }
}

/* ---- the shortcut ------------------------------------------------------------------
 */

/* Where pixel (y, x) of channel c of sample i lies. */
static size_t place(gwt_shape s, size_t B, size_t i, size_t c, size_t y, size_t x)
{
    return i * gwt_shape_floats(s) + ((c / B * s.height + y) * s.width + x) * B + c % B;
}

/* Calls for all channels of the input at once if both sides are blocked alike; one
 * by one otherwise. */
static size_t together(const gwt_layer *layer)
{
    return layer->in_block == layer->out_block ? layer->in_block : 1;
}

static const float *shorten(const gwt_layer *layer, const parts *p, size_t batch,
                            const float *in)
{
    size_t stride = layer->spec->stride != 0 ? layer->spec->stride : 1;
    size_t B = together(layer);
    gwt_shape from = layer->in, to = layer->out;

    if (shortcut_is_input(layer))
        return in;
    memset(p->shortcut, 0, batch * gwt_shape_floats(to) * sizeof *in);
    for (size_t i = 0; i < batch; i++)
        for (size_t c = 0; c < from.channels; c += B)
            for (size_t y = 0; y < to.height; y++)
                for (size_t x = 0; x < to.width; x++)
                    memcpy(
                        p->shortcut + place(to, layer->out_block, i, c, y, x),
                        in + place(from, layer->in_block, i, c, y * stride, x * stride),
                        B * sizeof *in);
    return p->shortcut;
}

GWT_VECTOR static void add(float *restrict x, const float *restrict y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

/* Adds the derivative by the shortcut, d, to that by the input. */
static void shorten_back(const gwt_layer *layer, size_t batch, const float *d,
                         float *din)
{
    size_t stride = layer->spec->stride != 0 ? layer->spec->stride : 1;
    size_t B = together(layer);
    gwt_shape from = layer->in, to = layer->out;

    if (shortcut_is_input(layer)) {
        add(din, d, batch * gwt_shape_floats(to));
        return;
    }
    for (size_t i = 0; i < batch; i++)
        for (size_t c = 0; c < from.channels; c += B)
            for (size_t y = 0; y < to.height; y++)
                for (size_t x = 0; x < to.width; x++) {
                    const float *s = d + place(to, layer->out_block, i, c, y, x);
                    float *t = din + place(from, layer->in_block, i, c, y * stride,
                                           x * stride);
                    for (size_t l = 0; l < B; l++)
                        t[l] += s[l];
                }
}

/* ---- passes -------------------------------------------------------------------------
 */

static gw_status forward_residual(const gwt_layer *layer, const gwt_pass *pass,
                                  const float *in, float *out)
{
    const engines *e = layer->engine;
    parts p = parts_of(layer);
    gwt_norm one = norm_of(layer, &p, 0), two = norm_of(layer, &p, 1);
    const float *second = layer->param + p.conv1 + 2 * p.channels;

    GWT_TRY(gwt_conv_forward(e->first, pass->batch, in, layer->param, NULL, p.a));
    gwt_norm_forward(&one, pass, p.a, NULL, p.b);
    GWT_TRY(gwt_conv_forward(e->second, pass->batch, p.b, second, NULL, p.c));
    gwt_norm_forward(&two, pass, p.c, shorten(layer, &p, pass->batch, in), out);
    return GW_OK;
}

static gw_status backward_residual(const gwt_layer *layer, const gwt_pass *pass,
                                   const float *in, const float *out, float *dout,
                                   float *din)
{
    const engines *e = layer->engine;
    parts p = parts_of(layer);
    gwt_norm one = norm_of(layer, &p, 0), two = norm_of(layer, &p, 1);
    size_t at = p.conv1 + 2 * p.channels;

    gwt_norm_backward(&two, pass, p.c, out, dout, p.c);
    /* The weights' derivative is there before b, which it needs, is overwritten. */
    GWT_TRY(gwt_conv_backward(e->second, pass->batch, p.b, layer->param + at, p.c,
                              layer->grad + at, NULL, p.b));
    gwt_norm_backward(&one, pass, p.a, NULL, p.b, p.b);
    GWT_TRY(gwt_conv_backward(e->first, pass->batch, in, layer->param, p.b, layer->grad,
                              NULL, din));
    if (din != NULL)
        shorten_back(layer, pass->batch, dout, din);
    return GW_OK;
}

const gwt_layer_type gwt_layer_residual = {
    .name = "residual",
    .plan = plan_residual,
    .open = open_residual,
    .close = close_residual,
    .begin = begin_residual,
    .forward = forward_residual,
    .backward = backward_residual,
};
