/* SPDX-License-Identifier: Apache-2.0
 *
 * model.c - a model in memory and one step through it.
 *
 * One arena holds every float of it (B is the largest batch, n the parameters):
 *
 *     params    n            the flat vector that is trained
 *     grad      n            its gradient, same layout
 *     stats     s, then      statistics of all layers, then
 *     carry     c            what they carry from batch to batch
 *     act[0]    B x input    the batch, filled by the caller
 *     act[l]    B x out(l)   what layer l made of it
 *     work      per layer    what its forward leaves for its backward
 *     delta[2]  B x widest   derivatives by the output and the input of the layer
 *                            that backward has reached, swapped from layer to layer
 */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = GWT_LAYERS_MAX, TENSOR_NAME_CAP = 48, LINE_FLOATS = 16 };

struct gwt_model {
    size_t layers, tensors, floats, stats_floats, carry_floats, max_batch, classes;
    size_t columns; /* outputs per label */
    gwt_loss loss;
    gwt_layer layer[LAYERS_MAX];
    gw_tensor tensor[LAYERS_MAX * GWT_PARAMS_MAX];
    size_t window[LAYERS_MAX * GWT_PARAMS_MAX];
    double bound[LAYERS_MAX * GWT_PARAMS_MAX], value[LAYERS_MAX * GWT_PARAMS_MAX];
    char name[LAYERS_MAX * GWT_PARAMS_MAX][TENSOR_NAME_CAP];
    gwt_layer_spec spec[LAYERS_MAX];

    float *params, *grad, *kept;
    float *act[LAYERS_MAX + 1];
    float *delta[2];
    float *arena;
};

static void add_tensors(gwt_model *m, const gwt_layer *layer)
{
    char number[12] = "";

    if (layer->spec->number != 0)
        snprintf(number, sizeof number, "%u", layer->spec->number);
    for (size_t i = 0; i < layer->params; i++) {
        const gwt_param *p = &layer->tensor[i];
        size_t t = m->tensors++;
        snprintf(m->name[t], TENSOR_NAME_CAP, "%s%s.%s", layer->spec->name, number,
                 p->name);
        m->tensor[t] = (gw_tensor){m->name[t], m->floats, p->rows, p->cols};
        m->window[t] = layer->window[i];
        m->bound[t] = p->bound;
        m->value[t] = p->value;
        m->floats += p->rows * p->cols;
    }
}

/* A size of 0 in the spec matches any size. */
static gw_status check_samples(const gwt_model_spec *spec, gwt_shape in)
{
    gwt_shape want = spec->in;

    if ((want.channels == 0 || want.channels == in.channels) &&
        (want.height == 0 || want.height == in.height) &&
        (want.width == 0 || want.width == in.width))
        return GW_OK;
    return gw_fail(
        GW_ERR_ARG,
        "model %s needs samples of %zu x %zu pixels, but these have %zu x %zu",
        spec->name, want.height, want.width, in.height, in.width);
}

/* Fills in the sizes of all layers and tensors. */
static gw_status plan(gwt_model *m, const gwt_model_spec *spec, const char *options,
                      gwt_shape in)
{
    size_t count = spec->count, block = 1;

    GWT_TRY(check_samples(spec, in));
    if (spec->make != NULL)
        GWT_TRY(spec->make(options, m->spec, &count));
    else
        memcpy(m->spec, spec->layers, count * sizeof *m->spec);
    for (size_t l = 0; l < count; l++) {
        gwt_layer *layer = &m->layer[m->layers++];
        if (m->spec[l].units == 0)
            m->spec[l].units = m->classes;
        layer->spec = &m->spec[l];
        layer->in = in;
        layer->in_block = block;
        layer->out_block = 1;
        layer->index = l;
        layer->classes = m->classes;
        layer->max_batch = m->max_batch;
        GWT_TRY(layer->spec->type->plan(layer));
        add_tensors(m, layer);
        m->stats_floats += layer->stats_floats;
        m->carry_floats += layer->carry_floats;
        in = layer->out;
        block = layer->out_block;
    }
    if (gwt_shape_floats(in) % m->columns != 0)
        return gw_fail(GW_ERR_ARG,
                       "model %s has %zu outputs, but there are %zu classes",
                       spec->name, gwt_shape_floats(in), m->columns);
    return GW_OK;
}

/* Whole cache lines, so that every block begins on one. */
static size_t lines(size_t floats)
{
    return (floats + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
}

static size_t widest(const gwt_model *m)
{
    size_t most = 0;

    for (size_t l = 0; l < m->layers; l++) {
        size_t out = gwt_shape_floats(m->layer[l].out);
        most = out > most ? out : most;
    }
    return most;
}

static size_t arena_floats(const gwt_model *m)
{
    size_t total = 2 * lines(m->floats) + lines(m->stats_floats + m->carry_floats) +
                   2 * lines(m->max_batch * widest(m)) +
                   lines(m->max_batch * gwt_shape_floats(m->layer[0].in));

    for (size_t l = 0; l < m->layers; l++)
        total += lines(m->max_batch * gwt_shape_floats(m->layer[l].out)) +
                 lines(m->layer[l].work_floats);
    return total;
}

static float *carve(float **at, size_t floats)
{
    float *block = *at;

    *at += lines(floats);
    return block;
}

/* Where each layer's statistics and carried values lie. */
static void share_kept(gwt_model *m)
{
    float *stats = m->kept, *carry = m->kept + m->stats_floats;

    for (size_t l = 0; l < m->layers; l++) {
        m->layer[l].stats = stats;
        m->layer[l].carry = carry;
        stats += m->layer[l].stats_floats;
        carry += m->layer[l].carry_floats;
    }
}

static void lay_out(gwt_model *m)
{
    float *at = m->arena, *param, *grad;

    param = m->params = carve(&at, m->floats);
    grad = m->grad = carve(&at, m->floats);
    m->kept = carve(&at, m->stats_floats + m->carry_floats);
    share_kept(m);
    m->act[0] = carve(&at, m->max_batch * gwt_shape_floats(m->layer[0].in));
    for (size_t l = 0; l < m->layers; l++) {
        gwt_layer *layer = &m->layer[l];
        m->act[l + 1] = carve(&at, m->max_batch * gwt_shape_floats(layer->out));
        layer->work = carve(&at, layer->work_floats);
        layer->param = param;
        layer->grad = grad;
        for (size_t i = 0; i < layer->params; i++) {
            param += layer->tensor[i].rows * layer->tensor[i].cols;
            grad += layer->tensor[i].rows * layer->tensor[i].cols;
        }
    }
    m->delta[0] = carve(&at, m->max_batch * widest(m));
    m->delta[1] = carve(&at, m->max_batch * widest(m));
}

static gw_status open_layers(gwt_model *m)
{
    for (size_t l = 0; l < m->layers; l++)
        if (m->layer[l].spec->type->open != NULL)
            GWT_TRY(m->layer[l].spec->type->open(&m->layer[l]));
    return GW_OK;
}

/* A model that is planned and has no memory for its floats. */
static gw_status outline(gwt_model **out, const gwt_model_spec *spec,
                         const char *options, gwt_shape in, size_t classes,
                         size_t max_batch)
{
    gwt_model *m;
    gw_status st;

    *out = NULL;
    GWT_TRY(gwt_loss_check(spec->loss, spec->name, classes));
    m = gwt_calloc(1, sizeof *m, "a model");
    if (m == NULL)
        return GW_ERR_NOMEM;
    m->classes = classes;
    m->columns = gwt_loss_outputs(spec->loss, classes);
    m->loss = spec->loss;
    m->max_batch = max_batch;
    st = plan(m, spec, options, in);
    if (st != GW_OK)
        gwt_model_free(m);
    else
        *out = m;
    return st;
}

gw_status gwt_model_check(const gwt_model_spec *spec, gwt_shape in, size_t classes)
{
    gwt_model *m;
    gw_status st = outline(&m, spec, NULL, in, classes, 1);

    gwt_model_free(m);
    return st;
}

static gw_status make_model(gwt_model **out, const gwt_model_spec *spec,
                            const char *options, gwt_shape in, size_t classes,
                            size_t max_batch)
{
    gwt_model *m;
    gw_status st;

    *out = NULL;
    GWT_TRY(outline(&m, spec, options, in, classes, max_batch));
    m->arena = gwt_calloc(arena_floats(m), sizeof(float), "a model's parameters");
    if (m->arena == NULL) {
        st = GW_ERR_NOMEM;
        goto fail;
    }
    lay_out(m);
    st = open_layers(m);
    if (st != GW_OK)
        goto fail;
    *out = m;
    return GW_OK;

fail:
    gwt_model_free(m);
    return st;
}

gw_status gwt_model_new(gwt_model **out, const gwt_model_spec *spec, gwt_shape in,
                        size_t classes, size_t max_batch)
{
    return make_model(out, spec, NULL, in, classes, max_batch);
}

gw_status gwt_model_outline(gwt_model **out, const char *name, gwt_shape in,
                            size_t classes)
{
    const char *options = strchr(name, ':');
    const gwt_model_spec *spec;

    *out = NULL;
    GWT_TRY(gwt_model_find(name, &spec));
    return outline(out, spec, options != NULL ? options + 1 : NULL, in, classes, 1);
}

gw_status gwt_model_make(gwt_model **out, const char *name, gwt_shape in,
                         size_t classes, size_t max_batch)
{
    const char *options = strchr(name, ':');
    const gwt_model_spec *spec;

    *out = NULL;
    GWT_TRY(gwt_model_find(name, &spec));
    return make_model(out, spec, options != NULL ? options + 1 : NULL, in, classes,
                      max_batch);
}

void gwt_model_free(gwt_model *model)
{
    if (model == NULL)
        return;
    for (size_t l = 0; l < model->layers; l++)
        if (model->layer[l].spec->type->close != NULL)
            model->layer[l].spec->type->close(&model->layer[l]);
    gwt_free(model->arena);
    gwt_free(model);
}

void gwt_model_init(gwt_model *model, uint64_t seed)
{
    for (size_t t = 0; t < model->tensors; t++) {
        const gw_tensor *tensor = &model->tensor[t];
        float *x = model->params + tensor->offset;
        for (size_t i = 0; i < tensor->rows * tensor->cols; i++) {
            /* 24 bits are exact in a float: k + 1/2 in units of 2^-23, less 1. */
            uint64_t bits = gwt_random(seed, GWT_STREAM_INIT, t, i) >> 40;
            double unit = ((double)bits + 0.5) * 0x1p-23 - 1.0;
            x[i] = (float)(model->value[t] + model->bound[t] * unit);
        }
    }
    memset(model->kept, 0, (model->stats_floats + model->carry_floats) * sizeof(float));
    for (size_t l = 0; l < model->layers; l++)
        if (model->layer[l].spec->type->begin != NULL)
            model->layer[l].spec->type->begin(&model->layer[l]);
}

size_t gwt_model_floats(const gwt_model *model)
{
    return model->floats;
}

float *gwt_model_params(gwt_model *model)
{
    return model->params;
}

float *gwt_model_grad(gwt_model *model)
{
    return model->grad;
}

const gw_tensor *gwt_model_tensors(const gwt_model *model, size_t *count)
{
    *count = model->tensors;
    return model->tensor;
}

const size_t *gwt_model_windows(const gwt_model *model)
{
    return model->window;
}

float *gwt_model_stats(gwt_model *model, size_t *floats)
{
    *floats = model->stats_floats;
    return model->kept;
}

float *gwt_model_carry(gwt_model *model, size_t *floats)
{
    *floats = model->carry_floats;
    return model->kept + model->stats_floats;
}

float *gwt_model_kept(gwt_model *model, size_t *floats)
{
    *floats = model->stats_floats + model->carry_floats;
    return model->kept;
}

void gwt_model_forget(gwt_model *model)
{
    memset(model->kept + model->stats_floats, 0, model->carry_floats * sizeof(float));
}

float *gwt_model_input(gwt_model *model)
{
    return model->act[0];
}

size_t gwt_model_max_batch(const gwt_model *model)
{
    return model->max_batch;
}

size_t gwt_model_outputs(const gwt_model *model)
{
    return gwt_shape_floats(model->layer[model->layers - 1].out) / model->columns;
}

static gw_status forward(gwt_model *m, const gwt_pass *pass)
{
    for (size_t l = 0; l < m->layers; l++) {
        const gwt_layer *layer = &m->layer[l];
        GWT_TRY(layer->spec->type->forward(layer, pass, m->act[l], m->act[l + 1]));
    }
    return GW_OK;
}

/* Begins with the derivative by the logits in delta[0]. */
static gw_status backward(gwt_model *m, const gwt_pass *pass)
{
    float *dout = m->delta[0], *din = m->delta[1];

    for (size_t l = m->layers; l-- > 0;) {
        const gwt_layer *layer = &m->layer[l];
        GWT_TRY(layer->spec->type->backward(layer, pass, m->act[l], m->act[l + 1], dout,
                                            l == 0 ? NULL : din));
        float *swap = dout;
        dout = din;
        din = swap;
    }
    return GW_OK;
}

static gwt_score loss_of(gwt_model *m, const uint32_t *labels, size_t batch,
                         float *delta)
{
    const float *out = m->act[m->layers];
    size_t rows = batch * gwt_model_outputs(m);

    if (m->loss == GWT_LOSS_LOGISTIC)
        return gwt_logistic_loss(out, labels, rows, delta);
    if (m->loss == GWT_LOSS_SQUARES)
        return gwt_squares_loss(out, labels, rows, delta);
    return gwt_softmax_loss(out, labels, rows, m->classes, delta);
}

gw_status gwt_model_train(gwt_model *model, const uint32_t *labels,
                          const gwt_pass *pass, gwt_score *score)
{
    GWT_TRY(forward(model, pass));
    *score = loss_of(model, labels, pass->batch, model->delta[0]);
    return backward(model, pass);
}

gw_status gwt_model_score(gwt_model *model, const uint32_t *labels, size_t batch,
                          gwt_score *score)
{
    GWT_TRY(forward(model, &(gwt_pass){.batch = batch}));
    *score = loss_of(model, labels, batch, NULL);
    return GW_OK;
}

/* Restores what the pass changed in the layers, since it is not part of the
 * training. */
gw_status gwt_model_warm(gwt_model *model, size_t batch)
{
    size_t kept = model->stats_floats + model->carry_floats;
    size_t outputs = gwt_model_outputs(model) * model->columns;
    gwt_pass pass = {.batch = batch, .training = 1};
    float *saved = gwt_calloc(kept + 1, sizeof *saved, "a model's statistics");
    gw_status st;

    if (saved == NULL)
        return GW_ERR_NOMEM;
    memcpy(saved, model->kept, kept * sizeof *saved);
    st = forward(model, &pass);
    if (st == GW_OK) {
        memcpy(model->delta[0], model->act[model->layers],
               batch * outputs * sizeof *saved);
        st = backward(model, &pass);
    }
    memcpy(model->kept, saved, kept * sizeof *saved);
    gwt_free(saved);
    return st;
}
