/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_model.c - forward and backward of any model, for a batch that is in memory:
 * what a training step computes before there is anything to synchronise.
 * bench/peers/ has the same in PyTorch. */
#include "bench.h"

#include "layers/compute.h"
#include "models/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

typedef struct trainee {
    gwt_model *model;
    uint32_t *labels;
    size_t batch;
} trainee;

/* "3x32x32", or fewer numbers: the rest is 1. */
static gw_status parse_sample(const char *text, gwt_shape *out)
{
    size_t channels = 0, height = 1, width = 1;
    char end;
    int got = sscanf(text, "%zux%zux%zu%c", &channels, &height, &width, &end);

    if (got < 1 || got > 3 || channels == 0 || height == 0 || width == 0)
        return gw_fail(GW_ERR_ARG,
                       "--sample: '%s' is not CHANNELSxHEIGHTxWIDTH, such as 3x32x32",
                       text);
    *out = (gwt_shape){channels, height, width};
    return GW_OK;
}

/* Pixels, or tokens of a vocabulary of that many. */
static void make_batch(trainee *t, const gwt_model_spec *spec, size_t floats,
                       uint64_t classes)
{
    float *x = gwt_model_input(t->model);

    for (size_t i = 0; i < t->batch * floats; i++) {
        uint64_t bits = gwt_random(1, 1, 1, i) >> 40;
        x[i] = spec->text ? (float)(bits % classes) : (float)bits * 0x1p-24f;
    }
    for (size_t i = 0; i < t->batch * gwt_model_outputs(t->model); i++)
        t->labels[i] = (uint32_t)(gwt_random(1, 1, 2, i) % classes);
}

static gw_status set_up(trainee *t, const gwb_settings *set)
{
    const gwt_model_spec *spec;
    gwt_shape sample;

    t->batch = (size_t)set->batch;
    GWI_TRY(gwt_model_find(set->model, &spec));
    GWI_TRY(parse_sample(set->sample, &sample));
    gwt_compute_threads(set->threads);
    GWI_TRY(
        gwt_model_make(&t->model, set->model, sample, (size_t)set->classes, t->batch));
    gwt_model_init(t->model, 1);
    t->labels = gwt_calloc(t->batch * gwt_model_outputs(t->model), sizeof *t->labels,
                           "a batch");
    if (t->labels == NULL)
        return GW_ERR_NOMEM;
    make_batch(t, spec, gwt_shape_floats(sample), set->classes);
    return gwt_model_warm(t->model, t->batch);
}

/* The process's time on a CPU; with more threads only the wall knows. */
static double clock_of(const gwb_settings *set)
{
    struct timespec t;

    if (set->threads != 1)
        return gwi_now();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gw_status measure(const trainee *t, const gwb_settings *set, double *best)
{
    gwt_pass pass = {.batch = t->batch, .training = 1};
    double start = gwi_now();
    gwt_score score;

    *best = (double)INFINITY;
    for (unsigned rounds = 0; gwb_more(set, rounds, start); rounds++) {
        double from = clock_of(set);
        GWI_TRY(gwt_model_train(t->model, t->labels, &pass, &score));
        *best = fmin(*best, clock_of(set) - from);
        pass.step++;
    }
    return GW_OK;
}

static gw_status add_row(gwb_sheet *sheet, const trainee *t)
{
    const gwb_settings *set = sheet->set;
    gwb_row row =
        gwb_row_new("model", gwt_model_floats(t->model), "%s, batch %" PRIu64 " of %s",
                    set->model, set->batch, set->sample);

    GWI_TRY(measure(t, set, &row.seconds));
    row.rate = (double)t->batch / row.seconds;
    row.unit = "samples/s";
    gwb_sheet_add(sheet, &row);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    trainee t = {0};
    gw_status st = set_up(&t, sheet->set);

    if (st == GW_OK)
        st = add_row(sheet, &t);
    gwt_model_free(t.model);
    gwt_free(t.labels);
    return st;
}

const gwb_group gwb_group_model = {
    .name = "model",
    .summary = "forward and backward pass of --model",
    .by_default = 0,
    .run = run,
};
