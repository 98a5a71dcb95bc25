/* SPDX-License-Identifier: Apache-2.0
 *
 * support_model.c - a small model, and gradients for it. */
#include "support_model.h"

#include <string.h>

#include "support_ranks.h"

static gw_layout *three_tensors(void)
{
    size_t matrix = MODEL_ROWS * MODEL_COLS;
    gw_tensor t[] = {
        {.name = "matrix", .offset = 0, .rows = MODEL_ROWS, .cols = MODEL_COLS},
        {.name = "bias", .offset = matrix, .rows = 1, .cols = MODEL_BIAS},
        {.name = "last",
         .offset = matrix + MODEL_BIAS,
         .rows = 4,
         .cols = MODEL_LAST / 4}};
    gw_layout *layout;

    return gw_layout_new(&layout, t, 3) == GW_OK ? layout : NULL;
}

gw_status model_sync(gw_sync **sync, gw_comm *comm, const char *spec,
                     gw_nonfinite nonfinite)
{
    gw_sync_options opt = {
        .struct_size = sizeof opt, .nonfinite = nonfinite, .seed = 7};
    gw_layout *layout = three_tensors();
    gw_status st = gw_sync_new(sync, spec, layout, comm, &opt);

    gw_layout_free(layout);
    return st;
}

void model_gradient(float *g, const float *x, int rank, int step)
{
    uint64_t seed = (uint64_t)step * 100 + (uint64_t)rank;

    for (size_t i = 0; i < MODEL_FLOATS; i++) {
        float u = test_float(seed, i);
        g[i] = 0.1f * x[i] + u * u * u;
    }
}

uint64_t model_digest(const float *x)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < MODEL_FLOATS; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}
