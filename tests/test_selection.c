/* SPDX-License-Identifier: Apache-2.0
 *
 * test_selection.c - what sparse methods choose where magnitudes tie. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sync/sync.h"

/* Three tensors; dense_below=100 sends the middle one whole. */
enum { FIRST = 20000, SMALL = 40, LAST = 2000, N = FIRST + SMALL + LAST };

/* What drop:0.99 sends at most: 4 k + 1024. */
enum { ROOM = 4 * (N / 100) + 1024 };

typedef struct scene {
    const char *spec;
    float (*gradient)(int rank, size_t i); /* the same in every step */
    int steps;
    float most; /* that an entry may wait for, in the end */
} scene;

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor t[] = {
        {.name = "first", .offset = 0, .rows = 100, .cols = FIRST / 100},
        {.name = "small", .offset = FIRST, .rows = 1, .cols = SMALL},
        {.name = "last", .offset = FIRST + SMALL, .rows = 20, .cols = LAST / 20}};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, t, 3));
    gw_status st = gw_sync_new(sync, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

static void fill(float *g, const scene *s, int rank)
{
    for (size_t i = 0; i < N; i++)
        g[i] = s->gradient(rank, i);
}

static size_t count_nonzero(const float *v, size_t begin, size_t end)
{
    size_t count = 0;

    for (size_t i = begin; i < end; i++)
        count += v[i] != 0;
    return count;
}

static float sign_at(size_t i)
{
    return test_float(3, i) < 0 ? -1.0f : 1.0f;
}

static float equal(int rank, size_t i)
{
    (void)rank;
    return 0.5f * sign_at(i);
}

/* Two per cent were cut to the same magnitude. */
static float clipped(int rank, size_t i)
{
    return i % 50 == 7 ? 0.1f * sign_at(i) : 0.09f * test_float(10 + (uint64_t)rank, i);
}

/* Every entry is one of three magnitudes, most of them the least. */
static float coarse(int rank, size_t i)
{
    uint64_t r = test_random(20 + (uint64_t)rank, i) % 1000;

    return (r < 3 ? 0.75f : r < 200 ? 0.5f : 0.25f) * sign_at(i);
}

/* ---- ties at the threshold --------------------------------------------------------
 */

/* All that went in has come out or waits, and nothing waits for ever. */
static gw_status check_balance(const scene *s, gw_comm *c, const gw_sync *sync,
                               const float *in, const float *out)
{
    float *sums = malloc(2 * N * sizeof *sums);
    gw_status st;

    for (size_t i = 0; i < N; i++) {
        sums[i] = in[i];
        sums[N + i] = sync->residual[i] + out[i];
    }
    st = gw_allreduce(c, sums, 2 * N);
    for (size_t i = 0; st == GW_OK && i < N; i++)
        if (fabsf(sums[i] - sums[N + i]) > 1e-4f * (1 + fabsf(sums[i])))
            st =
                gw_fail(GW_ERR_DATA, "%s: %g went in and %g came out of coordinate %zu",
                        s->spec, (double)sums[i], (double)sums[N + i], i);
        else if (fabsf(sync->residual[i]) > s->most)
            st = gw_fail(GW_ERR_DATA, "%s: %g waits in coordinate %zu", s->spec,
                         (double)sync->residual[i], i);
    free(sums);
    return st;
}

static gw_status ties_body(gw_comm *c, void *arg)
{
    const scene *s = arg;
    float *g = calloc(3 * N, sizeof *g), *in = g + N, *out = in + N;
    gw_status st = GW_OK;
    gw_sync *sync;

    PASS_ON(make_sync(&sync, c, s->spec));
    for (int step = 0; st == GW_OK && step < s->steps; step++) {
        fill(g, s, gw_comm_rank(c));
        for (size_t i = 0; i < N; i++)
            in[i] += g[i];
        st = gw_sync_gradient(sync, g);
        for (size_t i = 0; i < N; i++)
            out[i] += g[i];
        if (st == GW_OK &&
            count_nonzero(g, 0, FIRST) + count_nonzero(g, N - LAST, N) == 0)
            st = gw_fail(GW_ERR_DATA, "%s: step %d sends nothing", s->spec, step);
    }
    if (st == GW_OK)
        st = check_balance(s, c, sync, in, out);
    gw_sync_free(sync);
    free(g);
    return st;
}

static void test_ties_are_sent(void **state)
{
    static const scene scenes[] = {
        {"drop:0.99", equal, 40, 9},
        {"drop:0.99", clipped, 60, 5},
        {"drop:0.99", coarse, 60, 9},
        {"drop:0.99,threshold=tensor", equal, 40, 9},
        {"drop:0.99,threshold=tensor", clipped, 60, 5},
        {"drop:0.99,dense_below=100", equal, 40, 9},
        {"drop:0.99,dense_below=100", clipped, 60, 5},
        {"drop:0.99,threshold=tensor,dense_below=100", equal, 40, 9},
        {"drop:0.99+1bit", equal, 40, 9},
        {"drop:0.99+2bit", equal, 40, 9},
        {"drop:0.99+1bit:centre=column", equal, 40, 9},
        {"drop:0.99+bf16", equal, 40, 9},
        {"drop:0.99+q:4", equal, 40, 9},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        for (int workers = 1; workers <= 3; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, ties_body,
                                    (void *)(uintptr_t)&scenes[i]));
}

/* ---- what is larger goes before what ties ------------------------------------------
 */

/* More than there is room for tie at 0.5, in front; at the end are a few larger ones.
 * Of `last`, with a threshold of its own, 20 are above it. */
static float larger_at_the_end(int rank, size_t i)
{
    (void)rank;
    if (i < FIRST)
        return 0.5f * sign_at(i);
    return i >= N - 20 ? 1.0f + (float)i : 1e-4f * (float)(i - FIRST + 1);
}

static gw_status order_body(gw_comm *c, void *arg)
{
    const scene *s = arg;
    bool whole = strstr(s->spec, "dense_below") != NULL;
    float *g = calloc(N, sizeof *g);
    gw_sync *sync;

    PASS_ON(make_sync(&sync, c, s->spec));
    fill(g, s, gw_comm_rank(c));
    PASS_ON(gw_sync_gradient(sync, g));
    size_t ties = count_nonzero(g, 0, FIRST), last = count_nonzero(g, N - LAST, N);
    size_t small = count_nonzero(g, FIRST, FIRST + SMALL);
    size_t lowest = count_nonzero(g, 0, ties), large = count_nonzero(g, N - 20, N);
    gw_sync_free(sync);
    free(g);
    REQUIRE(large == 20, "%s: %zu of 20 large entries were sent", s->spec, large);
    REQUIRE(ties + last + (whole ? 0 : small) == ROOM, "%s: %zu + %zu + %zu sent",
            s->spec, ties, small, last);
    REQUIRE(lowest == ties, "%s: not the lowest indices of those that tie", s->spec);
    return GW_OK;
}

static void test_larger_before_ties(void **state)
{
    static const scene scenes[] = {
        {.spec = "drop:0.99", .gradient = larger_at_the_end},
        {.spec = "drop:0.99,dense_below=100", .gradient = larger_at_the_end},
        {.spec = "drop:0.99,threshold=tensor", .gradient = larger_at_the_end},
        {.spec = "drop:0.99,threshold=tensor,dense_below=100",
         .gradient = larger_at_the_end},
    };

    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        for (int workers = 1; workers <= 2; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, order_body,
                                    (void *)(uintptr_t)&scenes[i]));
}

/* A threshold of its own for a tensor of one or two floats. */
static gw_status tiny_tensors_body(gw_comm *c, void *arg)
{
    gw_tensor t[] = {{.name = "one", .rows = 1, .cols = 1},
                     {.name = "two", .offset = 1, .rows = 1, .cols = 2},
                     {.name = "many", .offset = 3, .rows = 1, .cols = 500}};
    float g[503], sum[503] = {0};
    gw_layout *layout;
    gw_sync *sync;

    PASS_ON(gw_layout_new(&layout, t, 3));
    PASS_ON(gw_sync_new(&sync, arg, layout, c, NULL));
    gw_layout_free(layout);
    for (int step = 0; step < 4; step++) {
        for (size_t i = 0; i < 503; i++)
            g[i] = i < 3 ? 0.25f : test_float(5, i);
        PASS_ON(gw_sync_gradient(sync, g));
        for (size_t i = 0; i < 503; i++)
            sum[i] += g[i];
    }
    gw_sync_free(sync);
    for (size_t i = 0; i < 3; i++)
        REQUIRE(sum[i] >= 0.5f, "%s: coordinate %zu of small tensors has got %g of 1",
                (const char *)arg, i, (double)sum[i]);
    return GW_OK;
}

static void test_tiny_tensors(void **state)
{
    (void)state;
    assert_run_ok(
        ranks_run(RANKS_THREADS, 2, tiny_tensors_body, "drop:0.99,threshold=tensor"));
}

/* A vector long enough for samples and for several threads. */
static gw_status sampled_body(gw_comm *c, void *arg)
{
    enum { MANY = 700000, MOST = 4 * (MANY / 100) + 1024 };
    gw_tensor t = {.name = "t", .rows = 1, .cols = MANY};
    float *g = malloc(MANY * sizeof *g);
    gw_layout *layout;
    gw_sync *sync;
    size_t sent = 0;

    (void)arg;
    PASS_ON(gw_layout_new(&layout, &t, 1));
    PASS_ON(gw_sync_new(&sync, "drop:0.99", layout, c, NULL));
    gw_layout_free(layout);
    for (int step = 0; step < 3; step++) {
        for (size_t i = 0; i < MANY; i++)
            g[i] = i >= MANY - 5 ? 9.0f : 0.25f * sign_at(i);
        PASS_ON(gw_sync_gradient(sync, g));
        for (size_t i = 0; i < MANY; i++)
            sent += g[i] != 0;
        REQUIRE(g[MANY - 1] == 9.0f && g[MANY - 5] == 9.0f,
                "the largest were not sent");
        REQUIRE(sent == (size_t)(step + 1) * MOST, "%zu sent after step %d", sent,
                step);
    }
    gw_sync_free(sync);
    free(g);
    return GW_OK;
}

static void test_ties_of_a_sample(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, sampled_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties_are_sent),
        cmocka_unit_test(test_larger_before_ties),
        cmocka_unit_test(test_tiny_tensors),
        cmocka_unit_test(test_ties_of_a_sample),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
