/* SPDX-License-Identifier: Apache-2.0
 *
 * test_tiles.c - selection in tiles: every tile has its share, and what SparseLoCo's
 * setting sends takes at most ten bits of an entry, counted on sockets. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sync/sync.h"

enum { TILE = 4096, PER_TILE = 64, TILES = 100, N = TILE * TILES, PERIOD = 2 };

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor tensor = {.name = "w", .rows = TILES, .cols = TILE};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(sync, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

/* Heavy-tailed, and of another size in every tile. */
static void change(float *x, int rank, int step)
{
    for (size_t i = 0; i < N; i++) {
        float u = test_float((uint64_t)(100 * rank + step), i);
        x[i] += u * u * u * (float)(1 + i / TILE % 7);
    }
}

static gw_status period(gw_sync *s, float *x, float *g, int rank, int round)
{
    for (int t = 0; t < PERIOD; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        change(x, rank, PERIOD * round + t);
        PASS_ON(gw_sync_model(s, gw_sync_model_due(s) ? x : NULL));
    }
    return GW_OK;
}

/* ---- bits of an entry --------------------------------------------------------------
 */

/* Everything that crosses the sockets in a period counts. The code of its authors sends
 * 20 bits, 12 of a position and 8 of a value; published are 14. */
static gw_status bits_body(gw_comm *c, void *arg)
{
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    PASS_ON(make_sync(&s, c, arg));
    PASS_ON(gw_sync_start(s, x));
    for (int round = 0; round < 3; round++) {
        uint64_t before = gw_comm_traffic(c).bytes_sent;
        PASS_ON(period(s, x, x + N, gw_comm_rank(c), round));
        double sent = (double)(gw_comm_traffic(c).bytes_sent - before);
        double entries = (double)(gw_comm_workers(c) - 1) * PER_TILE * TILES;
        REQUIRE(8 * sent / entries <= 10 && 8 * sent / entries > 9,
                "%s: %g bits of an entry", s->text, 8 * sent / entries);
    }
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_ten_bits(void **state)
{
    (void)state;
    for (int workers = 2; workers <= 4; workers++)
        assert_run_ok(ranks_run(RANKS_STREAMS, workers, bits_body,
                                (void *)(uintptr_t) "sparseloco:2"));
}

/* ---- shares ------------------------------------------------------------------------
 */

/* After one period without a residual, what has changed is what was sent. */
static gw_status shares_body(gw_comm *c, void *arg)
{
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    PASS_ON(make_sync(&s, c, arg));
    PASS_ON(gw_sync_start(s, x));
    PASS_ON(period(s, x, x + N, 0, 0));
    for (size_t t = 0; t < TILES; t++) {
        size_t count = 0;
        for (size_t i = 0; i < TILE; i++)
            count += x[t * TILE + i] != 0;
        REQUIRE(count == PER_TILE, "tile %zu has %zu entries", t, count);
    }
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_shares(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, shares_body,
                            (void *)(uintptr_t) "local:2+topk:0.015625,tile=4096"));
    assert_run_ok(ranks_run(RANKS_THREADS, 2, shares_body,
                            (void *)(uintptr_t) "sparseloco:2,residual=off"));
}

/* ---- words -------------------------------------------------------------------------
 */

static void test_in_full(void **state)
{
    static const char *const pairs[][2] = {
        {"sparseloco:30",
         "sparseloco:every=30,density=0.015625,tile=4096,decay=0.95,combine=senders,"
         "centre=best,residual=on,lr=1,momentum=0,nesterov=on,start=0"},
        {"sparseloco:30,decay=1,tile=0,combine=all",
         "sparseloco:every=30,density=0.015625,tile=0,decay=1,combine=all,"
         "centre=best,residual=on,lr=1,momentum=0,nesterov=on,start=0"},
        {"topk:0.01,tile=0,decay=1",
         "topk:density=0.01,residual=on,warmup=0,ladder=0,dense_below=0"},
        {"topk:0.01,tile=64,decay=0.5",
         "topk:density=0.01,residual=on,warmup=0,ladder=0,dense_below=0,tile=64,"
         "decay=0.5"},
    };
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_run_ok(gw_spec_check(pairs[i][0], text, sizeof text));
        assert_string_equal(text, pairs[i][1]);
        assert_run_ok(gw_spec_check(pairs[i][1], text, sizeof text));
        assert_string_equal(text, pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_bits),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_in_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
