/* SPDX-License-Identifier: Apache-2.0
 *
 * test_selection.c - what sparse methods choose where magnitudes tie, and where fewer
 * entries than are asked for are not 0. */
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

static float zero(int rank, size_t i)
{
    (void)rank;
    return i % 2 ? 0.0f : -0.0f;
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
        sums[N + i] = sync->kept[GWI_RESIDUAL][i] + out[i];
    }
    st = gw_allreduce(c, sums, 2 * N);
    for (size_t i = 0; st == GW_OK && i < N; i++)
        if (fabsf(sums[i] - sums[N + i]) > 1e-4f * (1 + fabsf(sums[i])))
            st =
                gw_fail(GW_ERR_DATA, "%s: %g went in and %g came out of coordinate %zu",
                        s->spec, (double)sums[i], (double)sums[N + i], i);
        else if (fabsf(sync->kept[GWI_RESIDUAL][i]) > s->most)
            st = gw_fail(GW_ERR_DATA, "%s: %g waits in coordinate %zu", s->spec,
                         (double)sync->kept[GWI_RESIDUAL][i], i);
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

/* ---- zeros ------------------------------------------------------------------------
 */

/* 30 entries that are not 0, spread out, those of odd workers elsewhere. */
static float few(int rank, size_t i)
{
    size_t at = i % 701;

    if (i / 701 >= 30 || at != (size_t)(3 + rank % 2))
        return i % 3 ? 0.0f : -0.0f;
    return sign_at(i) * (1.0f + test_float(40 + (uint64_t)rank, i));
}

/* Workers 0 and 1 cancel in half of their entries, which are of one magnitude, so that
 * every coding is exact. */
static float cancelling(int rank, size_t i)
{
    if (i % 1000 != 11)
        return 0;
    return i / 1000 % 2 == 0 || rank % 2 == 0 ? 1.0f : -1.0f;
}

static gw_status zeros_body(gw_comm *c, void *arg)
{
    const scene *s = arg;
    int p = gw_comm_workers(c);
    float *g = calloc(2 * N, sizeof *g), *in = g + N;
    gw_status st;
    gw_sync *sync;
    size_t bad = N, most = 0;

    PASS_ON(make_sync(&sync, c, s->spec));
    fill(g, s, gw_comm_rank(c));
    for (size_t i = 0; i < N; i++)
        in[i] = g[i];
    size_t sent = count_nonzero(g, 0, N);
    PASS_ON(gw_sync_gradient(sync, g));
    for (size_t i = 0; i < N; i++) {
        float sum = 0;
        for (int r = 0; r < p; r++)
            sum += s->gradient(r, i);
        most += sum != 0;
        if (sum == 0 && g[i] != 0)
            bad = i;
    }
    uint64_t bytes = gw_sync_stats(sync).bytes_sent;
    st = check_balance(s, c, sync, in, g);
    size_t got = count_nonzero(g, 0, N);
    float value = bad < N ? g[bad] : 0;
    gw_sync_free(sync);
    free(g);
    PASS_ON(st);
    REQUIRE(bad == N, "%s: coordinate %zu is %g, and the sum was 0", s->spec, bad,
            (double)value);
    REQUIRE(got <= most, "%s: %zu entries came of %zu", s->spec, got, most);
    /* Header, group, two centres, and 8 bytes for an entry are more than enough. */
    REQUIRE(p != 2 || bytes <= 40 + 8 * (sent + most) + 8 * SMALL,
            "%s: %llu bytes for %zu entries", s->spec, (unsigned long long)bytes, sent);
    return GW_OK;
}

static const char *const selections[] = {"topk:0.01",
                                         "gtopk:0.01",
                                         "drop:0.99",
                                         "topk:0.01,dense_below=100",
                                         "gtopk:0.01,dense_below=100",
                                         "drop:0.99,dense_below=100",
                                         "drop:0.99,threshold=tensor"};
static const char *const codings[] = {"",
                                      "+1bit",
                                      "+1bit:centre=threshold",
                                      "+1bit:centre=column",
                                      "+2bit",
                                      "+2bit:centre=threshold",
                                      "+bf16",
                                      "+q:4"};

static void for_each_composition(float (*gradient)(int rank, size_t i))
{
    char spec[128];

    for (size_t i = 0; i < sizeof selections / sizeof *selections; i++)
        for (size_t j = 0; j < sizeof codings / sizeof *codings; j++) {
            strcpy(spec, selections[i]);
            strcat(spec, codings[j]);
            scene s = {.spec = spec, .gradient = gradient, .most = 100};
            for (int workers = 1; workers <= 4; workers++)
                assert_run_ok(ranks_run(RANKS_THREADS, workers, zeros_body, &s));
        }
}

static void test_fewer_than_k(void **state)
{
    (void)state;
    for_each_composition(few);
}

static void test_nothing_but_zeros(void **state)
{
    (void)state;
    for_each_composition(zero);
}

static void test_sums_that_cancel(void **state)
{
    (void)state;
    for_each_composition(cancelling);
}

/* The tree keeps k entries, though each worker brings fewer. */
static gw_status short_lists_body(gw_comm *c, void *arg)
{
    const scene *s = arg;
    float *g = calloc(N, sizeof *g);
    gw_sync *sync;

    PASS_ON(make_sync(&sync, c, s->spec));
    fill(g, s, gw_comm_rank(c));
    PASS_ON(gw_sync_gradient(sync, g));
    size_t got = count_nonzero(g, 0, N);
    double left = gw_sync_residual_norm(sync);
    gw_sync_free(sync);
    free(g);
    REQUIRE(got == 60 && left == 0, "%s: %zu of 60 entries came, %g is left", s->spec,
            got, left);
    return GW_OK;
}

static void test_short_lists_in_the_tree(void **state)
{
    static const scene scenes[] = {
        {.spec = "gtopk:0.01", .gradient = few},
        {.spec = "gtopk:0.01,putback=paper", .gradient = few},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 2, short_lists_body,
                                (void *)(uintptr_t)&scenes[i]));
}

/* Entries of one magnitude come out as they went in: no 0 has a part in the mean. */
static gw_status centre_body(gw_comm *c, void *arg)
{
    float *g = calloc(2 * N, sizeof *g), *in = g + N;
    gw_sync *sync;

    PASS_ON(make_sync(&sync, c, arg));
    for (size_t i = 0; i < 30; i++)
        g[600 * i + 1] = in[600 * i + 1] = i % 7 < 4 ? 2.0f : -2.0f;
    PASS_ON(gw_sync_gradient(sync, g));
    size_t i = 0;
    while (i < N && g[i] == in[i])
        i++;
    float got = i < N ? g[i] : 0, due = i < N ? in[i] : 0;
    gw_sync_free(sync);
    free(g);
    REQUIRE(i == N, "%s: coordinate %zu is %g, not %g", (const char *)arg, i,
            (double)got, (double)due);
    return GW_OK;
}

static void test_centre_of_few(void **state)
{
    static const char *const specs[] = {"topk:0.01+1bit", "topk:0.01+2bit",
                                        "gtopk:0.01+1bit",
                                        "topk:0.01+1bit:centre=column"};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 2, centre_body, (void *)(uintptr_t)specs[i]));
}

/* A list without entries has one centre, or none with columns, and is read either
 * way. */
static void test_empty_lists(void **state)
{
    gw_tensor tensor = {.name = "t", .rows = 10, .cols = 10};
    const char *const specs[] = {"topk:0.1+1bit", "topk:0.1+1bit:centre=column"};
    const gwi_message_context at = {.step = 5};
    gwi_coding coding[2];
    gwi_spec spec[2];
    gw_layout *layout;
    uint8_t msg[256];
    size_t len;

    (void)state;
    assert_run_ok(gw_layout_new(&layout, &tensor, 1));
    for (int i = 0; i < 2; i++) {
        assert_run_ok(gwi_spec_parse(specs[i], &spec[i]));
        assert_run_ok(gwi_coding_init(&coding[i], &spec[i], layout, true, 10));
    }
    for (int i = 0; i < 4; i++) {
        uint32_t index[10];
        float value[10];
        gwi_list list = {index, value, 0, 10};
        assert_run_ok(gwi_coding_put_list(&coding[i / 2], &list, 100, &at, msg,
                                          sizeof msg, &len));
        list.n = 7;
        assert_run_ok(
            gwi_coding_get_list(&coding[i % 2], msg, len, 100, at.step, &list));
        assert_int_equal(list.n, 0);
    }
    gwi_coding_fini(&coding[0]);
    gwi_coding_fini(&coding[1]);
    gw_layout_free(layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ties_are_sent),
        cmocka_unit_test(test_larger_before_ties),
        cmocka_unit_test(test_tiny_tensors),
        cmocka_unit_test(test_ties_of_a_sample),
        cmocka_unit_test(test_fewer_than_k),
        cmocka_unit_test(test_nothing_but_zeros),
        cmocka_unit_test(test_sums_that_cancel),
        cmocka_unit_test(test_short_lists_in_the_tree),
        cmocka_unit_test(test_centre_of_few),
        cmocka_unit_test(test_empty_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
