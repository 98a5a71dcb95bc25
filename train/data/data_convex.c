/* SPDX-License-Identifier: Apache-2.0
 *
 * data_convex.c - samples of the convex problems of convex.h as data sets, so that
 * any method can be trained on them: Gaussian features, and a class or a number
 * drawn by a model that is known. */
#include "convex/convex.h"
#include "data/data.h"
#include "data/data_options.h"

#include <stddef.h>
#include <string.h>

typedef struct settings {
    uint64_t train, test, dim, signal, seed;
} settings;

static const gwt_data_option words[] = {
    {"train", offsetof(settings, train), 1, 10000000},
    {"test", offsetof(settings, test), 1, 10000000},
    {"dim", offsetof(settings, dim), 1, GWT_CONVEX_DIM_MAX},
    {"signal", offsetof(settings, signal), 0, 100},
    {"seed", offsetof(settings, seed), 0, UINT64_MAX},
};

/* Makes samples first, first + 1, ...: rows of dim features and what belongs to
 * them, a class or the bits of a float. */
static gw_status make_split(gwt_split *split, gwt_bytes *kept, const gwt_convex *c,
                            uint64_t first, size_t count)
{
    size_t row = c->dim + 1;
    float *x = gwt_calloc(count, row * sizeof *x, "made-up samples");

    if (x == NULL)
        return GW_ERR_NOMEM;
    kept->owned = x;
    for (size_t i = 0; i < count; i++) {
        float *target = x + i * row + c->dim;
        gwt_convex_sample(c, first + i, x + i * row);
        uint32_t class = *target > 0.5f;
        if (c->kind == GWT_LOGISTIC)
            memcpy(target, &class, sizeof class);
    }
    gwt_split_add(split, (gwt_block){.count = count,
                                     .samples = (const uint8_t *)x,
                                     .labels = (const uint8_t *)(x + c->dim),
                                     .sample_step = row * sizeof *x,
                                     .label_step = row * sizeof *x});
    return GW_OK;
}

static gw_status load(gwt_data *out, const char *name, gwt_convex_kind kind,
                      const char *rest)
{
    settings s = {.train = 20000, .test = 5000, .dim = 10, .signal = 2, .seed = 1};
    gwt_convex c;

    GWT_TRY(gwt_data_options(name, rest, words, sizeof words / sizeof words[0], &s));
    gwt_convex_init(&c, kind, (size_t)s.dim, (double)s.signal, s.seed);
    out->shape = (gwt_shape){1, 1, c.dim};
    out->classes = kind == GWT_LOGISTIC ? 2 : 0;
    out->floats = 1;
    GWT_TRY(make_split(&out->train, &out->owned[0], &c, 0, (size_t)s.train));
    return make_split(&out->test, &out->owned[1], &c, s.train, (size_t)s.test);
}

gw_status gwt_logistic_load(gwt_data *out, const char *rest, const char *data_dir)
{
    (void)data_dir;
    return load(out, "logistic", GWT_LOGISTIC, rest);
}

gw_status gwt_squares_load(gwt_data *out, const char *rest, const char *data_dir)
{
    (void)data_dir;
    return load(out, "least-squares", GWT_LEAST_SQUARES, rest);
}
