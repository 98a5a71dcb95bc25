/* SPDX-License-Identifier: Apache-2.0
 *
 * stepping.c - the parts of a step that a worker makes by itself: the gradient of a
 * batch, and the optimizer's step. */
#define _GNU_SOURCE
#include <math.h>

#include "run/advice.h"
#include "data/augment.h"
#include "optim/clip.h"
#include "data/shuffle.h"
#include "run/worker.h"

typedef gwt_worker worker;

/* Treats the batch of the model's input, which begins at `first` of the order. */
static void augment(worker *w, uint64_t epoch, size_t first)
{
    const gwt_job *job = w->job;
    gwt_shape shape = job->data.shape;
    float *x = gwt_model_input(w->model);

    for (size_t i = 0; i < job->config.batch; i++)
        gwt_augment(x + i * gwt_shape_floats(shape), shape, job->augment,
                    job->config.seed, epoch, w->order[first + i]);
}

/* The order of samples in epoch `epoch`: shuffled, or in columns for models that
 * carry a state, which ends with the epoch. */
static void begin_epoch(worker *w, uint64_t epoch)
{
    const gwt_job *job = w->job;
    size_t floats;

    gwt_model_carry(w->model, &floats);
    if (floats > 0)
        gwt_columns(w->order, job->data.train.count,
                    (size_t)job->config.batch * (size_t)job->config.workers);
    else
        gwt_shuffle(w->order, job->data.train.count, job->config.seed, epoch);
    w->shuffled = 1 + epoch;
}

static void clip_gradient(worker *w, double most)
{
    if (most > 0.0)
        gwt_clip(gwt_model_grad(w->model), gwt_model_floats(w->model), most);
}

/* Of a worker's own gradient, instead of the average of P, which has 1 / sqrt(P) of the
 * noise: with the limit of the average, workers would lose what the average keeps. */
static double own_limit(const worker *w)
{
    return w->job->config.clip * sqrt((double)gw_comm_workers(w->comm));
}

GWT_VECTOR static void add_scaled(float *restrict g, const float *restrict x, size_t n,
                                  float factor)
{
    for (size_t i = 0; i < n; i++)
        g[i] += factor * x[i];
}

/* Does what an optimizer does before its momentum, if the sync has the momentum; see
 * gwt_momentum_moved(). */
static void lead_gradient(worker *w)
{
    double decay = w->job->config.hyper.weight_decay;

    if (!gwt_momentum_moved(w->job))
        return;
    clip_gradient(w, own_limit(w));
    if (decay > 0.0)
        add_scaled(gwt_model_grad(w->model), gwt_model_params(w->model),
                   gwt_model_floats(w->model), (float)decay);
}

gw_status gwt_worker_compute(gwt_worker *w, const gwt_batch *b, gwt_score *score)
{
    const gwt_job *job = w->job;
    size_t batch = (size_t)job->config.batch;

    if (w->shuffled != 1 + b->epoch)
        begin_epoch(w, b->epoch);
    if (b->begins)
        gwt_model_forget(w->model);
    gwt_data_batch(&job->data, &job->data.train, w->order, b->first, batch,
                   gwt_model_input(w->model), w->labels);
    if (job->augment != GWT_AUGMENT_NONE)
        augment(w, b->epoch, b->first);
    gwt_pass pass = {.batch = batch,
                     .training = 1,
                     .seed = job->config.seed,
                     .step = b->step,
                     .worker = (uint64_t)gw_comm_rank(w->comm),
                     .dropout = job->config.dropout};
    GWT_TRY(gwt_model_train(w->model, w->labels, &pass, score));
    lead_gradient(w);
    return GW_OK;
}

double gwt_rate_of(const gwt_job *job, uint64_t t)
{
    return job->config.lr * gwt_schedule_factor(&job->schedule, t);
}

void gwt_worker_apply(gwt_worker *w, uint64_t t)
{
    const gwt_job *job = w->job;
    gwt_hyper hyper = gwt_hyper_used(job);

    if (!gwt_momentum_moved(job))
        clip_gradient(w, job->config.clip);
    /* A sync that applies steps several times applies the decay once. */
    if (job->optimizer->decays_itself)
        hyper.weight_decay /= gw_sync_scale(w->sync);
    hyper.lent = gw_sync_momentum(w->sync);
    w->lr = gwt_rate_of(job, t);
    job->optimizer->step(gwt_model_params(w->model), gwt_model_grad(w->model), w->slot,
                         gwt_model_floats(w->model), w->lr, w->applied++, &hyper);
}

void gwt_worker_add_loss(gwt_worker *w, int begins, const gwt_score *score)
{
    double loss = score->loss / (double)score->count;

    if (begins)
        w->epoch = (gwt_mean){0};
    w->epoch.sum += loss;
    w->epoch.count += 1.0;
    w->logged.sum += loss;
    w->logged.count += 1.0;
}
