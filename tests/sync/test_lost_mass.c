/* SPDX-License-Identifier: Apache-2.0
 *
 * test_lost_mass.c - what gTop-k loses by the published rule (putback=paper): counted
 * as a slow replay of the merges counts it, conserved together with the rest, kept in
 * the state; and 0 by any other rule. */
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sync/sync.h"

enum { N = 200, K = 20, STEPS = 6, WORKERS_MAX = 9 };

/* ---- slow merges ------------------------------------------------------------------
 */

/* A sparse list as a dense vector. */
typedef struct entries {
    float value[N];
    bool there[N];
} entries;

typedef struct replay {
    entries list[WORKERS_MAX];
    entries rejected[WORKERS_MAX][4];
    int merges[WORKERS_MAX];
    double lost[WORKERS_MAX], applied; /* sums of magnitudes */
    double gone[N];                    /* of each coordinate, with its sign */
} replay;

/* Moves all but the K largest from e to rest. */
static void cut(entries *e, entries *rest)
{
    entries kept = {0};

    for (int k = 0; k < K; k++) {
        int best = -1;
        for (int i = 0; i < N; i++)
            if (e->there[i] && (best < 0 || fabsf(e->value[i]) > fabsf(e->value[best])))
                best = i;
        if (best < 0)
            break;
        kept.there[best] = true;
        kept.value[best] = e->value[best];
        e->there[best] = false;
    }
    *rest = *e;
    *e = kept;
}

static void merge(replay *t, int to, int from)
{
    entries *a = &t->list[to];
    const entries *b = &t->list[from];

    for (int i = 0; i < N; i++) {
        if (!b->there[i])
            continue;
        a->value[i] = a->there[i] ? a->value[i] + b->value[i] : b->value[i];
        a->there[i] = true;
    }
    cut(a, &t->rejected[to][t->merges[to]++]);
}

static void merge_tree(replay *t, int p)
{
    for (int d = 1; d < p; d *= 2)
        for (int w = 0; w + d < p; w += 2 * d)
            merge(t, w, w + d);
}

/* The merges of pairs, each counted once: for the first of all who do it. */
static void merge_pairs(replay *t, int p)
{
    int q = 1;

    while (2 * q <= p)
        q *= 2;
    for (int w = 0; w + q < p; w++)
        merge(t, w, w + q);
    merge_tree(t, q);
}

/* What becomes of what p workers bring, N floats each. */
static void replay_merges(replay *t, const float *brought, int p, bool by_tree)
{
    entries rest;

    memset(t, 0, sizeof *t);
    for (int w = 0; w < p; w++) {
        memcpy(t->list[w].value, brought + w * N, N * sizeof *brought);
        memset(t->list[w].there, 1, sizeof t->list[w].there);
        cut(&t->list[w], &rest);
    }
    if (by_tree)
        merge_tree(t, p);
    else
        merge_pairs(t, p);
    const entries *final = &t->list[0];
    for (int i = 0; i < N; i++)
        t->applied += final->there[i] ? (double)fabsf(final->value[i]) : 0.0;
    for (int w = 0; w < p; w++)
        for (int m = 0; m < t->merges[w]; m++)
            for (int i = 0; i < N; i++)
                if (t->rejected[w][m].there[i] && final->there[i]) {
                    t->lost[w] += (double)fabsf(t->rejected[w][m].value[i]);
                    t->gone[i] += (double)t->rejected[w][m].value[i];
                }
}

/* ---- one step against it ----------------------------------------------------------
 */

typedef struct crew {
    gw_comm *comm;
    gw_sync *sync;
    replay *merges;
    bool by_tree;
    float *all; /* of every worker N floats */
    double lost, applied;
} crew;

static gw_status gather(const crew *c, const float *own)
{
    size_t lens[WORKERS_MAX];

    return gw_allgather(c->comm, own, N * sizeof *own, c->all, N * sizeof *own, lens);
}

/* Workers agree in part, so that an index wins on one branch and loses on another. */
static void make_gradient(float *g, int rank, int step)
{
    for (size_t i = 0; i < N; i++) {
        float common = test_float(1000 + (uint64_t)step, i);
        float own = test_float(2000 + (uint64_t)(100 * step + rank), i);
        g[i] = common * common * common + own * own * own;
    }
}

/* What workers bring = what they keep + P times what is applied + what is lost. */
static gw_status check_conserved(const crew *c, const double *brought, const float *u)
{
    int p = gw_comm_workers(c->comm);

    PASS_ON(gather(c, c->sync->kept[GWI_RESIDUAL]));
    for (int i = 0; i < N; i++) {
        double out = (double)p * (double)u[i] + c->merges->gone[i];
        for (int w = 0; w < p; w++)
            out += (double)c->all[w * N + i];
        REQUIRE(fabs(brought[i] - out) < 1e-4, "%d workers: %g in, %g out of %d", p,
                brought[i], out, i);
    }
    return GW_OK;
}

static gw_status step(crew *c, int t)
{
    int p = gw_comm_workers(c->comm), rank = gw_comm_rank(c->comm);
    float g[N], a[N];
    double brought[N] = {0};

    make_gradient(g, rank, t);
    for (int i = 0; i < N; i++)
        a[i] = c->sync->kept[GWI_RESIDUAL][i] + g[i];
    PASS_ON(gather(c, a));
    for (int i = 0; i < p * N; i++)
        brought[i % N] += (double)c->all[i];
    replay_merges(c->merges, c->all, p, c->by_tree);
    PASS_ON(gw_sync_gradient(c->sync, g));
    PASS_ON(gw_sync_model(c->sync, g));
    c->lost += c->merges->lost[rank];
    c->applied += c->merges->applied;
    gw_stats s = gw_sync_stats(c->sync);
    REQUIRE(fabs(s.lost_mass - c->lost) < 1e-9 * (1 + c->lost),
            "%d workers, step %d: worker %d lost %g, not %g", p, t, rank, s.lost_mass,
            c->lost);
    REQUIRE(fabs(s.applied_mass - c->applied) < 1e-9 * c->applied,
            "%d workers, step %d: %g applied, not %g", p, t, s.applied_mass,
            c->applied);
    return check_conserved(c, brought, g);
}

/* ---- its place in the state --------------------------------------------------------
 */

static gw_status make_sync(gw_sync **sync, gw_comm *comm, const char *spec)
{
    gw_tensor t = {.name = "t", .rows = 1, .cols = N};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, &t, 1));
    gw_status st = gw_sync_new(sync, spec, layout, comm, NULL);
    gw_layout_free(layout);
    return st;
}

/* Loads the states of all workers, `times` over, as if there had been so many. */
static gw_status load_again(gw_comm *comm, const char *spec, const uint8_t *states,
                            size_t len, size_t times, gw_stats *stats)
{
    size_t p = (size_t)gw_comm_workers(comm), lens[2 * WORKERS_MAX];
    const void *at[2 * WORKERS_MAX];
    gw_sync *other;

    for (size_t i = 0; i < times * p; i++) {
        at[i] = states + i % p * len;
        lens[i] = len;
    }
    PASS_ON(make_sync(&other, comm, spec));
    gw_status st = gw_sync_load(other, at, lens, times * p);
    *stats = gw_sync_stats(other);
    gw_sync_free(other);
    return st;
}

static gw_status check_state(const crew *c, const char *spec)
{
    size_t p = (size_t)gw_comm_workers(c->comm), lens[WORKERS_MAX];
    size_t len = gw_sync_state_len(c->sync);
    uint8_t *own = malloc(len), *states = malloc(p * len);
    gw_stats was = gw_sync_stats(c->sync), same = {0}, twice = {0};
    gw_status st = gw_sync_save(c->sync, own, len);

    if (st == GW_OK)
        st = gw_allgather(c->comm, own, len, states, len, lens);
    if (st == GW_OK)
        st = load_again(c->comm, spec, states, len, 1, &same);
    if (st == GW_OK)
        st = load_again(c->comm, spec, states, len, 2, &twice);
    free(own);
    free(states);
    PASS_ON(st);
    REQUIRE(same.lost_mass == was.lost_mass && same.applied_mass == was.applied_mass,
            "a state has %g lost and %g applied, not %g and %g", same.lost_mass,
            same.applied_mass, was.lost_mass, was.applied_mass);
    /* Workers w and w + P of the 2P that seem to have been go on as worker w. */
    REQUIRE(twice.lost_mass == 2 * was.lost_mass &&
                twice.applied_mass == was.applied_mass,
            "two states have %g lost, not twice %g", twice.lost_mass, was.lost_mass);
    return GW_OK;
}

/* ---- tests --------------------------------------------------------------------------
 */

static gw_status check_all(crew *c, const char *spec)
{
    int p = gw_comm_workers(c->comm);

    for (int t = 1; t <= STEPS; t++)
        PASS_ON(step(c, t));
    float sum = (float)c->lost;
    PASS_ON(gw_allreduce(c->comm, &sum, 1));
    /* What the only merge of two rejects is not in its result. */
    REQUIRE(p <= 2 ? sum == 0.0f : sum > 0.0f, "%d workers lost %g", p, (double)sum);
    return check_state(c, spec);
}

static gw_status paper_body(gw_comm *comm, void *arg)
{
    const char *spec = arg;
    crew c = {.comm = comm, .merges = calloc(1, sizeof(replay))};
    gw_status st;

    c.by_tree = strstr(spec, "via=tree") != NULL;
    c.all = calloc((size_t)gw_comm_workers(comm) * N, sizeof *c.all);
    st = make_sync(&c.sync, comm, spec);
    if (st == GW_OK)
        st = check_all(&c, spec);
    gw_sync_free(c.sync);
    free(c.merges);
    free(c.all);
    return st;
}

static void counted_as_merges_lose(void **state)
{
    static char pairs[] = "gtopk:0.1,putback=paper",
                tree[] = "gtopk:0.1,putback=paper,via=tree";

    (void)state;
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        assert_run_ok(ranks_run(RANKS_THREADS, workers, paper_body, pairs));
        assert_run_ok(ranks_run(RANKS_THREADS, workers, paper_body, tree));
    }
}

/* Values that are coded: what a worker keeps of the coding's error and what it takes
 * back are not the same twice. Whatever the rule loses is at coordinates that are
 * applied, and two workers lose nothing. */
static gw_status coded_step(crew *c, int t, const char *spec)
{
    int p = gw_comm_workers(c->comm);
    float g[N], a[N];
    double brought[N] = {0};

    make_gradient(g, gw_comm_rank(c->comm), t);
    for (int i = 0; i < N; i++)
        a[i] = c->sync->kept[GWI_RESIDUAL][i] + g[i];
    PASS_ON(gather(c, a));
    for (int i = 0; i < p * N; i++)
        brought[i % N] += (double)c->all[i];
    PASS_ON(gw_sync_gradient(c->sync, g));
    PASS_ON(gw_sync_model(c->sync, g));
    PASS_ON(gather(c, c->sync->kept[GWI_RESIDUAL]));
    for (int i = 0; i < N; i++) {
        double out = (double)p * (double)g[i];
        if (p > 2 && g[i] != 0.0f)
            continue;
        for (int w = 0; w < p; w++)
            out += (double)c->all[w * N + i];
        REQUIRE(fabs(brought[i] - out) < 1e-4,
                "%s, %d workers, step %d: %g in, %g out of %d", spec, p, t, brought[i],
                out, i);
    }
    return GW_OK;
}

static gw_status coded_body(gw_comm *comm, void *arg)
{
    const char *spec = arg;
    crew c = {.comm = comm};
    gw_status st;

    c.all = calloc((size_t)gw_comm_workers(comm) * N, sizeof *c.all);
    st = make_sync(&c.sync, comm, spec);
    for (int t = 1; st == GW_OK && t <= STEPS; t++)
        st = coded_step(&c, t, spec);
    gw_sync_free(c.sync);
    free(c.all);
    return st;
}

/* None of these codes an entry as 0, so that an applied coordinate can be told. */
static void coded_values_come_back_once(void **state)
{
    static const char *const spec[] = {
        "gtopk:0.1,putback=paper+bf16", "gtopk:0.1,putback=paper+2bit",
        "gtopk:0.1,putback=paper+1bit", "gtopk:0.1,putback=paper,via=pairs+2bit"};

    (void)state;
    for (size_t i = 0; i < sizeof spec / sizeof *spec; i++)
        for (int workers = 1; workers <= WORKERS_MAX; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, coded_body,
                                    (void *)(uintptr_t)spec[i]));
}

static gw_status nothing_body(gw_comm *comm, void *arg)
{
    float g[N];
    gw_sync *sync;

    PASS_ON(make_sync(&sync, comm, arg));
    for (int t = 1; t <= 3; t++) {
        make_gradient(g, gw_comm_rank(comm), t);
        PASS_ON(gw_sync_gradient(sync, g));
        PASS_ON(gw_sync_model(sync, g));
    }
    gw_stats s = gw_sync_stats(sync);
    gw_sync_free(sync);
    REQUIRE(s.lost_mass == 0 && s.applied_mass == 0, "%s counts %g lost, %g applied",
            (const char *)arg, s.lost_mass, s.applied_mass);
    return GW_OK;
}

static void others_count_nothing(void **state)
{
    static const char *const spec[] = {"gtopk:0.1", "topk:0.1", "dense",
                                       "gtopk:0.1,residual=off,putback=paper"};

    (void)state;
    for (size_t i = 0; i < sizeof spec / sizeof *spec; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 4, nothing_body, (void *)(uintptr_t)spec[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_as_merges_lose),
        cmocka_unit_test(coded_values_come_back_once),
        cmocka_unit_test(others_count_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
