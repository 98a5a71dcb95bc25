/* SPDX-License-Identifier: Apache-2.0
 *
 * plan_results.c - the results that advice is based on.
 *
 * The numbers are those of docs/results-optimizers.md and docs/results-methods.md. A
 * test computes them again from results/training.csv and results/methods.csv; if it
 * fails, it prints the rows as they should be. */
#include "plan/plan_results.h"

#include <math.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* What was trained. The names of tasks are those of reproduce/support/runs.py, except
 * for fashion-plain, which is in results/methods.csv. Params are those of the model. */
static const struct training {
    const char *task;
    gwc_family family;
    const char *model, *optimizer, *page;
    double params;
} trainings[] = {
    {"fashion-sgd", GWC_MOMENTUM_SGD, "FNN-3 on Fashion-MNIST", "SGD with momentum 0.9",
     "docs/results-optimizers.md", 199210},
    {"cnn-sgd", GWC_MOMENTUM_SGD, "a CNN on Fashion-MNIST", "SGD with momentum 0.9",
     "docs/results-optimizers.md", 421642},
    {"fashion-adam", GWC_ADAPTIVE, "FNN-3 on Fashion-MNIST", "Adam",
     "docs/results-optimizers.md", 199210},
    {"cnn-adam", GWC_ADAPTIVE, "a CNN on Fashion-MNIST", "Adam",
     "docs/results-optimizers.md", 421642},
    {"fashion-plain", GWC_PLAIN_SGD, "FNN-3 on Fashion-MNIST",
     "plain SGD, at a learning rate tuned for the method", "docs/results-methods.md",
     199210},
};

/* The mean accuracy of three seeds minus that of dense, in points. */
static const struct row {
    const char *task;
    int workers;
    const char *sync;
    double points;
} rows[] = {
    {"fashion-sgd", 2, "topk:0.01", 0.37},
    {"fashion-sgd", 2, "gtopk:0.01", 0.20},
    {"fashion-sgd", 2, "drop:0.99", 0.29},
    {"fashion-sgd", 2, "gtopk:0.001", 0.01},
    {"fashion-sgd", 2, "qsgd:4", 0.05},
    {"fashion-sgd", 2, "local:8", -0.31},
    {"fashion-sgd", 4, "topk:0.01", 0.30},
    {"fashion-sgd", 4, "gtopk:0.01", 0.15},
    {"fashion-sgd", 4, "drop:0.99", 0.34},
    {"fashion-sgd", 4, "gtopk:0.001", -0.46},
    {"fashion-sgd", 4, "qsgd:4", -0.03},
    {"fashion-sgd", 4, "local:8", -0.59},
    {"fashion-sgd", 8, "topk:0.01", -0.07},
    {"fashion-sgd", 8, "gtopk:0.01", -0.34},
    {"fashion-sgd", 8, "drop:0.99", -0.01},
    {"fashion-sgd", 8, "gtopk:0.001", -0.95},
    {"fashion-sgd", 8, "qsgd:4", 0.00},
    {"fashion-sgd", 8, "local:8", -0.75},
    {"cnn-sgd", 2, "topk:0.01", 0.19},
    {"cnn-sgd", 2, "gtopk:0.01", 0.24},
    {"cnn-sgd", 2, "drop:0.99", -0.02},
    {"cnn-sgd", 2, "gtopk:0.001", -0.28},
    {"cnn-sgd", 2, "qsgd:4", -0.17},
    {"cnn-sgd", 2, "local:8", -0.24},
    {"fashion-adam", 2, "topk:0.01", 0.22},
    {"fashion-adam", 2, "gtopk:0.01", 0.36},
    {"fashion-adam", 2, "drop:0.99", 0.26},
    {"fashion-adam", 2, "gtopk:0.001", 0.15},
    {"fashion-adam", 2, "qsgd:4", 0.08},
    {"fashion-adam", 2, "local:8", -0.13},
    {"fashion-adam", 4, "topk:0.01", 0.23},
    {"fashion-adam", 4, "gtopk:0.01", 0.09},
    {"fashion-adam", 4, "drop:0.99", 0.12},
    {"fashion-adam", 4, "gtopk:0.001", -0.69},
    {"fashion-adam", 4, "qsgd:4", -0.08},
    {"fashion-adam", 4, "local:8", -0.63},
    {"fashion-adam", 8, "topk:0.01", 0.01},
    {"fashion-adam", 8, "gtopk:0.01", -0.33},
    {"fashion-adam", 8, "drop:0.99", 0.04},
    {"fashion-adam", 8, "gtopk:0.001", -0.96},
    {"fashion-adam", 8, "qsgd:4", -0.25},
    {"fashion-adam", 8, "local:8", -1.51},
    {"cnn-adam", 2, "topk:0.01", 0.42},
    {"cnn-adam", 2, "gtopk:0.01", 0.27},
    {"cnn-adam", 2, "drop:0.99", 0.37},
    {"cnn-adam", 2, "gtopk:0.001", -0.07},
    {"cnn-adam", 2, "qsgd:4", -0.08},
    {"cnn-adam", 2, "local:8", -0.38},
    {"fashion-plain", 4, "a2sgd:resync=8", -0.58},
    {"fashion-plain", 4, "local:8", -0.65},
    {"fashion-plain", 4, "local:grow", -0.48},
    {"fashion-plain", 4, "spa:8", -0.54},
    {"fashion-plain", 4, "pqasgd:4,8", -0.55},
    {"fashion-plain", 4, "pqasgd:8,4", -0.72},
    {"fashion-plain", 4, "qsgd:4", 0.17},
    {"fashion-plain", 4, "topk:0.01", 0.92},
    {"fashion-plain", 4, "topk:0.001", 0.75},
    {"fashion-plain", 4, "gtopk:0.01", 0.75},
    {"fashion-plain", 4, "gtopk:0.01,putback=paper", 0.78},
    {"fashion-plain", 4, "gtopk:0.001", 0.47},
    {"fashion-plain", 4, "gtopk:0.001,putback=paper", 0.25},
    {"fashion-plain", 4, "gtopk:0.001+q:4", 0.56},
    {"fashion-plain", 4, "drop:0.99", 0.88},
    {"fashion-plain", 4, "drop:0.99+2bit", 0.90},
    {"fashion-plain", 8, "a2sgd:resync=8", -0.44},
    {"fashion-plain", 8, "local:8", -0.43},
    {"fashion-plain", 8, "local:grow", -0.16},
    {"fashion-plain", 8, "spa:8", -0.47},
    {"fashion-plain", 8, "pqasgd:4,8", -0.42},
    {"fashion-plain", 8, "pqasgd:8,4", -0.42},
    {"fashion-plain", 8, "qsgd:4", 0.08},
    {"fashion-plain", 8, "topk:0.01", 1.32},
    {"fashion-plain", 8, "topk:0.001", 0.83},
    {"fashion-plain", 8, "gtopk:0.01", 1.17},
    {"fashion-plain", 8, "gtopk:0.01,putback=paper", 1.00},
    {"fashion-plain", 8, "gtopk:0.001", 0.33},
    {"fashion-plain", 8, "gtopk:0.001,putback=paper", -0.56},
    {"fashion-plain", 8, "gtopk:0.001+q:4", 0.21},
    {"fashion-plain", 8, "drop:0.99", 1.36},
    {"fashion-plain", 8, "drop:0.99+2bit", 1.27},
};

static const struct training *training_of(const struct row *row)
{
    size_t i = 0;

    while (strcmp(trainings[i].task, row->task) != 0)
        i++;
    return &trainings[i];
}

/* Coding values once more changes no model. */
static void drop_code(char *spec)
{
    static const char code[] = ",code=entropy";

    for (char *at = spec; (at = strstr(at, code)) != NULL;)
        memmove(at, at + sizeof code - 1, strlen(at + sizeof code - 1) + 1);
}

/* Specs train the same if they are the same once all defaults are written out. */
static int same_spec(const char *a, const char *b)
{
    char whole[2][256];

    if (gw_spec_check(a, whole[0], sizeof whole[0]) != GW_OK ||
        gw_spec_check(b, whole[1], sizeof whole[1]) != GW_OK)
        return 0;
    drop_code(whole[0]);
    drop_code(whole[1]);
    return strcmp(whole[0], whole[1]) == 0;
}

static int fits(const struct row *row, gwc_family family, const char *sync)
{
    return training_of(row)->family == family && same_spec(row->sync, sync);
}

/* How far apart two numbers of workers are: 4 is as far from 2 as from 8. */
static double distance(int a, int b)
{
    return fabs(log2((double)a / (double)b));
}

static int nearest_workers(gwc_family family, int workers, const char *sync)
{
    int best = 0;

    for (size_t i = 0; i < COUNT(rows); i++)
        if (fits(&rows[i], family, sync) &&
            (best == 0 || distance(rows[i].workers, workers) < distance(best, workers)))
            best = rows[i].workers;
    return best;
}

static void take(gwc_results *out, const struct row *row)
{
    const struct training *training = training_of(row);

    out->trainings = out->found ? "FNN-3 and a CNN on Fashion-MNIST" : training->model;
    out->worst = out->found ? fmin(out->worst, row->points) : row->points;
    out->best = out->found ? fmax(out->best, row->points) : row->points;
    out->optimizer = training->optimizer;
    out->page = training->page;
    out->found = 1;
}

gwc_results gwc_results_find(gwc_family family, int workers, const char *sync)
{
    gwc_results out = {.workers = nearest_workers(family, workers, sync)};

    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].workers == out.workers && fits(&rows[i], family, sync))
            take(&out, &rows[i]);
    return out;
}

int gwc_results_workers_most(void)
{
    int most = 0;

    for (size_t i = 0; i < COUNT(rows); i++)
        most = rows[i].workers > most ? rows[i].workers : most;
    return most;
}

double gwc_results_params_most(void)
{
    double most = 0.0;

    for (size_t i = 0; i < COUNT(trainings); i++)
        most = fmax(most, trainings[i].params);
    return most;
}
