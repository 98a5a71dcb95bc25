/* SPDX-License-Identifier: Apache-2.0
 *
 * models_text.c - language models. They turn tokens into vectors, mix each vector with
 * those before it, and turn the results into one logit per word:
 *
 *     lstm         embedding, LSTM, LSTM, projection; dropout between all
 *     transformer  embedding with positions, dropout, (attention, mlp) x layers,
 *                  norm, projection; dropout inside attention and mlp
 */
#include "models/model.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- lstm -------------------------------------------------------------------- */

static gw_status make_lstm(const char *options, gwt_layer_spec list[GWT_LAYERS_MAX],
                           size_t *count)
{
    uint64_t size = 200;

    if (options != NULL)
        GWT_TRY(gwt_parse_count("model lstm, size", options, 1, 1 << 14, &size));
    size_t units = (size_t)size;
    const gwt_layer_spec layers[] = {
        {.type = &gwt_layer_embedding, .name = "embedding", .units = units},
        {.type = &gwt_layer_dropout, .name = "dropout", .number = 1},
        {.type = &gwt_layer_lstm, .name = "lstm", .number = 1, .units = units},
        {.type = &gwt_layer_dropout, .name = "dropout", .number = 2},
        {.type = &gwt_layer_lstm, .name = "lstm", .number = 2, .units = units},
        {.type = &gwt_layer_dropout, .name = "dropout", .number = 3},
        {.type = &gwt_layer_dense, .name = "projection", .per_token = 1},
    };

    *count = sizeof layers / sizeof layers[0];
    memcpy(list, layers, sizeof layers);
    return GW_OK;
}

const gwt_model_spec gwt_model_lstm = {
    .name = "lstm",
    .summary = "language model with two LSTM layers of 200, 650 or 1500 [200]",
    .make = make_lstm,
    .usage = "lstm:200|650|1500",
    .text = 1,
};

/* ---- transformer --------------------------------------------------------------- */

typedef struct settings {
    uint64_t layers, heads, width;
} settings;

static const struct option {
    const char *name;
    size_t offset;
    uint64_t max;
} options_known[] = {
    {"layers", offsetof(settings, layers), 48},
    {"heads", offsetof(settings, heads), 256},
    {"width", offsetof(settings, width), 1 << 14},
};

/* One "name=value". */
static gw_status parse_word(settings *s, char *word)
{
    char *value = strchr(word, '='), what[64];

    if (value != NULL)
        *value++ = '\0';
    for (size_t i = 0; i < sizeof options_known / sizeof options_known[0]; i++) {
        const struct option *o = &options_known[i];
        if (strcmp(o->name, word) != 0)
            continue;
        snprintf(what, sizeof what, "model transformer, %s", word);
        return gwt_parse_count(what, value != NULL ? value : "", 1, o->max,
                               (uint64_t *)(void *)((char *)s + o->offset));
    }
    return gw_fail(
        GW_ERR_ARG,
        "model transformer: unknown option '%s'; expected layers, heads or width",
        word);
}

static gw_status parse(settings *s, const char *options)
{
    char copy[128], *save = NULL;

    if (strlen(options) >= sizeof copy)
        return gw_fail(GW_ERR_ARG, "model transformer: the options are too long");
    snprintf(copy, sizeof copy, "%s", options);
    for (char *w = strtok_r(copy, ",", &save); w != NULL;
         w = strtok_r(NULL, ",", &save))
        GWT_TRY(parse_word(s, w));
    if (s->width % s->heads != 0)
        return gw_fail(
            GW_ERR_ARG,
            "model transformer: a width of %zu cannot be divided among %zu heads",
            (size_t)s->width, (size_t)s->heads);
    return GW_OK;
}

static gw_status build(settings s, const char *options,
                       gwt_layer_spec list[GWT_LAYERS_MAX], size_t *count)
{
    gwt_layer_spec *at = list;

    if (options != NULL)
        GWT_TRY(parse(&s, options));
    size_t width = (size_t)s.width;
    *at++ = (gwt_layer_spec){.type = &gwt_layer_embedding,
                             .name = "embedding",
                             .units = width,
                             .positions = 1};
    *at++ = (gwt_layer_spec){.type = &gwt_layer_dropout, .name = "dropout"};
    for (unsigned i = 1; i <= s.layers; i++) {
        *at++ = (gwt_layer_spec){.type = &gwt_layer_attention,
                                 .name = "attention",
                                 .number = i,
                                 .units = width,
                                 .heads = (size_t)s.heads};
        *at++ = (gwt_layer_spec){
            .type = &gwt_layer_mlp, .name = "mlp", .number = i, .units = 4 * width};
    }
    *at++ = (gwt_layer_spec){.type = &gwt_layer_norm, .name = "norm", .units = width};
    *at++ = (gwt_layer_spec){
        .type = &gwt_layer_dense, .name = "projection", .per_token = 1};
    *count = (size_t)(at - list);
    return GW_OK;
}

/* Sizes are those of text by byte, where the embeddings are small. */
static gw_status make_transformer(const char *options,
                                  gwt_layer_spec list[GWT_LAYERS_MAX], size_t *count)
{
    return build((settings){.layers = 4, .heads = 4, .width = 128}, options, list,
                 count);
}

static gw_status make_transformer_10m(const char *options,
                                      gwt_layer_spec list[GWT_LAYERS_MAX],
                                      size_t *count)
{
    return build((settings){.layers = 6, .heads = 6, .width = 384}, options, list,
                 count);
}

static gw_status make_transformer_30m(const char *options,
                                      gwt_layer_spec list[GWT_LAYERS_MAX],
                                      size_t *count)
{
    return build((settings){.layers = 10, .heads = 8, .width = 512}, options, list,
                 count);
}

const gwt_model_spec gwt_model_transformer = {
    .name = "transformer",
    .summary = "causal attention language model [4 layers, 4 heads, width 128]",
    .make = make_transformer,
    .usage = "transformer:layers=N,heads=N,width=N",
    .text = 1,
};

const gwt_model_spec gwt_model_transformer_10m = {
    .name = "transformer-10m",
    .summary = "the same with 6 layers, 6 heads, width 384",
    .make = make_transformer_10m,
    .text = 1,
};

const gwt_model_spec gwt_model_transformer_30m = {
    .name = "transformer-30m",
    .summary = "the same with 10 layers, 8 heads, width 512",
    .make = make_transformer_30m,
    .text = 1,
};
