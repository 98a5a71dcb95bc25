/* SPDX-License-Identifier: Apache-2.0
 *
 * test_entries.c - a caller that keeps the residual and chooses entries itself gets the
 * bits of gw_sync_gradient(), in the result and in its residual. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sync/selection.h"
#include "sync/sync.h"

enum { N = 200, STEPS = 12, BAD_STEP = 5, OVERFLOW_STEP = 8 };

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor tensors[] = {{.name = "w", .rows = 18, .cols = 10},
                           {.name = "b", .offset = 180, .rows = 1, .cols = 20}};
    gw_sync_options opt = {sizeof opt, GW_NONFINITE_SKIP, 7};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, tensors, 2));
    gw_status st = gw_sync_new(sync, spec, layout, c, &opt);
    gw_layout_free(layout);
    return st;
}

/* Few magnitudes, so that there are ties and zeros, and sums that come to 0. In one
 * step a worker has NaN, in another the sum of two is too large for a float. */
static void make_gradient(float *g, int rank, int step)
{
    for (size_t i = 0; i < N; i++) {
        float x = test_float((uint64_t)(100 * rank + step), i);
        g[i] = step % 2 == 0 ? x : roundf(4 * x * x * x) / 4;
    }
    if (step == BAD_STEP && rank == 1)
        g[17] = g[191] = NAN;
    if (step == OVERFLOW_STEP)
        g[33] = 3e38F;
}

/* ---- the caller's part ------------------------------------------------------------
 */

typedef struct caller {
    float residual[N];
    uint32_t index[N];
    float value[N];
    size_t count;
} caller;

/* Whether entry i of r goes before entry j. */
static bool goes_before(const float *r, size_t i, size_t j)
{
    int32_t a = gwi_magnitude_key(r[i]), b = gwi_magnitude_key(r[j]);

    return a > b || (a == b && i < j);
}

/* An entry is among the k largest if fewer than k go before it. */
static bool is_largest(const float *r, size_t i, size_t k)
{
    size_t before = 0;

    for (size_t j = 0; j < N; j++)
        before += goes_before(r, j, i);
    return before < k && r[i] != 0;
}

static void choose(caller *me, const float *g, size_t k)
{
    float r[N];

    me->count = 0;
    for (size_t i = 0; i < N; i++)
        if (!isfinite(g[i])) {
            me->index[0] = (uint32_t)i;
            me->value[0] = g[i];
            me->count = 1;
            return;
        }
    for (size_t i = 0; i < N; i++)
        r[i] = me->residual[i] += g[i];
    for (size_t i = 0; i < N; i++)
        if (is_largest(r, i, k)) {
            me->index[me->count] = (uint32_t)i;
            me->value[me->count++] = r[i];
            me->residual[i] = 0;
        }
}

/* A step by entries, and what comes of it as a vector. */
static gw_status step_of_entries(gw_sync *s, caller *me, float *g)
{
    gw_entries result, kept;

    choose(me, g, gw_sync_entries_due(s));
    gw_entries mine = {me->index, me->value, me->count};
    gw_status st = gw_sync_entries(s, &mine, &result, &kept);
    if (st < 0)
        return st;
    for (size_t i = 0; i < kept.count; i++)
        me->residual[kept.index[i]] += kept.value[i];
    memset(g, 0, N * sizeof *g);
    for (size_t i = 0; i < result.count; i++)
        g[result.index[i]] = result.value[i];
    return st;
}

/* ---- the same bits ------------------------------------------------------------------
 */

static gw_status same_body(gw_comm *c, void *arg)
{
    const char *spec = arg;
    float g[N], want[N];
    caller me = {.count = 0};
    gw_sync *s, *usual;
    int skipped = 0;

    PASS_ON(make_sync(&s, c, spec));
    PASS_ON(make_sync(&usual, c, spec));
    for (int t = 1; t <= STEPS; t++) {
        make_gradient(g, gw_comm_rank(c), t);
        memcpy(want, g, sizeof want);
        gw_status due = gw_sync_gradient(usual, want), st = step_of_entries(s, &me, g);
        REQUIRE(st == due, "%s, step %d: %s, not %s", spec, t, gw_status_name(st),
                gw_status_name(due));
        skipped += st == GW_SKIPPED;
        REQUIRE(st == GW_SKIPPED || memcmp(g, want, sizeof g) == 0,
                "%s, step %d: another result", spec, t);
        REQUIRE(memcmp(me.residual, usual->kept[GWI_RESIDUAL], sizeof g) == 0,
                "%s, step %d: another residual", spec, t);
    }
    REQUIRE(skipped >= (gw_comm_workers(c) > 1), "%s: nothing was skipped", spec);
    gw_stats a = gw_sync_stats(s), b = gw_sync_stats(usual);
    gw_sync_free(usual);
    gw_sync_free(s);
    REQUIRE(a.bytes_sent == b.bytes_sent && a.steps == b.steps &&
                a.skipped == b.skipped,
            "%s: other totals", spec);
    return GW_OK;
}

static void test_same_bits(void **state)
{
    static const char *const specs[] = {
        "topk:0.1",      "gtopk:0.05",     "gtopk:0.05,putback=keep",
        "topk:0.1+q:4",  "gtopk:0.05+q:4", "gtopk:0.05,putback=paper+q:4",
        "topk:0.9",      "gtopk:0.9",      "topk:0.1,ladder=4",
        "topk:0.1+bf16", "oktopk:0.1",     "oktopk:0.2+q:4",
    };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int workers = 1; workers <= 5; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, same_body,
                                    (void *)(uintptr_t)specs[i]));
}

/* ---- what cannot be made of entries ---------------------------------------------- */

static gw_status refused_body(gw_comm *c, void *arg)
{
    gw_entries none = {NULL, NULL, 0}, result, kept;
    gw_sync *s;

    PASS_ON(make_sync(&s, c, arg));
    size_t due = gw_sync_entries_due(s);
    bool later = gw_sync_takes_entries(s), warms = strstr(arg, "warmup") != NULL;
    gw_status st = gw_sync_entries(s, &none, &result, &kept);
    gw_stats stats = gw_sync_stats(s);
    gw_sync_free(s);
    REQUIRE(later == warms, "%s: takes entries later", (const char *)arg);
    REQUIRE(due == 0 && st == GW_ERR_ARG && stats.steps == 0, "%s: took entries",
            (const char *)arg);
    return GW_OK;
}

static void test_whole_gradients(void **state)
{
    static const char *const specs[] = {
        "dense",
        "topk:0.1,warmup=3",
        "topk:0.1,tile=50",
        "drop:0.9",
        "topk:0.1+momentum:0.9",
        "topk:0.1,dense_below=30",
        "local:4",
        "topk:0.1,residual=off",
        "local:2+topk:0.1",
        "topk:0.1,combine=senders",
    };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 2, refused_body, (void *)(uintptr_t)specs[i]));
}

static gw_status check_refused(gw_sync *s, const uint32_t *index, size_t count)
{
    static const float value[N];
    gw_entries mine = {index, value, count}, result, kept;

    REQUIRE(gw_sync_entries(s, &mine, &result, &kept) == GW_ERR_ARG, "took them");
    REQUIRE(gw_sync_stats(s).steps == 0, "made a step");
    return GW_OK;
}

static gw_status arguments_body(gw_comm *c, void *arg)
{
    static const uint32_t many[N] = {0}, twice[] = {3, 3}, far[] = {2, N};
    gw_sync *s;

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.02"));
    REQUIRE(gw_sync_takes_entries(s), "takes no entries");
    REQUIRE(gw_sync_entries_due(s) == 4, "%zu are due", gw_sync_entries_due(s));
    PASS_ON(check_refused(s, many, 5));
    PASS_ON(check_refused(s, twice, 2));
    PASS_ON(check_refused(s, far, 2));
    gw_sync_free(s);
    return GW_OK;
}

static void test_arguments(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, arguments_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_whole_gradients),
        cmocka_unit_test(test_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
