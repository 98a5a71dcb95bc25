/* SPDX-License-Identifier: Apache-2.0
 *
 * gradients.c - the gradients of FNN-3 in training. */
#include "gradients.h"

#include "layers/compute.h"
#include "data/data.h"
#include "optim/optimizer.h"

#include <string.h>

struct gwb_net {
    gwt_data data;
    const char *source;
    gwt_model *model;
    const gwt_optimizer *sgd;
    uint32_t *labels;
    size_t batch, next; /* the first sample of the next batch */
};

enum { WARM_STEPS = 100 };

static const double rate = 0.05;

static gw_status load(gwb_net *net)
{
    net->source = "fashion-mnist";
    if (gwt_data_load(&net->data, net->source, NULL) == GW_OK)
        return GW_OK;
    net->source = "synthetic";
    return gwt_data_load(&net->data, "synthetic:dim=784,classes=10", NULL);
}

static gw_status set_up(gwb_net *net)
{
    const gwt_model_spec *spec;

    gwt_compute_threads(1);
    GWI_TRY(load(net));
    GWI_TRY(gwt_model_find("fnn3", &spec));
    GWI_TRY(gwt_optimizer_find("sgd", &net->sgd));
    GWI_TRY(gwt_model_new(&net->model, spec, net->data.shape, net->data.classes,
                          net->batch));
    gwt_model_init(net->model, 1);
    net->labels = gwt_calloc(net->batch, sizeof *net->labels, "a batch");
    if (net->labels == NULL)
        return GW_ERR_NOMEM;
    GWI_TRY(gwt_model_warm(net->model, net->batch));
    for (int i = 0; i < WARM_STEPS; i++) {
        gwb_net_batch(net);
        GWI_TRY(gwb_net_step(net, NULL));
    }
    return GW_OK;
}

gw_status gwb_net_new(gwb_net **out, size_t batch)
{
    gwb_net *net = gwt_calloc(1, sizeof *net, "a network");
    gw_status st;

    *out = NULL;
    if (net == NULL)
        return GW_ERR_NOMEM;
    net->batch = batch;
    st = set_up(net);
    if (st != GW_OK) {
        gwb_net_free(net);
        return st;
    }
    *out = net;
    return GW_OK;
}

void gwb_net_free(gwb_net *net)
{
    if (net == NULL)
        return;
    gwt_model_free(net->model);
    gwt_data_free(&net->data);
    gwt_free(net->labels);
    gwt_free(net);
}

const char *gwb_net_data(const gwb_net *net)
{
    return net->source;
}

gwt_model *gwb_net_model(gwb_net *net)
{
    return net->model;
}

void gwb_net_batch(gwb_net *net)
{
    if (net->next + net->batch > net->data.train.count)
        net->next = 0;
    gwt_data_batch(&net->data, &net->data.train, NULL, net->next, net->batch,
                   gwt_model_input(net->model), net->labels);
    net->next += net->batch;
}

gw_status gwb_net_step(gwb_net *net, gw_sync *sync)
{
    const gwt_hyper plain = {0};
    float *params = gwt_model_params(net->model), *grad = gwt_model_grad(net->model);
    gwt_score score;

    gwt_pass pass = {.batch = net->batch, .training = 1};
    GWI_TRY(gwt_model_train(net->model, net->labels, &pass, &score));
    if (sync != NULL)
        GWI_TRY(gw_sync_gradient(sync, grad));
    net->sgd->step(params, grad, NULL, gwt_model_floats(net->model), rate, 0, &plain);
    return sync != NULL ? gw_sync_model(sync, params) : GW_OK;
}

gw_status gwb_net_fill(gwb_net *net, float *g, size_t n, size_t stride)
{
    size_t floats = gwt_model_floats(net->model);

    for (size_t at = 0; at < n; at += stride) {
        size_t count = n - at < floats ? n - at : floats;
        gwb_net_batch(net);
        GWI_TRY(gwb_net_step(net, NULL));
        memcpy(g + at, gwt_model_grad(net->model), count * sizeof *g);
    }
    return GW_OK;
}
