/* SPDX-License-Identifier: Apache-2.0
 *
 * test_segments_slow.c - a vector that is really longer than 2^32 floats. It is nearly
 * all zeros, of pages that are only read and so take no memory. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "sync/sync.h"

/* The second segment begins at 2^32 - 1, in the first tensor. */
#define FIRST  ((size_t)4300000000)
#define SECOND ((size_t)100000000)
#define FLOATS (FIRST + SECOND)

static gw_status check_bad(gw_sync *s, float *g, size_t at, const char *tensor)
{
    float good = g[at];

    g[at] = NAN;
    gw_status st = gw_sync_gradient(s, g);
    g[at] = good;
    REQUIRE(st == GW_ERR_NUMBER && strstr(gw_error_message(), tensor) != NULL,
            "NaN at %zu: %s", at, gw_error_message());
    return GW_OK;
}

static gw_status long_body(gw_comm *c, void *arg)
{
    gw_tensor t[] = {{"first", 0, 1, FIRST}, {"second", FIRST, 1, SECOND}};
    float *g = arg;
    gw_layout *layout;
    gw_sync *s;

    PASS_ON(gw_layout_new(&layout, t, 2));
    PASS_ON(gw_sync_new(&s, "dense", layout, c, NULL));
    REQUIRE(s->segment_count == 2 && s->segments[1]->base == UINT32_MAX, "cut at %zu",
            s->segments[s->segment_count - 1]->base);
    PASS_ON(gw_sync_start(s, g));
    g[1] = 1;
    g[FLOATS - 1] = 2;
    PASS_ON(gw_sync_gradient(s, g));
    REQUIRE(g[1] == 1 && g[FLOATS - 1] == 2 && g[FLOATS - 2] == 0, "another average");
    PASS_ON(check_bad(s, g, FIRST - 1, "'first'"));
    PASS_ON(check_bad(s, g, FIRST, "'second'"));
    REQUIRE(gw_sync_stats(s).steps == 3, "%d steps", (int)gw_sync_stats(s).steps);
    gw_sync_free(s);
    gw_layout_free(layout);
    return GW_OK;
}

static void test_more_than_32_bits(void **state)
{
    size_t len = FLOATS * sizeof(float);
    float *g = mmap(NULL, len, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    if (g == MAP_FAILED)
        skip();
    madvise(g, len, MADV_NOHUGEPAGE);
    assert_run_ok(ranks_run(RANKS_THREADS, 1, long_body, g));
    munmap(g, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_more_than_32_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
