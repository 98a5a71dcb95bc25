/* SPDX-License-Identifier: Apache-2.0
 *
 * oracle_driver.c - runs one spec on made-up gradients and records what went in and
 * what came out, for tests/sync/test_oracle.py to compare with slow simulations.
 *
 *     oracle_driver SPEC WORKERS STEPS SEED OUT [MODEL] [WORD...]
 *     oracle_driver recipes                     prints their names
 *
 * MODEL is small, tiny or large. Words change the gradients: "grid" rounds them to
 * eighths, so that magnitudes tie and sums are exact; "fixed" repeats those of step
 * 0; "drain=K" makes them 0 from step K on; "few" makes all but two of 64 coordinates
 * 0, others for every other worker. Exit status 3: the build lacks the spec.
 *
 * The file, all little-endian (f32 of n floats each, n the sum of rows * cols):
 *
 *     u32  magic, workers, steps, tensors
 *     u32  rows, cols                           of each tensor
 *     f32  the model all workers begin with
 *     then for each step and each worker:
 *     u64  bytes sent by gw_sync_gradient(), by gw_sync_model()
 *     f32  gradient, update, model before and after gw_sync_model()
 *     and at the end for each worker:
 *     u64  bytes sent by gw_sync_finish()
 *     f32  the model that it left
 *
 * tests/oracle/recording.py reads it and knows the same gradients. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradwire.h"

enum { MAGIC = 0x524f5747, MAX_TENSORS = 8, BAD_USAGE = 2, ABSENT = 3 };
enum { START, CURVE, HOME, NOISE }; /* What a random number is for. */
enum { GRADIENT, UPDATE, BEFORE, AFTER, VECTORS };

#define RATE 0.05f

typedef struct job {
    const char *spec;
    uint32_t workers, steps, seed;
    uint32_t shape[MAX_TENSORS][2], tensors;
    size_t n;
    int grid, fixed, few;
    uint32_t drain;         /* gradients are 0 from this step on */
    float *start;           /* n */
    float *vectors;         /* steps x workers x VECTORS x n */
    uint64_t *bytes;        /* steps x workers x 2 */
    float *finish;          /* workers x n */
    uint64_t *finish_bytes; /* workers */
} job;

static const struct model {
    const char *name;
    uint32_t shape[MAX_TENSORS][2], tensors;
} models[] = {
    {"small", {{40, 30}, {1, 30}, {30, 17}, {1, 17}, {64, 64}}, 5},
    {"tiny", {{3, 2}, {1, 2}, {1, 1}}, 3},
    {"large", {{500, 300}, {1, 300}, {300, 400}}, 3},
};

/* A bijection of 32 bits in which every bit reaches every other. */
static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * UINT32_C(0x7feb352d);
    x = (x ^ (x >> 15)) * UINT32_C(0x846ca68b);
    return x ^ (x >> 16);
}

static uint32_t key_of(uint32_t seed, uint32_t use, uint32_t worker, uint32_t step)
{
    return mix(mix(mix(mix(seed) + use) + worker) + step);
}

/* A float from 0 to below 1, exact in 24 bits. */
static float unit(uint32_t key, uint32_t i)
{
    return (float)(mix(mix(i + key) + key) >> 8) * 0x1p-24f;
}

/* The gradient of a bowl that is each worker's own, with noise of long tails. Every
 * 16th coordinate is dead. */
static void compute_gradient(const job *j, uint32_t worker, uint32_t step,
                             const float *x, float *g)
{
    uint32_t time = j->fixed ? 0 : step;
    uint32_t curve = key_of(j->seed, CURVE, worker, 0);
    uint32_t home = key_of(j->seed, HOME, worker, 0);
    uint32_t noise = key_of(j->seed, NOISE, worker, time);

    for (uint32_t i = 0; i < j->n; i++) {
        float c = unit(curve, i), e = unit(noise, i) - 0.5f;
        float a = 0.1f + 0.9f * (c * c * c);
        float from_home = (j->fixed ? j->start[i] : x[i]) - (unit(home, i) - 0.5f);

        g[i] = a * from_home + 4.0f * (e * e * e);
        if (j->grid)
            g[i] = floorf(g[i] * 8.0f) * 0.125f;
        if (i % 16 == 5 || step >= j->drain || (j->few && i % 64 / 2 != 3 + worker / 2))
            g[i] = 0.0f;
    }
}

static gw_status one_step(const job *j, gw_comm *comm, gw_sync *sync, uint32_t step,
                          float *x)
{
    uint32_t worker = (uint32_t)gw_comm_rank(comm);
    size_t n = j->n, at = (size_t)step * j->workers + worker;
    float *v = j->vectors + at * VECTORS * n;
    uint64_t sent = gw_comm_traffic(comm).bytes_sent;
    gw_status st;

    compute_gradient(j, worker, step, x, v + GRADIENT * n);
    memcpy(v + UPDATE * n, v + GRADIENT * n, n * sizeof *v);
    st = gw_sync_gradient(sync, v + UPDATE * n);
    if (st != GW_OK)
        return st;
    j->bytes[2 * at] = gw_comm_traffic(comm).bytes_sent - sent;
    sent = gw_comm_traffic(comm).bytes_sent;
    for (size_t i = 0; i < n; i++)
        x[i] -= RATE * v[UPDATE * n + i];
    memcpy(v + BEFORE * n, x, n * sizeof *v);
    st = gw_sync_model(sync, x);
    memcpy(v + AFTER * n, x, n * sizeof *v);
    j->bytes[2 * at + 1] = gw_comm_traffic(comm).bytes_sent - sent;
    return st;
}

static gw_status make_sync(const job *j, gw_comm *comm, gw_sync **sync)
{
    gw_sync_options opt = {.struct_size = sizeof opt, .seed = j->seed};
    gw_tensor tensors[MAX_TENSORS] = {{0}};
    gw_layout *layout;
    size_t offset = 0;
    gw_status st;

    for (uint32_t i = 0; i < j->tensors; i++) {
        tensors[i] = (gw_tensor){"", offset, j->shape[i][0], j->shape[i][1]};
        offset += tensors[i].rows * tensors[i].cols;
    }
    st = gw_layout_new(&layout, tensors, j->tensors);
    if (st != GW_OK)
        return st;
    st = gw_sync_new(sync, j->spec, layout, comm, &opt);
    gw_layout_free(layout);
    return st;
}

/* Workers other than 0 begin with another model, which gw_sync_start() replaces. */
static gw_status start(const job *j, gw_comm *comm, gw_sync *sync, float *x)
{
    gw_status st;

    for (size_t i = 0; i < j->n; i++)
        x[i] = j->start[i] + (float)gw_comm_rank(comm);
    st = gw_sync_start(sync, x);
    if (st == GW_OK && memcmp(x, j->start, j->n * sizeof *x) != 0)
        return gw_fail(GW_ERR_DATA,
                       "gw_sync_start() left another model than worker 0's");
    return st;
}

static gw_status finish(const job *j, gw_comm *comm, gw_sync *sync, const float *x)
{
    size_t worker = (size_t)gw_comm_rank(comm);
    uint64_t sent = gw_sync_stats(sync).bytes_sent;
    float *out = j->finish + worker * j->n;
    gw_status st;

    memcpy(out, x, j->n * sizeof *x);
    st = gw_sync_finish(sync, out);
    j->finish_bytes[worker] = gw_sync_stats(sync).bytes_sent - sent;
    return st;
}

static gw_status body(gw_comm *comm, void *arg)
{
    const job *j = arg;
    float *x = malloc(j->n * sizeof *x);
    gw_sync *sync = NULL;
    gw_status st;

    if (x == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a model of %zu floats", j->n);
    st = make_sync(j, comm, &sync);
    if (st == GW_OK)
        st = start(j, comm, sync, x);
    for (uint32_t step = 0; st == GW_OK && step < j->steps; step++)
        st = one_step(j, comm, sync, step, x);
    if (st == GW_OK)
        st = finish(j, comm, sync, x);
    gw_sync_free(sync);
    free(x);
    return st;
}

/* What one worker did in one step. */
static int save_record(const job *j, size_t at, FILE *f)
{
    size_t floats = VECTORS * j->n;

    return fwrite(j->bytes + 2 * at, sizeof *j->bytes, 2, f) == 2 &&
           fwrite(j->vectors + at * floats, sizeof(float), floats, f) == floats;
}

static int save_finish(const job *j, size_t worker, FILE *f)
{
    return fwrite(j->finish_bytes + worker, sizeof *j->finish_bytes, 1, f) == 1 &&
           fwrite(j->finish + worker * j->n, sizeof(float), j->n, f) == j->n;
}

static int save(const job *j, const char *path)
{
    uint32_t head[] = {MAGIC, j->workers, j->steps, j->tensors};
    size_t records = (size_t)j->steps * j->workers;
    FILE *f = fopen(path, "wb");
    int ok;

    if (f == NULL)
        return 0;
    ok = fwrite(head, sizeof head, 1, f) == 1 &&
         fwrite(j->shape, sizeof *j->shape, j->tensors, f) == j->tensors &&
         fwrite(j->start, sizeof *j->start, j->n, f) == j->n;
    for (size_t at = 0; ok && at < records; at++)
        ok = save_record(j, at, f);
    for (size_t worker = 0; ok && worker < j->workers; worker++)
        ok = save_finish(j, worker, f);
    return fclose(f) == 0 && ok;
}

static int set_model(job *j, const char *name)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        if (strcmp(models[m].name, name) == 0) {
            j->tensors = models[m].tensors;
            memcpy(j->shape, models[m].shape, sizeof j->shape);
            for (uint32_t i = 0; i < j->tensors; i++)
                j->n += (size_t)j->shape[i][0] * j->shape[i][1];
            return 1;
        }
    return 0;
}

static int set_word(job *j, const char *word)
{
    if (strcmp(word, "grid") == 0)
        return j->grid = 1;
    if (strcmp(word, "fixed") == 0)
        return j->fixed = 1;
    if (strcmp(word, "few") == 0)
        return j->few = 1;
    return sscanf(word, "drain=%" SCNu32, &j->drain) == 1;
}

static int parse(job *j, int argc, char **argv)
{
    if (argc < 6)
        return 0;
    j->spec = argv[1];
    j->workers = (uint32_t)strtoul(argv[2], NULL, 10);
    j->steps = (uint32_t)strtoul(argv[3], NULL, 10);
    j->seed = (uint32_t)strtoul(argv[4], NULL, 10);
    j->drain = UINT32_MAX;
    if (j->workers == 0 || !set_model(j, argc > 6 ? argv[6] : "small"))
        return 0;
    for (int i = 7; i < argc; i++)
        if (!set_word(j, argv[i]))
            return 0;
    return 1;
}

static int prepare(job *j)
{
    uint32_t key = key_of(j->seed, START, 0, 0);
    size_t records = (size_t)j->steps * j->workers;

    j->start = calloc(j->n, sizeof *j->start);
    j->vectors = calloc(records * VECTORS * j->n, sizeof *j->vectors);
    j->bytes = calloc(records * 2, sizeof *j->bytes);
    j->finish = calloc(j->workers * j->n, sizeof *j->finish);
    j->finish_bytes = calloc(j->workers, sizeof *j->finish_bytes);
    if (j->start == NULL || j->vectors == NULL || j->bytes == NULL ||
        j->finish == NULL || j->finish_bytes == NULL)
        return 0;
    for (uint32_t i = 0; i < j->n; i++)
        j->start[i] = unit(key, i) - 0.5f;
    return 1;
}

static int run(job *j, const char *path)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = (int)j->workers,
                            .spawn = GW_SPAWN_THREADS};
    gw_status st = prepare(j) ? gw_local_run(&opt, body, j)
                              : gw_fail(GW_ERR_NOMEM, "no memory to record into");

    if (st != GW_OK) {
        fprintf(stderr, "%s: %s\n", gw_status_name(st), gw_error_message());
        return st == GW_ERR_ABSENT ? ABSENT : 1;
    }
    if (!save(j, path)) {
        fprintf(stderr, "cannot write %s\n", path);
        return 1;
    }
    return 0;
}

static void print_recipes(void)
{
    const char *name;

    for (size_t i = 0; (name = gw_recipe_name(i)) != NULL; i++)
        puts(name);
}

int main(int argc, char **argv)
{
    job j = {0};
    int status = BAD_USAGE;

    if (argc == 2 && strcmp(argv[1], "recipes") == 0) {
        print_recipes();
        return 0;
    }
    if (parse(&j, argc, argv))
        status = run(&j, argv[5]);
    else
        fprintf(stderr, "usage: %s SPEC WORKERS STEPS SEED OUT [MODEL] [WORD...]\n",
                argv[0]);
    free(j.start);
    free(j.vectors);
    free(j.bytes);
    free(j.finish);
    free(j.finish_bytes);
    return status;
}
