/* SPDX-License-Identifier: Apache-2.0
 *
 * data_synthetic.c - a made-up data set for tests and demonstrations: each class is a
 * cloud around a centre of its own. It is used only when it is named, never instead of
 * data that cannot be found.
 *
 * All arithmetic is on whole numbers, so the bytes are the same everywhere. The
 * number of ones among 64 random bits serves as the bell curve. */
#include "data/data.h"
#include "data/data_options.h"

#include <stddef.h>

typedef struct settings {
    uint64_t train, test, dim, classes, seed;
} settings;

static const gwt_data_option words[] = {
    {"train", offsetof(settings, train), 1, 10000000},
    {"test", offsetof(settings, test), 1, 10000000},
    {"dim", offsetof(settings, dim), 1, 1000000},
    {"classes", offsetof(settings, classes), 2, 256},
    {"seed", offsetof(settings, seed), 0, UINT64_MAX},
};

static unsigned ones(uint64_t x)
{
    unsigned n = 0;

    for (; x != 0; x &= x - 1)
        n++;
    return n;
}

/* Centres lie in 64..191, and the noise has a standard deviation of 48. */
static uint8_t pixel(const settings *s, uint64_t label, uint64_t sample, uint64_t j)
{
    int centre = 64 + (int)(gwt_random(s->seed, GWT_STREAM_SYNTHETIC, label, j) >> 57);
    uint64_t bits = gwt_random(s->seed, GWT_STREAM_SYNTHETIC, s->classes + sample, j);
    int x = centre + 12 * ((int)ones(bits) - 32);

    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

/* Makes samples first, first + 1, ... of the endless list of them. The labels
 * lie behind the samples, in the same memory. */
static gw_status make_split(gwt_split *split, gwt_bytes *kept, const settings *s,
                            uint64_t first, size_t count)
{
    size_t dim = (size_t)s->dim;
    uint8_t *samples = gwt_calloc(count, dim + 1, "synthetic samples");

    if (samples == NULL)
        return GW_ERR_NOMEM;
    kept->owned = samples;
    for (size_t i = 0; i < count; i++) {
        uint64_t label = (first + i) % s->classes;
        samples[count * dim + i] = (uint8_t)label;
        for (size_t j = 0; j < dim; j++)
            samples[i * dim + j] = pixel(s, label, first + i, j);
    }
    gwt_split_add(split, (gwt_block){.count = count,
                                     .samples = samples,
                                     .labels = samples + count * dim,
                                     .sample_step = dim,
                                     .label_step = 1});
    return GW_OK;
}

gw_status gwt_synthetic_load(gwt_data *out, const char *rest, const char *data_dir)
{
    settings s = {.train = 4000, .test = 1000, .dim = 784, .classes = 10, .seed = 1};

    (void)data_dir;
    GWT_TRY(
        gwt_data_options("synthetic", rest, words, sizeof words / sizeof words[0], &s));
    out->shape = (gwt_shape){1, 1, (size_t)s.dim};
    out->classes = (size_t)s.classes;
    GWT_TRY(make_split(&out->train, &out->owned[0], &s, 0, (size_t)s.train));
    return make_split(&out->test, &out->owned[1], &s, s.train, (size_t)s.test);
}
