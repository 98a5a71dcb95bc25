/* SPDX-License-Identifier: Apache-2.0
 *
 * twin_driver.c - trains a model for a few steps on made-up batches and writes down all
 * that a twin in another framework needs to do the same, and what came out.
 * tests/train/test_torch_twins.py reads it:
 *
 *     one line of JSON: tensors, steps, batch, input, outputs
 *     params   f32      as they begin
 *     per step          batch x input f32, batch x outputs u32 (labels)
 *     gradient f32      of the first step; it comes after the first batch
 *     losses   f64      one per step, then that of the last batch in evaluation
 *
 *   twin_driver MODEL CHANNELS HEIGHT WIDTH CLASSES BATCH STEPS LR IDS FILE
 *               OPTIMIZER MOMENTUM DECAY NESTEROV
 *
 * With IDS other than 0 inputs are whole numbers below it. */
#include "layers/compute.h"
#include "models/model.h"
#include "optim/optimizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 3, STREAM = 1234, ARGS = 15 };

typedef struct twin {
    gwt_model *model;
    size_t input, outputs, classes, batch, steps, ids;
    double lr;
    const gwt_optimizer *optimizer;
    gwt_hyper hyper;
    float *state; /* of the optimizer: GWT_SLOTS_MAX vectors */
    uint32_t *labels;
    double *losses;
    FILE *file;
} twin;

static size_t whole(const char *text)
{
    return (size_t)strtoull(text, NULL, 10);
}

static gw_status set_up_optimizer(twin *t, char **argv)
{
    size_t n = gwt_model_floats(t->model);

    t->hyper = (gwt_hyper){.momentum = strtod(argv[12], NULL),
                           .weight_decay = strtod(argv[13], NULL),
                           .nesterov = whole(argv[14]) != 0};
    GWT_TRY(gwt_optimizer_find(argv[11], &t->optimizer));
    GWT_TRY(gwt_hyper_check(&t->hyper, t->optimizer));
    t->state = gwt_calloc(GWT_SLOTS_MAX * n, sizeof *t->state, "the optimizer");
    return t->state != NULL ? GW_OK : GW_ERR_NOMEM;
}

static gw_status set_up(twin *t, char **argv)
{
    gwt_shape in = {whole(argv[2]), whole(argv[3]), whole(argv[4])};

    t->classes = whole(argv[5]);
    t->batch = whole(argv[6]);
    t->steps = whole(argv[7]);
    t->lr = strtod(argv[8], NULL);
    t->ids = whole(argv[9]);
    t->input = gwt_shape_floats(in);
    gwt_compute_threads(1);
    GWT_TRY(gwt_model_make(&t->model, argv[1], in, t->classes, t->batch));
    gwt_model_init(t->model, SEED);
    GWT_TRY(set_up_optimizer(t, argv));
    t->outputs = gwt_model_outputs(t->model);
    t->labels = gwt_calloc(t->batch * t->outputs, sizeof *t->labels, "labels");
    t->losses = gwt_calloc(t->steps + 1, sizeof *t->losses, "losses");
    if (t->labels == NULL || t->losses == NULL)
        return GW_ERR_NOMEM;
    t->file = fopen(argv[10], "wb");
    return t->file != NULL ? GW_OK
                           : gw_fail(GW_ERR_SYSTEM, "cannot write %s", argv[10]);
}

static void write_head(const twin *t)
{
    size_t count;
    const gw_tensor *tensor = gwt_model_tensors(t->model, &count);

    fprintf(t->file,
            "{\"steps\": %zu, \"batch\": %zu, \"input\": %zu, \"outputs\": %zu, "
            "\"params\": %zu, \"tensors\": [",
            t->steps, t->batch, t->input, t->outputs, gwt_model_floats(t->model));
    for (size_t i = 0; i < count; i++)
        fprintf(t->file, "%s[\"%s\", %zu, %zu]", i == 0 ? "" : ", ", tensor[i].name,
                tensor[i].rows, tensor[i].cols);
    fprintf(t->file, "]}\n");
    fwrite(gwt_model_params(t->model), sizeof(float), gwt_model_floats(t->model),
           t->file);
}

static void make_batch(const twin *t, uint64_t step)
{
    float *x = gwt_model_input(t->model);

    for (size_t i = 0; i < t->batch * t->input; i++) {
        uint64_t bits = gwt_random(SEED, STREAM, step, i) >> 40;
        x[i] = t->ids != 0 ? (float)(bits % t->ids) : (float)bits * 0x1p-23f - 1.0f;
    }
    for (size_t i = 0; i < t->batch * t->outputs; i++)
        t->labels[i] = (uint32_t)(gwt_random(SEED, STREAM + 1, step, i) % t->classes);
    fwrite(x, sizeof *x, t->batch * t->input, t->file);
    fwrite(t->labels, sizeof *t->labels, t->batch * t->outputs, t->file);
}

static gw_status train(twin *t)
{
    float *params = gwt_model_params(t->model), *grad = gwt_model_grad(t->model);
    size_t n = gwt_model_floats(t->model);
    float *slot[GWT_SLOTS_MAX] = {t->state, t->state + n};
    gwt_score score;

    for (size_t step = 0; step < t->steps; step++) {
        gwt_pass pass = {.batch = t->batch, .training = 1, .step = step};
        make_batch(t, step);
        GWT_TRY(gwt_model_train(t->model, t->labels, &pass, &score));
        t->losses[step] = score.loss / (double)score.count;
        if (step == 0)
            fwrite(grad, sizeof *grad, n, t->file);
        t->optimizer->step(params, grad, slot, n, t->lr, step, &t->hyper);
    }
    GWT_TRY(gwt_model_score(t->model, t->labels, t->batch, &score));
    t->losses[t->steps] = score.loss / (double)score.count;
    return GW_OK;
}

int main(int argc, char **argv)
{
    twin t = {0};
    gw_status st;

    if (argc != ARGS)
        return 2;
    st = set_up(&t, argv);
    if (st == GW_OK) {
        write_head(&t);
        st = train(&t);
        fwrite(t.losses, sizeof *t.losses, t.steps + 1, t.file);
    }
    if (t.file != NULL && fclose(t.file) != 0 && st == GW_OK)
        st = gw_fail(GW_ERR_SYSTEM, "cannot write %s", argv[10]);
    gwt_model_free(t.model);
    gwt_free(t.state);
    gwt_free(t.labels);
    gwt_free(t.losses);
    if (st == GW_OK)
        return 0;
    fprintf(stderr, "twin_driver: %s\n", gw_error_message());
    return 1;
}
