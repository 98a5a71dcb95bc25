/* SPDX-License-Identifier: Apache-2.0
 *
 * models.c - the table of models. To add one, write the list of its layers and add one
 * line to the table. A model with options has a function that writes the list
 * (models_text.c). model.c runs models. */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const gwt_layer_spec softmax[] = {
    {.type = &gwt_layer_dense, .name = "fc"},
};

static const gwt_layer_spec linear[] = {
    {.type = &gwt_layer_dense, .name = "fc", .units = 1},
};

static const gwt_layer_spec fnn3[] = {
    {.type = &gwt_layer_dense, .name = "fc1", .units = 200, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc2", .units = 200, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc3"},
};

/* Ten million parameters on 784 inputs: enough for a step to need a fast network. */
static const gwt_layer_spec mlp[] = {
    {.type = &gwt_layer_dense, .name = "fc1", .units = 2048, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc2", .units = 2048, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc3", .units = 2048, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc4"},
};

static const gwt_layer_spec wide_mlp[] = {
    {.type = &gwt_layer_dense, .name = "fc1", .units = 4096, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc2", .units = 4096, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc3", .units = 4096, .relu = 1},
    {.type = &gwt_layer_dense, .name = "fc4"},
};

static const gwt_model_spec *const table[] = {
    &(const gwt_model_spec){.name = "softmax",
                            .summary = "multinomial logistic regression",
                            .layers = softmax,
                            .count = COUNT(softmax)},
    &(const gwt_model_spec){.name = "fnn3",
                            .summary = "three dense layers, 200-200-classes, ReLU",
                            .layers = fnn3,
                            .count = COUNT(fnn3)},
    &(const gwt_model_spec){.name = "mlp",
                            .summary =
                                "four dense layers, 2048-2048-2048-classes, ReLU",
                            .layers = mlp,
                            .count = COUNT(mlp)},
    &(const gwt_model_spec){.name = "wide-mlp",
                            .summary =
                                "four dense layers, 4096-4096-4096-classes, ReLU",
                            .layers = wide_mlp,
                            .count = COUNT(wide_mlp)},
    &gwt_model_cnn,
    &gwt_model_resnet20,
    &gwt_model_vgg16,
    &(const gwt_model_spec){.name = "logistic",
                            .summary = "logistic regression for two classes",
                            .layers = linear,
                            .count = COUNT(linear),
                            .loss = GWT_LOSS_LOGISTIC},
    &(const gwt_model_spec){.name = "least-squares",
                            .summary = "linear regression",
                            .layers = linear,
                            .count = COUNT(linear),
                            .loss = GWT_LOSS_SQUARES},
    &gwt_model_lstm,
    &gwt_model_transformer,
    &gwt_model_transformer_10m,
    &gwt_model_transformer_30m,
};

const gwt_model_spec *gwt_model_at(size_t i)
{
    return i < COUNT(table) ? table[i] : NULL;
}

/* Checks whether the model accepts the options, which are NULL if there are none. */
static gw_status check_options(const gwt_model_spec *spec, const char *options)
{
    gwt_layer_spec list[GWT_LAYERS_MAX];
    size_t count;

    if (spec->make != NULL)
        return spec->make(options, list, &count);
    if (options != NULL)
        return gw_fail(GW_ERR_ARG, "model %s takes no options, but ':%s' was given",
                       spec->name, options);
    return GW_OK;
}

gw_status gwt_model_find(const char *name, const gwt_model_spec **out)
{
    size_t len = strcspn(name, ":");
    const char *names[COUNT(table)];

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i]->name;
        if (strlen(names[i]) == len && strncmp(names[i], name, len) == 0) {
            *out = table[i];
            return check_options(*out, name[len] == ':' ? name + len + 1 : NULL);
        }
    }
    return gwt_fail_name("model", name, names, COUNT(table), "'gradwire list'");
}
