/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluate.c - evaluates a model, or several that differ, on the test set.
 *
 * Workers with the same model divide the test set among them. Workers whose models
 * differ evaluate their own on all of it, and divide the evaluation of the average. A
 * divided evaluation uses the average of their statistics; after that each worker
 * continues with its own. */
#include "run/job.h"

#include <math.h>
#include <string.h>

enum { LABELS_CAP = 4096 };

const gwt_evaluation gwt_evaluation_none = {.loss = (double)NAN,
                                            .accuracy = (double)NAN,
                                            .workers_accuracy = (double)NAN,
                                            .workers_loss = (double)NAN,
                                            .drift = (double)NAN,
                                            .perplexity = (double)NAN};

double gwt_workers_perplexity(const gwt_evaluation *v)
{
    return isnan(v->perplexity) ? v->perplexity : exp(v->workers_loss);
}

/* Scores samples [begin, end) of the split. */
static gw_status score_range(gwt_score *sum, const gwt_data *data,
                             const gwt_split *split, gwt_model *model, size_t begin,
                             size_t end)
{
    size_t most = gwt_model_max_batch(model);
    uint32_t labels[LABELS_CAP];

    most = most < LABELS_CAP ? most : LABELS_CAP;
    *sum = (gwt_score){0};
    for (size_t i = begin; i < end; i += most) {
        size_t count = end - i < most ? end - i : most;
        gwt_score score;
        gwt_data_batch(data, split, NULL, i, count, gwt_model_input(model), labels);
        GWT_TRY(gwt_model_score(model, labels, count, &score));
        sum->loss += score.loss;
        sum->correct += score.correct;
        sum->count += score.count;
    }
    return GW_OK;
}

/* Scores one of `parts` parts of the split. */
static gw_status score_part(gwt_score *sum, const gwt_data *data,
                            const gwt_split *split, gwt_model *model, int part,
                            int parts)
{
    size_t begin, end;

    if (data->text)
        return gwt_score_text(sum, data, split, model, part, parts);
    gw_part(split->count, parts, part, &begin, &end);
    return score_range(sum, data, split, model, begin, end);
}

/* The same model everywhere: each worker takes its part. Counts below 2^24 are
 * exact in floats, and a part per worker stays far below. */
static gw_status score_shared(gwt_evaluation *out, gw_comm *comm, const gwt_data *data,
                              const gwt_split *split, gwt_model *model)
{
    double count = (double)(split->count * gwt_model_outputs(model));
    gwt_score score;

    GWT_TRY(score_part(&score, data, split, model, gw_comm_rank(comm),
                       gw_comm_workers(comm)));
    float sum[2] = {(float)score.loss, (float)score.correct};
    GWT_TRY(gw_allreduce(comm, sum, 2));
    out->loss = (double)sum[0] / count;
    out->accuracy = data->classes > 0 ? (double)sum[1] / count : (double)NAN;
    if (data->text)
        out->perplexity = exp(out->loss);
    return GW_OK;
}

static gw_status score_own(gwt_evaluation *out, gw_comm *comm, const gwt_data *data,
                           const gwt_split *split, gwt_model *model)
{
    gwt_score score;

    GWT_TRY(score_part(&score, data, split, model, 0, 1));
    float sum[2] = {(float)score.correct / (float)score.count,
                    (float)(score.loss / (double)score.count)};
    GWT_TRY(gw_allreduce(comm, sum, 2));
    out->workers_accuracy =
        data->classes > 0 ? (double)sum[0] / gw_comm_workers(comm) : (double)NAN;
    out->workers_loss = (double)sum[1] / gw_comm_workers(comm);
    return GW_OK;
}

/* Sets average to the mean of the workers' parameters x, and *drift to the root
 * mean square of their distances from it, in units of its length. */
static gw_status average_models(gw_comm *comm, const float *x, float *average, size_t n,
                                double *drift)
{
    float scale = 1.0f / (float)gw_comm_workers(comm);
    double apart = 0.0, length = 0.0;

    memcpy(average, x, n * sizeof *x);
    GWT_TRY(gw_allreduce(comm, average, n));
    for (size_t i = 0; i < n; i++) {
        average[i] *= scale;
        double d = (double)x[i] - (double)average[i];
        apart += d * d;
        length += (double)average[i] * (double)average[i];
    }
    float sum = (float)apart;
    GWT_TRY(gw_allreduce(comm, &sum, 1));
    *drift = length > 0.0 ? sqrt((double)(sum * scale) / length) : 0.0;
    return GW_OK;
}

static void swap_floats(float *restrict a, float *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float t = a[i];
        a[i] = b[i];
        b[i] = t;
    }
}

gw_status gwt_average_stats(gw_comm *comm, gwt_model *model, float *average)
{
    float scale = 1.0f / (float)gw_comm_workers(comm);
    size_t n;
    const float *stats = gwt_model_stats(model, &n);

    if (n == 0)
        return GW_OK;
    memcpy(average, stats, n * sizeof *stats);
    GWT_TRY(gw_allreduce(comm, average, n));
    for (size_t i = 0; i < n; i++)
        average[i] *= scale;
    return GW_OK;
}

/* During the evaluation, the average of the statistics replaces this worker's own. */
static gw_status score_together(gwt_evaluation *out, gw_comm *comm,
                                const gwt_data *data, const gwt_split *split,
                                gwt_model *model)
{
    size_t n;
    float *stats = gwt_model_stats(model, &n), *average;
    gw_status st;

    average = gwt_calloc(n + 1, sizeof *average, "a model's statistics");
    if (average == NULL)
        return GW_ERR_NOMEM;
    st = gwt_average_stats(comm, model, average);
    if (st == GW_OK) {
        swap_floats(stats, average, n);
        st = score_shared(out, comm, data, split, model);
        swap_floats(stats, average, n);
    }
    gwt_free(average);
    return st;
}

/* Methods with local steps leave the same model on all workers after an exchange. The
 * average may differ from it by rounding; that is then no such case, only slower. */
static int same_model(gwt_model *model, double drift)
{
    size_t stats;

    (void)gwt_model_stats(model, &stats);
    return drift == 0.0 && stats == 0;
}

/* What each worker would find on all of the test set is what all find together, so it
 * is not computed P times. */
static gw_status score_same(gwt_evaluation *out, gw_comm *comm, const gwt_data *data,
                            const gwt_split *split, gwt_model *model)
{
    GWT_TRY(score_shared(out, comm, data, split, model));
    out->workers_accuracy = out->accuracy;
    out->workers_loss = out->loss;
    return GW_OK;
}

gw_status gwt_evaluate(gwt_evaluation *out, gw_comm *comm, const gwt_data *data,
                       const gwt_split *split, gwt_model *model, int equal,
                       float *average)
{
    float *params = gwt_model_params(model);
    size_t n = gwt_model_floats(model);
    gw_status st;

    *out = gwt_evaluation_none;
    out->valid = split == &data->valid;
    if (equal)
        return score_together(out, comm, data, split, model);
    GWT_TRY(average_models(comm, params, average, n, &out->drift));
    if (same_model(model, out->drift))
        return score_same(out, comm, data, split, model);
    GWT_TRY(score_own(out, comm, data, split, model));
    /* The same with the parameters. */
    swap_floats(params, average, n);
    st = score_together(out, comm, data, split, model);
    swap_floats(params, average, n);
    return st;
}

uint64_t gwt_hash_more(uint64_t hash, const float *x, size_t n)
{
    const unsigned char *byte = (const unsigned char *)x;

    for (size_t i = 0; i < n * sizeof *x; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t gwt_hash(const float *x, size_t n)
{
    return gwt_hash_more(UINT64_C(0xcbf29ce484222325), x, n);
}
