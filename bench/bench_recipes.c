/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_recipes.c - what a step of each recipe takes, by the kernels it is made of.
 *
 * Four workers, threads that share two cores, take steps together. In each round a
 * worker first runs the bare kernels, on vectors of the same sizes and as often as the
 * recipe does, and then makes the two calls of a step. Both are timed by the clock of
 * the thread, which stands still while it waits, so the difference is what lies
 * between kernels: writing and checking messages, copying them into the transport
 * and out of it, waking up.
 *
 * All workers run kernels at the same time, as they do in a step: neighbours that
 * use the same memory slow both down alike. */
#define _GNU_SOURCE
#include "bench.h"
#include "gradients.h"
#include "plan/heavy_gradient.h"

#include "collective/collective.h"
#include "kernels/levels.h"
#include "kernels/means.h"
#include "kernels/merge.h"
#include "kernels/vector.h"
#include "wire/wire.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum {
    WORKERS = 4,
    CORES = 2,
    FLOATS = 10000000,
    GRADIENTS = 32,  /* different ones; each one period further on */
    WARM_STEPS = 12, /* the residual fills, the guess at the threshold settles */
    BITS = 4,
    SPA_CHUNKS = 4
};

static const double density = 0.001;

/* What one worker needs to run kernels without a sync. */
typedef struct desk {
    int rank;
    size_t n, k, part; /* floats; entries chosen; floats of a worker's segment */
    float *v;          /* the gradient, then the result */
    float *r;          /* residual */
    float *x, *common; /* the model; the last common one */
    uint8_t *msg;      /* room for a message of all n in levels, or of k */
    size_t cap, len;
    volatile uint64_t found; /* what is computed must be used, or it is not */
    float *norms;
    gwi_list list, theirs, others; /* k (drop: 4 k), as many, and twice as many */
    float *scratch;
    gwi_topk_guess guess;
    gwi_topk_work work;
    unsigned step;
    void *floats, *bytes, *work_memory;
} desk;

typedef struct recipe {
    const char *name, *spec;
    int steps;     /* of which one exchanges */
    double target; /* or NaN */
    void (*kernels)(desk *d);
} recipe;

/* What all workers see; rank 0 writes what is not theirs alone. */
typedef struct board {
    const gwb_settings *set;
    const recipe *recipe;
    const float *gradients;
    size_t n;
    int more;
    unsigned rounds;
    double took[WORKERS], limit[WORKERS]; /* of this round */
    double took_all[GWB_ROUNDS_MAX], limit_all[GWB_ROUNDS_MAX];
} board;

/* ---- kernels of the recipes ---------------------------------------------------- */

static const gwi_levels_format format = {BITS, GWI_LEVELS_BUCKET, GWI_NORM_MAX};

static void look(desk *d)
{
    d->found = gwi_first_nonfinite(d->v, d->n);
}

static void none(desk *d)
{
    look(d);
}

/* An all-reduce of n floats, as one worker sees it: all segments but one are added
 * to, and the last of them is divided. */
static void reduce(desk *d, size_t n)
{
    size_t segment = n / WORKERS;

    for (size_t i = 1; i < WORKERS; i++)
        gwi_add(d->v + i * segment, d->r + i * segment, segment);
    gwi_divide(d->v + (WORKERS - 1) * segment, (float)WORKERS, segment);
}

static void dense(desk *d)
{
    look(d);
    reduce(d, d->n);
}

/* The same with what the transport does: every message goes into a ring in shared
 * memory and out of it. */
static void dense_copied(desk *d)
{
    size_t sent = 2 * (d->n - d->n / WORKERS), at = 0;

    dense(d);
    for (size_t piece = GWI_CHUNK_FLOATS; at + piece <= sent; at += piece) {
        memcpy(d->common, d->x + at % (d->n / 2), piece * sizeof *d->x);
        memcpy(d->r + at % (d->n / 2), d->common, piece * sizeof *d->x);
    }
}

static void local(desk *d)
{
    look(d);
    dense(d);
}

static void chunk(desk *d)
{
    look(d);
    reduce(d, d->n / SPA_CHUNKS);
}

static void means(desk *d)
{
    look(d);
    d->found = gwi_two_sums_of(d->v, d->n).plus_count;
    gwi_two_shift(d->v, d->n, 1e-3f, -1e-3f);
}

static void put_list(desk *d)
{
    gwi_wire_form form = {
        .kind = GWI_WIRE_SPARSE, .n = (uint32_t)d->n, .k = (uint32_t)d->list.n};
    gwi_wire_writer w;

    gwi_wire_begin(&w, &form, d->msg, d->cap);
    gwi_wire_put_f32(w.values, d->list.value, d->list.n);
    gwi_wire_put_positions(&w, d->list.index);
    d->len = w.len;
    gwi_wire_seal(d->msg, d->len);
}

static void get_list(desk *d, gwi_list *list)
{
    gwi_wire_view view;

    gwi_wire_open(&view, d->msg, d->len);
    gwi_wire_get_positions(&view, list->index, list->cap);
    gwi_wire_get_f32(list->value, view.values, view.form.k);
    list->n = view.form.k;
}

static void add_list(desk *d, const gwi_list *list)
{
    gwi_divide(list->value, (float)WORKERS, list->n);
    gwi_vector()->scatter_add(d->v, list->index, list->value, list->n);
}

static void gather_lists(desk *d)
{
    put_list(d);
    memset(d->v, 0, d->n * sizeof *d->v);
    for (int i = 0; i < WORKERS; i++) {
        get_list(d, &d->theirs);
        add_list(d, &d->theirs);
    }
}

static void select_largest(desk *d)
{
    d->list.n = gwi_select_topk(&d->guess, &d->work, d->r, d->v, d->n, d->k,
                                d->list.index, d->list.value);
}

static void topk(desk *d)
{
    look(d);
    select_largest(d);
    gather_lists(d);
}

static void drop(desk *d)
{
    look(d);
    gwi_threshold t;
    gwi_select_sampled(&d->guess, d->r, d->v, d->n, 1 - density, d->scratch, &t,
                       &d->list);
    gather_lists(d);
}

/* In each of two rounds every worker writes a message, reads one and merges; the first
 * of a group also keeps what lost. */
static void gtopk(desk *d)
{
    look(d);
    select_largest(d);
    for (int bit = 1; bit < WORKERS; bit *= 2) {
        put_list(d);
        get_list(d, &d->theirs);
        gwi_merge_largest(&d->list, &d->theirs, d->k, &d->list, &d->others);
        if (d->rank % (2 * bit) == 0)
            gwi_vector()->scatter_add(d->r, d->others.index, d->others.value,
                                      d->others.n);
    }
    memset(d->v, 0, d->n * sizeof *d->v);
    add_list(d, &d->list);
}

static void encode(desk *d, float *v, size_t n)
{
    gwi_levels_encode_subtract(&format, v, n, d->step, 0, d->msg, d->norms);
}

static void decode(desk *d, float *v, size_t n)
{
    gwi_levels_decode(&format, d->msg, d->norms, v, n);
}

static void decode_add(desk *d, float *v, size_t n)
{
    gwi_levels_decode_add(&format, d->msg, d->norms, v, n);
}

static void qsgd_gather(desk *d)
{
    look(d);
    encode(d, d->v, d->n);
    decode(d, d->v, d->n);
    for (int i = 1; i < WORKERS; i++)
        decode_add(d, d->v, d->n);
    gwi_divide(d->v, (float)WORKERS, d->n);
}

/* Others' segments, then the own one: added up, averaged, coded again. */
static void code_and_scatter(desk *d, float *v)
{
    encode(d, v + d->part, d->n - d->part);
    for (int i = 1; i < WORKERS; i++)
        decode_add(d, v, d->part);
    gwi_divide(v, (float)WORKERS, d->part);
    encode(d, v, d->part);
    decode(d, v, d->n);
}

static void qsgd_scatter(desk *d)
{
    look(d);
    code_and_scatter(d, d->v);
}

static void pqasgd(desk *d)
{
    look(d);
    look(d);
    gwi_subtract(d->x, d->x, d->common, d->n);
    code_and_scatter(d, d->x);
    gwi_add(d->x, d->common, d->n);
    memcpy(d->common, d->x, d->n * sizeof *d->x);
}

/* Of whole vectors little is to be done beside kernels. */
#define TARGET       2.5
#define WHOLE_TARGET 1.4

/* The vectors stand for models and gradients of any step, so nothing is compared. */
static const recipe recipes[] = {
    {"none", "none", 1, TARGET, none},
    {"dense", "dense+check:0", 1, WHOLE_TARGET, dense},
    {"dense, copies counted", "dense+check:0", 1, (double)NAN, dense_copied},
    {"top-k", "topk:0.001+check:0", 1, TARGET, topk},
    {"gtop-k", "gtopk:0.001+check:0", 1, TARGET, gtopk},
    {"drop", "drop:0.999+check:0", 1, TARGET, drop},
    {"qsgd, gather", "qsgd:4,via=gather+check:0", 1, TARGET, qsgd_gather},
    {"qsgd, scatter", "qsgd:4,via=scatter+check:0", 1, TARGET, qsgd_scatter},
    {"a2sgd", "a2sgd", 1, TARGET, means},
    {"local, period", "local:2", 2, WHOLE_TARGET, local},
    {"spa", "spa:4", 1, TARGET, chunk},
    {"pqasgd, period", "pqasgd:2,4", 2, TARGET, pqasgd},
};

/* ---- a worker's desk ----------------------------------------------------------- */

static void desk_free(desk *d)
{
    gwi_free(d->floats);
    gwi_free(d->bytes);
    gwi_free(d->work_memory);
}

static gwi_list carve(float **memory, size_t cap)
{
    gwi_list list = {(uint32_t *)(void *)*memory, *memory + cap, 0, cap};

    *memory += 2 * cap;
    return list;
}

static gw_status desk_new(desk *d, size_t n, int rank)
{
    size_t k = (size_t)(density * (double)n), most = 4 * k + 1024;
    size_t buckets = gwi_levels_buckets(&format, n);

    *d = (desk){.rank = rank, .n = n, .k = k, .cap = n};
    d->part = n / WORKERS / GWI_LEVELS_BUCKET * GWI_LEVELS_BUCKET;
    d->floats =
        gwi_calloc(4 * n + buckets + 8 * most + GWI_THRESHOLD_FLOATS(n), sizeof(float));
    d->bytes = gwi_calloc(d->cap, 1);
    d->work_memory = gwi_calloc(gwi_topk_work_bytes(n, k, 1), 1);
    if (d->floats == NULL || d->bytes == NULL || d->work_memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for a worker with n = %zu", n);
    gwi_topk_work_init(&d->work, d->work_memory, n, k, 1);
    d->msg = d->bytes;
    d->v = d->floats;
    d->r = d->v + n;
    d->x = d->r + n;
    d->common = d->x + n;
    d->norms = d->common + n;
    d->scratch = d->norms + buckets;
    float *rest = d->scratch + GWI_THRESHOLD_FLOATS(n);
    d->list = carve(&rest, most);
    d->theirs = carve(&rest, most);
    d->others = carve(&rest, 2 * most);
    return GW_OK;
}

/* ---- rounds -------------------------------------------------------------------- */

static double thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Leaves this thread one of the first two cores it may use; it is no failure if there
 * is but one, or the system does not let it choose. */
static void settle(int rank)
{
    cpu_set_t all, one;
    int wanted = rank % CORES;

    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0)
        return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || wanted-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

/* A new gradient, and a model that differs from the last one as much. */
static void next_vectors(desk *d, const board *b)
{
    size_t which = ((size_t)d->step * WORKERS + (size_t)d->rank) % GRADIENTS;
    const float *g = b->gradients + which * GWC_HEAVY_PERIOD;

    memcpy(d->x, g, d->n * sizeof *d->x);
    memcpy(d->v, g, d->n * sizeof *d->v);
}

static gw_status round_of(gw_comm *comm, board *b, desk *d, gw_sync *sync)
{
    double start;

    d->step++;
    next_vectors(d, b);
    GWI_TRY(gw_barrier(comm));
    start = thread_seconds();
    b->recipe->kernels(d);
    b->limit[d->rank] = thread_seconds() - start;

    next_vectors(d, b);
    GWI_TRY(gw_barrier(comm));
    start = thread_seconds();
    for (int i = 0; i < b->recipe->steps; i++) {
        GWI_TRY(gw_sync_gradient(sync, d->v));
        GWI_TRY(gw_sync_model(sync, d->x));
    }
    b->took[d->rank] = thread_seconds() - start;
    return gw_barrier(comm);
}

static void note_round(board *b)
{
    double took = 0, limit = 0;

    for (int r = 0; r < WORKERS; r++) {
        took += b->took[r] / WORKERS;
        limit += b->limit[r] / WORKERS;
    }
    b->took_all[b->rounds] = took;
    b->limit_all[b->rounds++] = limit;
}

static gw_status rounds(gw_comm *comm, board *b, desk *d, gw_sync *sync)
{
    int warm = b->set->quick ? 1 : WARM_STEPS, first = d->rank == 0;
    double since;

    GWI_TRY(gw_sync_start(sync, d->x));
    for (int i = 0; i < warm; i++)
        GWI_TRY(round_of(comm, b, d, sync));
    for (since = gwi_now();;) {
        if (first)
            b->more = gwb_more(b->set, b->rounds, since);
        GWI_TRY(gw_barrier(comm));
        if (!b->more)
            return GW_OK;
        GWI_TRY(round_of(comm, b, d, sync));
        if (first)
            note_round(b);
    }
}

static gw_status work(gw_comm *comm, board *b, desk *d)
{
    gw_tensor tensor = {.name = "all", .rows = 1, .cols = b->n};
    gw_layout *layout;
    gw_sync *sync = NULL;
    gw_status st;

    GWI_TRY(gw_layout_new(&layout, &tensor, 1));
    st = gw_sync_new(&sync, b->recipe->spec, layout, comm, NULL);
    gw_layout_free(layout);
    if (st == GW_OK)
        st = rounds(comm, b, d, sync);
    gw_sync_free(sync);
    return st;
}

static gw_status body(gw_comm *comm, void *arg)
{
    board *b = arg;
    desk d;
    gw_status st;

    settle(gw_comm_rank(comm));
    st = desk_new(&d, b->n, gw_comm_rank(comm));
    if (st == GW_OK)
        st = work(comm, b, &d);
    desk_free(&d);
    return st;
}

/* ---- rows ---------------------------------------------------------------------- */

static void judge(board *b, gwb_row *row)
{
    double ratio[GWB_ROUNDS_MAX];

    for (unsigned i = 0; i < b->rounds; i++)
        ratio[i] = b->took_all[i] / b->limit_all[i];
    row->median = gwb_median(ratio, b->rounds);
    (void)gwb_median(b->took_all, b->rounds);
    (void)gwb_median(b->limit_all, b->rounds);
    row->seconds = b->took_all[0];
    row->limit = "its kernels";
    row->limit_seconds = b->limit_all[0];
    row->ratio = row->seconds / row->limit_seconds;
    row->target = b->recipe->target;
}

static gw_status measure(gwb_sheet *sheet, const recipe *recipe, const float *gradients,
                         size_t n)
{
    gw_local_options opt = {
        .struct_size = sizeof opt, .workers = WORKERS, .spawn = GW_SPAWN_THREADS};
    board b = {.set = sheet->set, .recipe = recipe, .gradients = gradients, .n = n};
    gwb_row row =
        gwb_row_new("recipes", n, "%s, %d workers", recipe->name, (int)WORKERS);

    if (!gwb_wanted(sheet, row.name))
        return GW_OK;
    GWI_TRY(gw_local_run(&opt, body, &b));
    judge(&b, &row);
    gwb_sheet_add(sheet, &row);
    return GW_OK;
}

static gw_status run(gwb_sheet *sheet)
{
    size_t n = sheet->set->n < FLOATS ? sheet->set->n : FLOATS;
    size_t all = n + (size_t)GRADIENTS * GWC_HEAVY_PERIOD;
    float *gradients = gwi_calloc(all, sizeof *gradients);
    gw_status st = GW_OK;

    if (gradients == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for gradients of %zu floats", n);
    gwc_heavy_gradient(gradients, all);
    for (size_t i = 0; st == GW_OK && i < COUNT(recipes); i++)
        st = measure(sheet, &recipes[i], gradients, n);
    gwi_free(gradients);
    return st;
}

const gwb_group gwb_group_recipes = {
    .name = "recipes",
    .summary = "steps of all recipes, against kernels",
    .by_default = 0,
    .run = run,
};
