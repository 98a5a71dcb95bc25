/* SPDX-License-Identifier: Apache-2.0
 *
 * layer_maxpool.c - every output is the largest of a K x K window; windows do not
 * overlap and leave nothing over.
 *
 *     in  batch x C x H x W     out  batch x C x H/K x W/K
 *
 * Of equal inputs the first, in the order of reading, gets the derivative. */
#include "layers/layer.h"

static gw_status plan_maxpool(gwt_layer *layer)
{
    size_t k = layer->spec->kernel;
    gwt_shape in = layer->in;

    if (k == 0 || in.height % k != 0 || in.width % k != 0)
        return gw_fail(GW_ERR_ARG,
                       "layer %s: windows of %zu x %zu do not divide %zu x %zu pixels",
                       layer->spec->name, k, k, in.height, in.width);
    layer->out = in;
    layer->out_block = layer->in_block;
    layer->out.height = in.height / k;
    layer->out.width = in.width / k;
    return GW_OK;
}

#define WINDOW static inline __attribute__((always_inline))

/* One window: k x k pixels of B channels each, `line` floats from row to row. NaN is
 * larger than anything. */
WINDOW void largest(const float *restrict in, float *restrict out, size_t k,
                    size_t line, size_t B)
{
    for (size_t l = 0; l < B; l++)
        out[l] = in[l];
    for (size_t y = 0; y < k; y++)
        for (size_t x = 0; x < k; x++)
            for (size_t l = 0; l < B; l++) {
                float v = in[y * line + x * B + l];
                out[l] = v > out[l] || v != v ? v : out[l];
            }
}

/* The first that equals the largest; the last if none does, because it is NaN. */
WINDOW void largest_back(const float *restrict in, const float *restrict out,
                         const float *restrict dout, float *restrict din, size_t k,
                         size_t line, size_t B)
{
    float left[16];

    for (size_t l = 0; l < B; l++)
        left[l] = dout[l];
    for (size_t y = 0; y < k; y++)
        for (size_t x = 0; x < k; x++)
            for (size_t l = 0; l < B; l++) {
                size_t i = y * line + x * B + l;
                int hit = in[i] == out[l] || (y == k - 1 && x == k - 1);
                din[i] = hit ? left[l] : 0.0f;
                left[l] = hit ? 0.0f : left[l];
            }
}

/* All windows that lie side by side. */
GWT_VECTOR static void line_of_windows(const float *in, float *out, size_t windows,
                                       size_t k, size_t line, size_t B)
{
    for (size_t w = 0; w < windows; w++, in += k * B, out += B)
        if (B == 16)
            largest(in, out, k, line, 16);
        else if (B == 8)
            largest(in, out, k, line, 8);
        else
            largest(in, out, k, line, 1);
}

GWT_VECTOR static void line_of_windows_back(const float *in, const float *out,
                                            const float *dout, float *din,
                                            size_t windows, size_t k, size_t line,
                                            size_t B)
{
    for (size_t w = 0; w < windows; w++, in += k * B, din += k * B, out += B, dout += B)
        if (B == 16)
            largest_back(in, out, dout, din, k, line, 16);
        else if (B == 8)
            largest_back(in, out, dout, din, k, line, 8);
        else
            largest_back(in, out, dout, din, k, line, 1);
}

/* Rows of pixels in the output, over all samples and blocks of channels. As windows
 * fill the input, row r of the output comes from rows r k to r k + k - 1. */
static size_t rows(const gwt_layer *layer, size_t batch, size_t *block)
{
    *block = layer->in_block;
    return batch * (layer->out.channels / *block) * layer->out.height;
}

static gw_status forward_maxpool(const gwt_layer *layer, const gwt_pass *pass,
                                 const float *in, float *out)
{
    size_t B, k = layer->spec->kernel, count = rows(layer, pass->batch, &B);
    size_t line = layer->in.width * B;

    for (size_t r = 0; r < count; r++)
        line_of_windows(in + r * k * line, out + r * layer->out.width * B,
                        layer->out.width, k, line, B);
    return GW_OK;
}

static gw_status backward_maxpool(const gwt_layer *layer, const gwt_pass *pass,
                                  const float *in, const float *out, float *dout,
                                  float *din)
{
    size_t B, k = layer->spec->kernel, count = rows(layer, pass->batch, &B);
    size_t line = layer->in.width * B, out_line = layer->out.width * B;

    if (din == NULL)
        return GW_OK;
    for (size_t r = 0; r < count; r++)
        line_of_windows_back(in + r * k * line, out + r * out_line, dout + r * out_line,
                             din + r * k * line, layer->out.width, k, line, B);
    return GW_OK;
}

const gwt_layer_type gwt_layer_maxpool = {
    .name = "maxpool",
    .plan = plan_maxpool,
    .forward = forward_maxpool,
    .backward = backward_maxpool,
};
