/* SPDX-License-Identifier: Apache-2.0
 *
 * test_pairs.c - gTop-k in pairs against gTop-k along a tree: the same bits where both
 * do the same merges, nothing lost where they do not, half the rounds. */
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sync/sync.h"

enum { N = 300, STEPS = 6, WORKERS_MAX = 9 };

static gw_status make_sync(gw_sync **sync, gw_comm *comm, const char *spec)
{
    gw_sync_options opt = {.struct_size = sizeof opt, .nonfinite = GW_NONFINITE_SKIP};
    gw_tensor t = {.name = "t", .rows = 10, .cols = N / 10};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, &t, 1));
    gw_status st = gw_sync_new(sync, spec, layout, comm, &opt);
    gw_layout_free(layout);
    return st;
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

/* ---- the same bits ------------------------------------------------------------------
 */

static const char *const exact_specs[][2] = {
    {"gtopk:0.05", "gtopk:0.05,via=tree"},
    {"gtopk:0.05,putback=keep", "gtopk:0.05,putback=keep,via=tree"},
    {"gtopk:0.05,putback=paper", "gtopk:0.05,putback=paper,via=tree"},
    {"gtopk:0.05,residual=off", "gtopk:0.05,residual=off,via=tree"},
    {"gtopk:0.2,ladder=2", "gtopk:0.2,ladder=2,via=tree"},
    {"gtopk:0.9", "gtopk:0.9,via=tree"},
};

static gw_status same_step(gw_sync *pairs, gw_sync *tree, int rank, int t)
{
    float a[N], b[N];

    make_gradient(a, rank, t);
    memcpy(b, a, sizeof b);
    PASS_ON(gw_sync_gradient(pairs, a));
    PASS_ON(gw_sync_gradient(tree, b));
    REQUIRE(memcmp(a, b, sizeof a) == 0, "%s: step %d differs", tree->text, t);
    const float *r = pairs->kept[GWI_RESIDUAL];
    REQUIRE(r == NULL || memcmp(r, tree->kept[GWI_RESIDUAL], sizeof a) == 0,
            "%s: the residual of step %d differs", tree->text, t);
    REQUIRE(gw_sync_stats(pairs).lost_mass == gw_sync_stats(tree).lost_mass,
            "%s: lost %g and %g", tree->text, gw_sync_stats(pairs).lost_mass,
            gw_sync_stats(tree).lost_mass);
    PASS_ON(gw_sync_model(pairs, a));
    return gw_sync_model(tree, b);
}

static gw_status same_body(gw_comm *comm, void *arg)
{
    const char *const *specs = arg;
    gw_sync *pairs, *tree = NULL;
    gw_status st = make_sync(&pairs, comm, specs[0]);

    if (st == GW_OK)
        st = make_sync(&tree, comm, specs[1]);
    for (int t = 1; st == GW_OK && t <= STEPS; t++)
        st = same_step(pairs, tree, gw_comm_rank(comm), t);
    gw_sync_free(pairs);
    gw_sync_free(tree);
    return st;
}

static void same_bits_as_the_tree(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof exact_specs / sizeof *exact_specs; i++)
        for (int workers = 1; workers <= 8; workers *= 2)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, same_body,
                                    (void *)(uintptr_t)exact_specs[i]));
}

/* ---- nothing is lost
 * ------------------------------------------------------------------
 */

/* The sum of every coordinate over all workers. */
static gw_status add_up(gw_comm *comm, const float *v, double *sum)
{
    size_t p = (size_t)gw_comm_workers(comm), lens[WORKERS_MAX];
    float *all = calloc(p, N * sizeof *all);
    gw_status st = gw_allgather(comm, v, N * sizeof *v, all, N * sizeof *v, lens);

    memset(sum, 0, N * sizeof *sum);
    for (size_t i = 0; i < p * N; i++)
        sum[i % N] += (double)all[i];
    free(all);
    return st;
}

/* One worker in turn has NaN in every third step, which is skipped. A note then takes
 * the place of any list. What the others have brought stays in residuals. */
static bool is_bad(gw_comm *comm, int t)
{
    return t % 3 == 0 && gw_comm_rank(comm) == t / 3 % gw_comm_workers(comm);
}

static gw_status whole_step(gw_sync *s, gw_comm *comm, const char *spec, int t)
{
    int p = gw_comm_workers(comm);
    double before[N], brought[N], after[N];
    const float *r = s->kept[GWI_RESIDUAL];
    float g[N] = {0};

    if (!is_bad(comm, t))
        make_gradient(g, gw_comm_rank(comm), t);
    PASS_ON(add_up(comm, r, before));
    PASS_ON(add_up(comm, g, brought));
    g[7] = is_bad(comm, t) ? NAN : g[7];
    gw_status st = gw_sync_gradient(s, g), due = t % 3 == 0 ? GW_SKIPPED : GW_OK;
    REQUIRE(st == due, "%s: step %d is %d", spec, t, st);
    PASS_ON(add_up(comm, r, after));
    for (int i = 0; i < N; i++) {
        double in = before[i] + brought[i];
        double out = after[i] + (due == GW_OK ? p * (double)g[i] : 0);
        REQUIRE(fabs(in - out) < 1e-4, "%s, %d workers, step %d: %g in, %g out of %d",
                spec, p, t, in, out, i);
    }
    memset(g, 0, sizeof g);
    return gw_sync_model(s, g);
}

static gw_status whole_body(gw_comm *comm, void *arg)
{
    gw_sync *s;
    gw_status st = make_sync(&s, comm, arg);

    for (int t = 1; st == GW_OK && t <= 4 * STEPS; t++)
        st = whole_step(s, comm, arg, t);
    gw_sync_free(s);
    return st;
}

static void nothing_is_lost(void **state)
{
    static const char *const specs[] = {"gtopk:0.05",
                                        "gtopk:0.05,putback=keep",
                                        "gtopk:0.05,via=tree",
                                        "gtopk:0.1,via=pairs+q:4",
                                        "gtopk:0.1,putback=keep,via=pairs+q:4",
                                        "gtopk:0.1,via=pairs+q:3",
                                        "gtopk:0.1,via=tree+q:4",
                                        "gtopk:0.1,via=pairs+bf16",
                                        "gtopk:0.1,putback=keep,via=pairs+2bit",
                                        "gtopk:0.1,via=pairs+1bit",
                                        "gtopk:0.1,via=pairs+1bit:centre=column"};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int workers = 1; workers <= WORKERS_MAX; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, whole_body,
                                    (void *)(uintptr_t)specs[i]));
}

/* ---- sums that overflow
 * ---------------------------------------------------------------
 */

/* The sum of all workers' entries at one place does not fit into a float. It is
 * dropped, so that the next step is not skipped as well; everything else is kept. */
static gw_status overflow_body(gw_comm *comm, void *arg)
{
    double brought[N], after[N];
    float g[N];
    gw_sync *s;

    PASS_ON(make_sync(&s, comm, arg));
    make_gradient(g, gw_comm_rank(comm), 1);
    PASS_ON(add_up(comm, g, brought));
    g[7] = 3e38f;
    gw_status st = gw_sync_gradient(s, g);
    REQUIRE(st == GW_SKIPPED, "%s: the step is %d", (const char *)arg, st);
    PASS_ON(add_up(comm, s->kept[GWI_RESIDUAL], after));
    for (int i = 0; i < N; i++)
        REQUIRE(i == 7 || fabs(brought[i]) < 1e-6 || fabs(after[i]) < 10,
                "%s: %g is kept of %d", (const char *)arg, after[i], i);
    make_gradient(g, gw_comm_rank(comm), 2);
    for (int t = 0; t < 4 && (st = gw_sync_gradient(s, g)) == GW_SKIPPED; t++)
        make_gradient(g, gw_comm_rank(comm), 2);
    REQUIRE(st == GW_OK, "%s: the step after is %d", (const char *)arg, st);
    gw_sync_free(s);
    return GW_OK;
}

static void overflow_is_dropped(void **state)
{
    static char spec[] = "gtopk:0.05", keep[] = "gtopk:0.05,putback=keep";

    (void)state;
    for (int workers = 2; workers <= WORKERS_MAX; workers++) {
        assert_run_ok(ranks_run(RANKS_THREADS, workers, overflow_body, spec));
        assert_run_ok(ranks_run(RANKS_THREADS, workers, overflow_body, keep));
    }
}

/* ---- rounds
 * ----------------------------------------------------------------------------
 */

static gw_status count_body(gw_comm *comm, void *arg)
{
    int p = gw_comm_workers(comm), rank = gw_comm_rank(comm), q = 1;
    uint64_t rounds = 0;
    float g[N];
    gw_sync *s;

    (void)arg;
    for (; 2 * q <= p; q *= 2)
        rounds++;
    PASS_ON(make_sync(&s, comm, "gtopk:0.05"));
    make_gradient(g, rank, 1);
    PASS_ON(gw_sync_gradient(s, g));
    gw_stats stats = gw_sync_stats(s);
    uint64_t expected = rank >= q ? 1 : rounds + (uint64_t)(rank + q < p);
    REQUIRE(stats.messages_sent == expected, "worker %d of %d sent %d messages", rank,
            p, (int)stats.messages_sent);
    gw_sync_free(s);
    return GW_OK;
}

static void as_many_messages_as_rounds(void **state)
{
    (void)state;
    for (int workers = 1; workers <= WORKERS_MAX; workers++)
        assert_run_ok(ranks_run(RANKS_THREADS, workers, count_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_as_the_tree),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(overflow_is_dropped),
        cmocka_unit_test(as_many_messages_as_rounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
