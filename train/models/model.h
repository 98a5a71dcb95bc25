/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - models by name, their parameters, and one step through them. */
#ifndef GWT_MODEL_H
#define GWT_MODEL_H

#include "layers/layer.h"
#include "models/loss.h"

enum { GWT_LAYERS_MAX = 128 };

/* A model as it is listed: name, what it is, its layers in order. */
typedef struct gwt_model_spec {
    const char *name;
    const char *summary;
    const gwt_layer_spec *layers;
    size_t count;
    gwt_loss loss; /* softmax if nothing is said */
    gwt_shape in;  /* what samples must be; 0: any number will do */

    /* For models with options, instead of layers and count: writes the list that
     * options, the text after ':' or NULL, ask for. GW_ERR_ARG. */
    gw_status (*make)(const char *options, gwt_layer_spec list[GWT_LAYERS_MAX],
                      size_t *count);
    const char *usage; /* "lstm:200|650|1500"; NULL: takes no options */
    int text;          /* whether it reads rows of tokens */
} gwt_model_spec;

/* Those of other files than models.c. */
extern const gwt_model_spec gwt_model_cnn;
extern const gwt_model_spec gwt_model_resnet20;
extern const gwt_model_spec gwt_model_vgg16;
extern const gwt_model_spec gwt_model_lstm;
extern const gwt_model_spec gwt_model_transformer, gwt_model_transformer_10m,
    gwt_model_transformer_30m;

/* The i-th model, NULL past the end. */
const gwt_model_spec *gwt_model_at(size_t i);

/* Finds the model by name and checks the options after ':'. The message of GW_ERR_ARG
 * suggests a similar name. */
gw_status gwt_model_find(const char *name, const gwt_model_spec **out);

typedef struct gwt_model gwt_model;

/* Whether the model can be made for samples of shape `in` and that many classes;
 * GW_ERR_ARG says what does not fit. Computes nothing. */
gw_status gwt_model_check(const gwt_model_spec *spec, gwt_shape in, size_t classes);

/* A model by name of which only the number of parameters, the tensors and the number
 * of statistics can be asked, with options where the name has some: it has no values
 * and computes nothing. GW_ERR_ARG, GW_ERR_NOMEM. */
gw_status gwt_model_outline(gwt_model **out, const char *name, gwt_shape in,
                            size_t classes);

/* Makes the model for samples of shape `in` and that many classes, for batches of
 * at most max_batch; classes is 0 if numbers are predicted. Parameters are 0 until
 * gwt_model_init(). No later call allocates. GW_ERR_ARG, GW_ERR_NOMEM. */
gw_status gwt_model_new(gwt_model **out, const gwt_model_spec *spec, gwt_shape in,
                        size_t classes, size_t max_batch);
void gwt_model_free(gwt_model *model);

/* The same by name, with options where the name has some. */
gw_status gwt_model_make(gwt_model **out, const char *name, gwt_shape in,
                         size_t classes, size_t max_batch);

/* Sets the parameters from seed alone. */
void gwt_model_init(gwt_model *model, uint64_t seed);

/* How many parameters; the flat vectors of parameters and of gradients; the
 * tensors they consist of, for gw_layout_new(), valid as long as the model. */
size_t gwt_model_floats(const gwt_model *model);
float *gwt_model_params(gwt_model *model);
float *gwt_model_grad(gwt_model *model);
const gw_tensor *gwt_model_tensors(const gwt_model *model, size_t *count);

/* For each tensor the width of its window, if it is the weight of a convolution, whose
 * columns are channels x window x window; otherwise 0. */
const size_t *gwt_model_windows(const gwt_model *model);

/* What belongs to the model but is not trained: statistics of the data, which are
 * averaged over the workers when it is evaluated, and what layers carry from one
 * batch to the next, which is each worker's own. Both in one vector, statistics
 * first. */
float *gwt_model_stats(gwt_model *model, size_t *floats);
float *gwt_model_carry(gwt_model *model, size_t *floats);
float *gwt_model_kept(gwt_model *model, size_t *floats);

/* Clears the carried state, so that the next batch does not continue another one. */
void gwt_model_forget(gwt_model *model);

/* Where the caller puts its batch: max_batch x floats of a sample. */
float *gwt_model_input(gwt_model *model);
size_t gwt_model_max_batch(const gwt_model *model);

/* How many labels a sample has: one, or one per token of a text. */
size_t gwt_model_outputs(const gwt_model *model);

/* Scores the first samples of the input against their labels. gwt_model_train()
 * also sets the gradient of their mean loss; pass->training is 1 for it. */
gw_status gwt_model_train(gwt_model *model, const uint32_t *labels,
                          const gwt_pass *pass, gwt_score *score);
gw_status gwt_model_score(gwt_model *model, const uint32_t *labels, size_t batch,
                          gwt_score *score);

/* Runs one step of that batch size with whatever is in the input, so that the engine is
 * prepared before the first real step. GW_ERR_NOMEM. */
gw_status gwt_model_warm(gwt_model *model, size_t batch);

#endif
