/* SPDX-License-Identifier: Apache-2.0
 *
 * test_collectives.c - every collective against a slow obvious version, for 1 to 9
 * workers, awkward lengths, every transport. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/collective.h"

typedef struct task {
    size_t n;
    uint64_t seed;
    gw_status (*reduce)(gw_comm *c, float *x, size_t n);
} task;

/* Worker r's float i, as every worker can compute it. */
static float value(const task *t, int rank, size_t i)
{
    return test_float(t->seed + (uint64_t)rank, i);
}

static double true_sum(const task *t, int workers, size_t i)
{
    double sum = 0;

    for (int r = 0; r < workers; r++)
        sum += (double)value(t, r, i);
    return sum;
}

static float *fill(gw_comm *c, const task *t)
{
    float *x = malloc((t->n + 1) * sizeof *x);

    for (size_t i = 0; i < t->n; i++)
        x[i] = value(t, gw_comm_rank(c), i);
    return x;
}

static uint64_t digest(const float *x, size_t n)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

static gw_status check_sums(const task *t, int workers, const float *x, size_t begin,
                            size_t end)
{
    /* Checking every entry of a large vector takes P times its length. */
    size_t step = end - begin > 10000 ? 97 : 1;

    for (size_t i = begin; i < end; i += step)
        REQUIRE(fabs((double)x[i] - true_sum(t, workers, i)) <= 1e-6 * workers,
                "n=%zu workers=%d: x[%zu] = %g, not %g", t->n, workers, i, (double)x[i],
                true_sum(t, workers, i));
    return GW_OK;
}

/* All workers have the same bits: rank 0's digest is everybody's. */
static gw_status check_same(gw_comm *c, uint64_t own)
{
    uint64_t first = own;

    PASS_ON(gw_broadcast(c, &first, sizeof first, 0));
    REQUIRE(first == own, "worker %d has other bits than worker 0", gw_comm_rank(c));
    return GW_OK;
}

static gw_status allreduce_body(gw_comm *c, void *arg)
{
    const task *t = arg;
    float *x = fill(c, t);
    gw_status st = t->reduce(c, x, t->n);

    if (st == GW_OK)
        st = check_sums(t, gw_comm_workers(c), x, 0, t->n);
    if (st == GW_OK)
        st = check_same(c, digest(x, t->n));
    free(x);
    return st;
}

static gw_status by_ring(gw_comm *c, float *x, size_t n)
{
    return gw_comm_workers(c) == 1 ? GW_OK : gwi_allreduce_ring(c, x, n, 1.0f, NULL);
}

static gw_status by_doubling(gw_comm *c, float *x, size_t n)
{
    return gwi_allreduce_doubling(c, x, n, 1.0f, NULL);
}

static gw_status reduce_scatter_body(gw_comm *c, void *arg)
{
    const task *t = arg;
    float *x = fill(c, t);
    size_t begin, end;
    gw_status st = gw_reduce_scatter(c, x, t->n);

    gw_part(t->n, gw_comm_workers(c), gw_comm_rank(c), &begin, &end);
    if (st == GW_OK)
        st = check_sums(t, gw_comm_workers(c), x, begin, end);
    free(x);
    return st;
}

/* Worker r sends (n * (r + 1)) mod (n + 1) bytes of a pattern. */
static size_t gather_len(const task *t, int rank)
{
    return t->n * (size_t)(rank + 1) % (t->n + 1);
}

static uint8_t gather_byte(int rank, size_t i)
{
    return (uint8_t)(i * 31 + (size_t)rank * 7);
}

static gw_status check_gathered(const task *t, int workers, const uint8_t *all,
                                const size_t *lens)
{
    for (int r = 0; r < workers; r++) {
        REQUIRE(lens[r] == gather_len(t, r), "length of %d is %zu", r, lens[r]);
        for (size_t i = 0; i < lens[r]; i++)
            REQUIRE(all[(size_t)r * (t->n + 1) + i] == gather_byte(r, i),
                    "byte %zu of worker %d is wrong", i, r);
    }
    return GW_OK;
}

static gw_status allgather_body(gw_comm *c, void *arg)
{
    const task *t = arg;
    size_t cap = t->n + 1, p = (size_t)gw_comm_workers(c);
    size_t len = gather_len(t, gw_comm_rank(c)), lens[16];
    uint8_t *all = calloc(p, cap), *mine = malloc(cap);

    for (size_t i = 0; i < len; i++)
        mine[i] = gather_byte(gw_comm_rank(c), i);
    gw_status st = gw_allgather(c, mine, len, all, cap, lens);
    if (st == GW_OK)
        st = check_gathered(t, (int)p, all, lens);
    free(mine);
    free(all);
    return st;
}

static gw_status broadcast_body(gw_comm *c, void *arg)
{
    const task *t = arg;
    uint8_t *buf = malloc(t->n + 1);

    for (int root = 0; root < gw_comm_workers(c); root++) {
        memset(buf, gw_comm_rank(c) == root ? 100 + root : 0, t->n + 1);
        PASS_ON(gw_broadcast(c, buf, t->n, root));
        for (size_t i = 0; i < t->n; i++)
            REQUIRE(buf[i] == 100 + root, "byte %zu from root %d is wrong", i, root);
    }
    free(buf);
    return GW_OK;
}

static gw_status barrier_body(gw_comm *c, void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++)
        PASS_ON(gw_barrier(c));
    return GW_OK;
}

/* ---- over all numbers of workers and lengths ---------------------------------------
 */

/* Threads go through every number of workers and every length; the transports that
 * cost more to start are only there to show that they carry the same messages. */
static bool worth_running(rank_kind kind, int workers, size_t n)
{
    if (kind == RANKS_THREADS)
        return true;
    if (kind == RANKS_SOCKETS_NO_WAIT && workers > 3)
        return false;
    return workers == 2 || workers == 3 || (workers == 9 && n <= 1000);
}

static void run_one(rank_kind kind, int workers, gw_body *body, task t)
{
    if (!worth_running(kind, workers, t.n))
        return;
    t.seed = test_seed();
    if (ranks_run(kind, workers, body, &t) != GW_OK)
        fail_msg("%s, %d workers, n=%zu: %s", rank_kind_name(kind), workers, t.n,
                 gw_error_message());
}

static void run_all(rank_kind kind, gw_body *body, task t)
{
    for (int workers = 1; workers <= 9; workers = ranks_more(workers)) {
        size_t p = (size_t)workers;
        size_t lengths[] = {0, 1, p - 1, p, p + 1, 1000, 1000003};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            t.n = lengths[i];
            run_one(kind, workers, body, t);
        }
    }
}

static void over_kinds(gw_body *body, task t)
{
    for (int kind = 0; kind < RANKS_KINDS; kind++)
        run_all((rank_kind)kind, body, t);
}

static void test_allreduce(void **state)
{
    (void)state;
    over_kinds(allreduce_body, (task){.reduce = gw_allreduce});
}

static void test_ring(void **state)
{
    (void)state;
    run_all(RANKS_THREADS, allreduce_body, (task){.reduce = by_ring});
}

static void test_doubling(void **state)
{
    (void)state;
    run_all(RANKS_THREADS, allreduce_body, (task){.reduce = by_doubling});
}

static void test_reduce_scatter(void **state)
{
    (void)state;
    over_kinds(reduce_scatter_body, (task){0});
}

static void test_allgather(void **state)
{
    (void)state;
    over_kinds(allgather_body, (task){0});
}

static void test_broadcast(void **state)
{
    (void)state;
    over_kinds(broadcast_body, (task){0});
}

/* Every pair in both directions, with lengths from nothing to more than a ring. */
static gw_status transfer_body(gw_comm *c, void *arg)
{
    static const size_t lens[] = {0, 1, 1000, 3000000};
    uint8_t *out = malloc(3000000), *in = malloc(3000000);
    int p = gw_comm_workers(c), own = gw_comm_rank(c);

    (void)arg;
    REQUIRE(gw_transfer(c, 0, out, p, in, 1) == GW_ERR_ARG, "sent to nobody");
    for (int pair = 0; pair < p * p; pair++) {
        int from = pair / p, to = pair % p;
        size_t len = lens[pair % 4];
        memset(out, 1 + own, 3000000);
        memset(in, 0, 3000000);
        PASS_ON(gw_transfer(c, from, out, to, in, len));
        for (size_t i = 0; i < 3000000; i += i < len ? 1 : 4096)
            REQUIRE(in[i] == (own == to && i < len ? 1 + from : 0),
                    "%d to %d, byte %zu", from, to, i);
    }
    free(out);
    free(in);
    return GW_OK;
}

static void test_transfer(void **state)
{
    (void)state;
    for (int p = 1; p <= 4; p++) {
        assert_run_ok(ranks_run(RANKS_THREADS, p, transfer_body, NULL));
        assert_run_ok(ranks_run(RANKS_PROCESSES, p, transfer_body, NULL));
    }
}

static void test_barrier(void **state)
{
    (void)state;
    for (int kind = 0; kind < RANKS_KINDS; kind++)
        for (int workers = 1; workers <= 9; workers = ranks_more(workers))
            assert_run_ok(ranks_run((rank_kind)kind, workers, barrier_body, NULL));
}

/* ---- notes, averages, bytes --------------------------------------------- */

/* With workers 1 and 3 bringing notes, all see worker 1's. */
static gw_status note_body(gw_comm *c, void *arg)
{
    size_t n = *(size_t *)arg;
    float *x = calloc(n, sizeof *x);
    int r = gw_comm_rank(c), p = gw_comm_workers(c);
    gwi_note note = r == 1 ? 7 : r == 3 ? 9 : 0;
    gwi_note expected = p > 1 ? 7 : 0;

    x[n - 1] = (float)p;
    gw_status st = gwi_allreduce(c, x, n, (float)p, &note);
    float last = x[n - 1];
    free(x);
    PASS_ON(st);
    REQUIRE(last == (float)p, "the average of %d is %g", p, (double)last);
    REQUIRE(note == expected, "worker %d sees note %llu", r, (unsigned long long)note);
    return GW_OK;
}

static void test_notes(void **state)
{
    size_t lengths[] = {1, 100, GWI_DOUBLING_FLOATS + 1, 300000};

    (void)state;
    for (int workers = 1; workers <= 9; workers = ranks_more(workers))
        for (size_t i = 0; i < 4; i++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, note_body, &lengths[i]));
}

/* The ring sends 2 (P-1)/P n floats in 2 (P-1) rounds, as algorithms say, and 4 bytes
 * of check with each. */
static gw_status bytes_body(gw_comm *c, void *arg)
{
    size_t p = (size_t)gw_comm_workers(c), n = 1000 * p * GWI_DOUBLING_FLOATS / 1000;
    float *x = calloc(n, sizeof *x);

    (void)arg;
    PASS_ON(gw_allreduce(c, x, n));
    free(x);
    gw_traffic t = gw_comm_traffic(c);
    if (n > GWI_DOUBLING_FLOATS) {
        REQUIRE(t.bytes_sent == 8 * n * (p - 1) / p + 8 * (p - 1), "%llu bytes sent",
                (unsigned long long)t.bytes_sent);
        REQUIRE(t.bytes_received == t.bytes_sent, "received other than sent");
        REQUIRE(t.messages_sent == 4 * (p - 1), "%llu messages",
                (unsigned long long)t.messages_sent);
    }
    return GW_OK;
}

static void test_bytes(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 9; workers = ranks_more(workers))
        assert_run_ok(ranks_run(RANKS_THREADS, workers, bytes_body, NULL));
}

static void test_part(void **state)
{
    (void)state;
    for (size_t n = 0; n < 30; n++) {
        for (int p = 1; p < 10; p++) {
            size_t expected = 0, begin, end;
            for (int r = 0; r < p; r++) {
                gw_part(n, p, r, &begin, &end);
                assert_int_equal(begin, expected);
                assert_true(end - begin == n / (size_t)p ||
                            end - begin == n / (size_t)p + 1);
                expected = end;
            }
            assert_int_equal(expected, n);
        }
    }
}

/* ---- nothing allocates after the first time ----------------------------- */

static gw_status steady_body(gw_comm *c, void *arg)
{
    float x[20000] = {0};
    size_t before = 0;

    (void)arg;
    for (int i = 0; i < 4; i++) {
        PASS_ON(gw_allreduce(c, x, 20000));
        PASS_ON(gw_allreduce(c, x, 10));
        PASS_ON(gw_barrier(c));
        if (i == 1)
            before = gwi_alloc_count();
    }
    REQUIRE(gwi_alloc_count() == before, "a later step allocates");
    return GW_OK;
}

static void test_steady(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, steady_body, NULL));
    assert_run_ok(ranks_run_with(RANKS_THREADS, 3, "10gbit", 0, steady_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_part),           cmocka_unit_test(test_allreduce),
        cmocka_unit_test(test_ring),           cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_reduce_scatter), cmocka_unit_test(test_allgather),
        cmocka_unit_test(test_broadcast),      cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_notes),          cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_steady),         cmocka_unit_test(test_transfer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
