/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_beside.c - how long a step takes on a slow link with methods that exchange
 * beside computing, against computing alone.
 *
 * Four workers, each a process with a link of its own, take steps. Computing is a sleep
 * of the length that is given, as on a machine of the worker's own: here they would
 * share the processors. The exchanges are real, with all their coding, on an emulated
 * link. */
#define _GNU_SOURCE
#include "bench.h"

#include "models/model.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char *const link_text = "100mbit,20ms";
enum { WORKERS = 4, PERIOD = 30, PERIODS = 2, CLASSES = 10, VOCABULARY = 256 };

/* A model, and how long a step computes: about what 'gradwire bench model' measures on
 * one core of 2026 for batches of so many samples. */
typedef struct subject {
    const char *model;
    size_t sample[3];
    size_t classes, batch;
    double compute;
} subject;

static const subject subjects[] = {
    {"mlp", {1, 28, 28}, CLASSES, 512, 0.276},
    {"mlp", {1, 28, 28}, CLASSES, 1024, 0.541},
    {"transformer", {32, 1, 1}, VOCABULARY, 32, 0.055},
    {"transformer-10m", {128, 1, 1}, VOCABULARY, 8, 0.663},
};

static const struct method {
    const char *sync;
    double target; /* times computing */
} methods[] = {
    {"none", 0},
    {"diloco:30", 0},
    {"diloco:30,fragments=4", 0},
    {"diloco:30,fragments=4,delay=5", 1.05},
    {"sparseloco:30,fragments=4,delay=5", 1.05},
    {"topk:0.01", 0},
    {"topk:0.01,delay=1", 1.10},
};

/* What the workers know and tell. */
typedef struct board {
    const char *sync;
    const gw_tensor *tensors;
    size_t count, floats;
    double compute, took; /* of a step; by worker 0 */
    unsigned steps;
} board;

static void sleep_for(double seconds)
{
    struct timespec t = {(time_t)seconds,
                         (long)(1e9 * (seconds - (double)(time_t)seconds))};

    while (nanosleep(&t, &t) != 0)
        ;
}

/* Gradients that no step repeats, with a few large entries. */
static void fill(float *v, size_t n, uint64_t step, int rank)
{
    for (size_t i = 0; i < n; i++) {
        float u = (float)(gwt_random(step, (uint64_t)rank, 3, i) >> 40) * 0x1p-24f;
        v[i] = (u - 0.5f) * u * u * u * u;
    }
}

/* The vectors are made before a step, and are no part of its time. */
static gw_status steps(gw_comm *comm, gw_sync *s, float *x, float *g, board *b,
                       unsigned count, double compute)
{
    fill(g, b->floats, 1, gw_comm_rank(comm));
    GWI_TRY(gw_barrier(comm));
    double start = gwi_now();
    for (unsigned t = 0; t < count; t++) {
        sleep_for(compute);
        GWI_TRY(gw_sync_gradient(s, g));
        GWI_TRY(gw_sync_model(s, x));
    }
    if (gw_comm_rank(comm) == 0)
        b->took = (gwi_now() - start) / count;
    return GW_OK;
}

static gw_status with_sync(gw_comm *comm, gw_sync *s, board *b)
{
    float *x = gwi_calloc(2 * b->floats, sizeof *x);

    if (x == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a model");
    gw_status st = gw_sync_start(s, x);
    if (st == GW_OK) /* not counted */
        st = steps(comm, s, x, x + b->floats, b, PERIOD, 0);
    if (st == GW_OK)
        st = steps(comm, s, x, x + b->floats, b, b->steps, b->compute);
    gwi_free(x);
    return st;
}

static gw_status body(gw_comm *comm, void *arg)
{
    board *b = arg;
    gw_layout *layout;
    gw_sync *s;

    GWI_TRY(gw_layout_new(&layout, b->tensors, b->count));
    gw_status st = gw_sync_new(&s, b->sync, layout, comm, NULL);
    gw_layout_free(layout);
    GWI_TRY(st);
    st = with_sync(comm, s, b);
    gw_sync_free(s);
    return st;
}

static gw_status run_workers(board *b)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = WORKERS,
                            .spawn = GW_SPAWN_PROCESSES,
                            .link = link_text};
    board *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED)
        return gw_fail(GW_ERR_NOMEM, "no memory for results");
    *shared = *b;
    gw_status st = gw_local_run(&opt, body, shared);
    b->took = shared->took;
    munmap(shared, sizeof *shared);
    return st;
}

static gw_status measure(gwb_sheet *sheet, const subject *of, const struct method *m,
                         const gwt_model *model)
{
    int quick = sheet->set->quick;
    board b = {.sync = m->sync,
               .floats = gwt_model_floats(model),
               .compute = quick ? 1e-3 : of->compute,
               .steps = quick ? PERIOD : PERIODS * PERIOD};
    gwb_row row = gwb_row_new("beside", b.floats, "%s, batch %zu, %s", of->model,
                              of->batch, m->sync);

    b.tensors = gwt_model_tensors(model, &b.count);
    if (!gwb_wanted(sheet, row.name))
        return GW_OK;
    GWI_TRY(run_workers(&b));
    row.seconds = b.took;
    row.limit = "computing alone";
    row.limit_seconds = b.compute;
    row.ratio = b.took / b.compute;
    if (m->target > 0)
        row.target = m->target;
    gwb_sheet_add(sheet, &row);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    size_t count = sheet->set->quick ? 1 : COUNT(subjects);

    for (size_t i = 0; i < count; i++) {
        const subject *of = &subjects[i];
        gwt_shape sample = {of->sample[0], of->sample[1], of->sample[2]};
        gw_status st = GW_OK;
        gwt_model *model;
        const char *name = sheet->set->quick ? "fnn3" : of->model;
        GWI_TRY(gwt_model_make(&model, name, sample, of->classes, 1));
        for (size_t m = 0; st == GW_OK && m < COUNT(methods); m++)
            st = measure(sheet, of, &methods[m], model);
        gwt_model_free(model);
        GWI_TRY(st);
    }
    return GW_OK;
}

const gwb_group gwb_group_beside = {
    .name = "beside",
    .summary = "slow links, against computing alone",
    .run = run,
};
