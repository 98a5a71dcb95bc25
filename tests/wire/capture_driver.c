/* SPDX-License-Identifier: Apache-2.0
 *
 * capture_driver.c - trains a made-up model with one spec and writes down everything
 * that the workers send and save, and what went into it and came out, for
 * tests/wire/format_reader.py to explain.
 *
 *     capture_driver SPEC WORKERS STEPS SEED OUT MODEL [WORD...]
 *     capture_driver recipes
 *
 * The latter says which recipes there are.
 * SPEC "collectives" calls the collectives instead. MODEL is one of those below. Words:
 *
 *     sockets, link   the messages go over sockets, or an emulated link
 *     parts           gradients are fed tensor by tensor
 *     skip, ignore    what to do about NaN and infinity (otherwise: stop)
 *     bad=T           the last worker's gradient of step T holds a NaN
 *     high=T          all gradients of step T are finite, and their sum is not
 *     ill=T           the last worker's model holds a NaN after step T
 *     differ=T        the last worker's model is changed after step T
 *     mismatch        the last worker is started with another seed
 *     fail=T          worker 1 fails after step T
 *
 * The file is a list of records, all little-endian: u32 kind, a, b, c; u64 length; the
 * content. Kinds are those of capture_wires.h. A worker's records are in the order of
 * its doings, so that messages lie between the vectors that they belong to, unless they
 * went over sockets. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture_wires.h"

enum { MAX_TENSORS = 4, MAX_WORKERS = 16 };

/* c of TAPE_VECTOR, and of TAPE_STATUS for the call that gives it. */
enum { BEGIN, START, GRADIENT, UPDATE, BEFORE, AFTER, LAST, FINISH, MADE };

#define RATE 0.125f

static const struct model {
    const char *name;
    gw_tensor tensors[MAX_TENSORS];
    size_t count;
} models[] = {
    {"tiny", {{"w", 0, 2, 2}, {"b", 4, 1, 2}}, 2},
    {"small",
     {{"matrix", 0, 40, 30}, {"bias", 1200, 1, 30}, {"last", 1230, 4, 300}},
     3},
    {"ring", {{"first", 0, 100, 80}, {"bias", 8000, 1, 80}, {"last", 8080, 50, 40}}, 3},
    {"chunks", {{"first", 0, 500, 300}, {"last", 150000, 300, 401}}, 2},
    {"buckets",
     {{"first", 0, 70, 60}, {"second", 4200, 1030, 1020}, {"third", 1054800, 30, 20}},
     3},
};

typedef struct job {
    const char *spec;
    const struct model *model;
    gw_layout *layout;
    size_t n;
    int workers, steps;
    unsigned long seed;
    gw_nonfinite nonfinite;
    int link, parts, mismatch;
    int bad, high, ill, differ, fail; /* steps, 0: never */
    tapped_sockets *sockets;          /* NULL: messages of a local comm */
    tape tapes[MAX_WORKERS + 1];      /* the last one for what is of no worker */
    char made[MAX_WORKERS][256];      /* the spec once all is known */
} job;

/* One worker. */
typedef struct actor {
    const job *j;
    gw_comm *comm;
    gw_sync *sync;
    tape *tape;
    unsigned rank, step;
    float *x, *g;
} actor;

/* ---- made-up numbers ---------------------------------------------------- */

/* A float from -1 to below 1, exact in 24 bits. */
static float noise(unsigned long seed, unsigned worker, unsigned step, size_t i)
{
    uint64_t z = seed * 1000003 + worker * 10007 + step * 101 + 1;

    z = z * UINT64_C(0x9e3779b97f4a7c15) + i;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (float)(int32_t)(z >> 40) * 0x1p-23f - 1.0f;
}

static int is_last(const actor *a)
{
    return (int)a->rank == a->j->workers - 1;
}

/* Gradients have long tails; those of the tiny model are easy to read. */
static void make_gradient(const actor *a)
{
    const job *j = a->j;
    int tiny = j->model == &models[0];

    for (size_t i = 0; i < j->n; i++) {
        float u = noise(j->seed, a->rank, a->step, i);
        a->g[i] = tiny ? 0.5f * (float)(a->rank + 1) * ((float)i - 1.5f)
                       : 0.1f * a->x[i] + u * u * u;
    }
    if ((int)a->step == j->bad && is_last(a))
        a->g[j->n - 2] = NAN;
    if ((int)a->step == j->high)
        a->g[j->model->tensors[j->model->count - 1].offset] = 3e38f;
}

static void make_model(const actor *a)
{
    for (size_t i = 0; i < a->j->n; i++)
        a->x[i] = a->j->model == &models[0] ? 0.25f * (float)i + (float)a->rank
                                            : noise(a->j->seed, a->rank, 0, i);
}

/* ---- writing down ------------------------------------------------------- */

static void put_vector(const actor *a, unsigned which, const float *v)
{
    tape_put(a->tape, TAPE_VECTOR, a->rank, a->step, which, v, a->j->n * sizeof(float));
}

/* The outcome of a call, and the vector that it leaves if all is well. */
static gw_status told(const actor *a, gw_status st, unsigned which, const float *v)
{
    const char *text = st == GW_OK ? "" : gw_status_name(st);

    tape_put(a->tape, TAPE_STATUS, a->rank, a->step, which, text, strlen(text));
    if (st == GW_OK && v != NULL)
        put_vector(a, which, v);
    return st;
}

static gw_status put_state(const actor *a)
{
    size_t len = gw_sync_state_len(a->sync);
    void *state = malloc(len);
    gw_status st = state != NULL ? gw_sync_save(a->sync, state, len)
                                 : gw_fail(GW_ERR_NOMEM, "no memory for a state");

    if (st == GW_OK)
        tape_put(a->tape, TAPE_STATE, a->rank, a->step, 0, state, len);
    free(state);
    return st;
}

/* ---- training ----------------------------------------------------------- */

static gw_status exchange_gradient(const actor *a)
{
    gw_status st = GW_OK;

    for (size_t t = a->j->model->count; a->j->parts && st == GW_OK && t-- > 0;)
        st = gw_sync_gradient_part(a->sync, a->g, t);
    return st == GW_OK ? gw_sync_gradient(a->sync, a->g) : st;
}

static void spoil_model(const actor *a)
{
    if ((int)a->step == a->j->differ && is_last(a))
        a->x[3] += 0.5f;
    if ((int)a->step == a->j->ill && is_last(a))
        a->x[3] = NAN;
}

static gw_status one_step(const actor *a)
{
    gw_status st;

    make_gradient(a);
    put_vector(a, GRADIENT, a->g);
    st = told(a, exchange_gradient(a), UPDATE, a->g);
    if (st != GW_OK && st != GW_SKIPPED)
        return st;
    for (size_t i = 0; st == GW_OK && i < a->j->n; i++)
        a->x[i] -= RATE * a->g[i];
    spoil_model(a);
    put_vector(a, BEFORE, a->x);
    st = told(a, gw_sync_model(a->sync, a->x), AFTER, a->x);
    if (st == GW_OK)
        st = put_state(a);
    if (st == GW_OK && (int)a->step == a->j->fail && a->rank == 1)
        st = gw_comm_fail(a->comm, gw_fail(GW_ERR_STOPPED, "enough is enough"));
    return st;
}

static gw_status train(actor *a)
{
    gw_sync_options opt = {.struct_size = sizeof opt,
                           .nonfinite = a->j->nonfinite,
                           .seed = a->j->seed + (a->j->mismatch && is_last(a))};
    gw_status st = gw_sync_new(&a->sync, a->j->spec, a->j->layout, a->comm, &opt);

    st = told(a, st, MADE, NULL);
    if (st != GW_OK)
        return st;
    make_model(a);
    put_vector(a, BEGIN, a->x);
    st = told(a, gw_sync_start(a->sync, a->x), START, a->x);
    for (a->step = 1; st == GW_OK && (int)a->step <= a->j->steps; a->step++)
        st = one_step(a);
    if (st != GW_OK)
        return st;
    st = told(a, gw_sync_finish(a->sync, a->x), FINISH, a->x);
    return st == GW_OK ? put_state(a) : st;
}

/* ---- collectives alone -------------------------------------------------- */

enum { LONG = 30000 };

/* Writes down what a collective was given and what it left. */
static gw_status collect(actor *a, gw_status (*call)(actor *a), size_t n)
{
    gw_status st;

    a->step++;
    for (size_t i = 0; i < n; i++)
        a->g[i] = noise(a->j->seed, a->rank, a->step, i);
    tape_put(a->tape, TAPE_VECTOR, a->rank, a->step, BEFORE, a->g, n * sizeof *a->g);
    st = call(a);
    tape_put(a->tape, TAPE_VECTOR, a->rank, a->step, AFTER, a->g, n * sizeof *a->g);
    return st;
}

static gw_status sum_few(actor *a)
{
    return gw_allreduce(a->comm, a->g, 100);
}

static gw_status sum_many(actor *a)
{
    return gw_allreduce(a->comm, a->g, LONG);
}

static gw_status scatter_many(actor *a)
{
    return gw_reduce_scatter(a->comm, a->g, LONG);
}

static gw_status spread(actor *a)
{
    return gw_broadcast(a->comm, a->g, 400, 1);
}

/* Worker r's message has 4 r bytes. */
static gw_status gather(actor *a)
{
    size_t lens[MAX_WORKERS];

    return gw_allgather(a->comm, a->g, 4 * (size_t)a->rank, a->g, 400, lens);
}

static gw_status transfer(actor *a)
{
    return gw_transfer(a->comm, 1, a->g, 0, a->g + 100, 400);
}

static gw_status barrier(actor *a)
{
    return gw_barrier(a->comm);
}

static gw_status collectives(actor *a)
{
    gw_status (*const calls[])(actor *) = {sum_few, sum_many, scatter_many, spread,
                                           gather,  transfer, barrier};
    const size_t floats[] = {100, LONG, LONG, 100, 1600, 200, 0};
    gw_status st = GW_OK;

    for (size_t i = 0; st == GW_OK && i < sizeof calls / sizeof *calls; i++)
        st = collect(a, calls[i], floats[i]);
    return st;
}

/* ---- one worker --------------------------------------------------------- */

static gw_status act(job *j, gw_comm *comm, tape *t)
{
    actor a = {.j = j, .comm = comm, .tape = t, .rank = (unsigned)gw_comm_rank(comm)};
    size_t n = j->n > LONG ? j->n : LONG;
    gw_status st = j->link ? gw_comm_link(comm, "10gbit,10us") : GW_OK;

    a.x = calloc(2 * n, sizeof *a.x);
    if (a.x == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a model");
    a.g = a.x + n;
    if (st == GW_OK)
        st = strcmp(j->spec, "collectives") == 0 ? collectives(&a) : train(&a);
    told(&a, st, LAST, NULL);
    if (a.sync != NULL)
        snprintf(j->made[a.rank], sizeof j->made[0], "%s", gw_sync_spec(a.sync));
    gw_sync_free(a.sync);
    free(a.x);
    return GW_OK; /* how it went is on the tape */
}

static gw_status body(gw_comm *inner, void *arg)
{
    job *j = arg;
    int rank = gw_comm_rank(inner);
    tape *t = &j->tapes[rank];
    void *memory = NULL;
    gw_comm *comm;
    gw_status st;

    st = j->sockets != NULL
             ? gw_comm_sockets(&comm, tapped_sockets_of(j->sockets, rank), NULL, rank,
                               j->workers, NULL)
             : tapped_comm_new(&comm, &memory, inner, t);
    if (st != GW_OK)
        return st;
    st = act(j, comm, t);
    gw_comm_free(comm);
    free(memory);
    return st == GW_OK ? gw_barrier(inner) : st;
}

/* ---- the file ----------------------------------------------------------- */

static void put_text(const job *j, tape *t)
{
    char text[2048], canonical[256] = "";
    int len;

    (void)gw_spec_check(j->spec, canonical, sizeof canonical);
    len = snprintf(text, sizeof text,
                   "spec %s\ncanonical %s\nmade %s\nworkers %d\nsteps %d\nseed %lu\n"
                   "nonfinite %d\nlink %d\nparts %d\nrate %a\n",
                   j->spec, canonical, j->made[0], j->workers, j->steps, j->seed,
                   (int)j->nonfinite, j->link, j->parts, (double)RATE);
    for (size_t i = 0; i < j->model->count; i++) {
        const gw_tensor *tensor = &j->model->tensors[i];
        len += snprintf(text + len, sizeof text - (size_t)len, "tensor %s %zu %zu\n",
                        tensor->name, tensor->rows, tensor->cols);
    }
    tape_put(t, TAPE_TEXT, 0, 0, 0, text, (size_t)len);
}

static int save(const job *j, const char *path)
{
    FILE *f = fopen(path, "wb");
    int ok = f != NULL;

    for (int i = 0; ok && i <= MAX_WORKERS; i++)
        if (j->tapes[i].len > 0)
            ok = fwrite(j->tapes[i].bytes, j->tapes[i].len, 1, f) == 1;
    return f != NULL && fclose(f) == 0 && ok;
}

static int run(job *j, int use_sockets, const char *path)
{
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = j->workers, .spawn = GW_SPAWN_THREADS};
    tape *head = &j->tapes[MAX_WORKERS];

    if (use_sockets && (j->sockets = tapped_sockets_new(j->workers)) == NULL)
        return 0;
    gw_status st = gw_local_run(&opt, body, j);
    if (st != GW_OK) {
        fprintf(stderr, "%s: %s\n", gw_status_name(st), gw_error_message());
        return 0;
    }
    if (j->sockets != NULL)
        tapped_sockets_end(j->sockets, head);
    put_text(j, head);
    int ok = save(j, path);
    for (int i = 0; i <= MAX_WORKERS; i++)
        free(j->tapes[i].bytes);
    return ok;
}

/* ---- arguments ---------------------------------------------------------- */

static int set_step(job *j, const char *word)
{
    const struct {
        const char *format;
        int *at;
    } steps[] = {{"bad=%d", &j->bad},
                 {"high=%d", &j->high},
                 {"ill=%d", &j->ill},
                 {"differ=%d", &j->differ},
                 {"fail=%d", &j->fail}};

    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (sscanf(word, steps[i].format, steps[i].at) == 1)
            return 1;
    return 0;
}

static int set_word(job *j, const char *word, int *sockets)
{
    if (strcmp(word, "sockets") == 0)
        return *sockets = 1;
    if (strcmp(word, "link") == 0)
        return j->link = 1;
    if (strcmp(word, "parts") == 0)
        return j->parts = 1;
    if (strcmp(word, "mismatch") == 0)
        return j->mismatch = 1;
    if (strcmp(word, "skip") == 0)
        return j->nonfinite = GW_NONFINITE_SKIP;
    if (strcmp(word, "ignore") == 0)
        return j->nonfinite = GW_NONFINITE_IGNORE;
    return set_step(j, word);
}

static int set_model(job *j, const char *name)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        if (strcmp(models[m].name, name) == 0) {
            j->model = &models[m];
            return gw_layout_new(&j->layout, models[m].tensors, models[m].count) ==
                   GW_OK;
        }
    return 0;
}

static int parse(job *j, int argc, char **argv, int *sockets)
{
    if (argc < 7 || !set_model(j, argv[6]))
        return 0;
    j->spec = argv[1];
    j->workers = atoi(argv[2]);
    j->steps = atoi(argv[3]);
    j->seed = strtoul(argv[4], NULL, 10);
    j->n = gw_layout_floats(j->layout);
    if (j->workers < 1 || j->workers > MAX_WORKERS)
        return 0;
    for (int i = 7; i < argc; i++)
        if (!set_word(j, argv[i], sockets))
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    static job j;
    int sockets = 0, ok;

    for (size_t i = 0; argc == 2 && strcmp(argv[1], "recipes") == 0; i++) {
        if (gw_recipe_name(i) == NULL)
            return 0;
        puts(gw_recipe_name(i));
    }
    if (!parse(&j, argc, argv, &sockets)) {
        fprintf(stderr,
                "usage: %s SPEC WORKERS STEPS SEED OUT tiny|small|ring|chunks|buckets "
                "[WORD...]\n",
                argv[0]);
        return 2;
    }
    ok = run(&j, sockets, argv[5]);
    gw_layout_free(j.layout);
    return ok ? 0 : 1;
}
