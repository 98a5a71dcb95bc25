/* SPDX-License-Identifier: Apache-2.0
 *
 * test_owner_words.c - sums by owners: what a worker sends and receives does not grow
 * with the number of workers. Ok-Topk promises at most 6k words of 4 bytes in a step.
 */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base.h"

static atomic_int most; /* words of any worker in any step */

enum { N = 100000, K = N / 100, STEPS = 6, WORDS = 6 * K };

/* Heavy-tailed, and larger at the beginning of the vector, where borders that were cut
 * by length would give one owner nearly everything. */
static void fill(float *g, uint64_t seed)
{
    for (size_t i = 0; i < N; i++) {
        float x = test_float(seed, i), scale = i < N / 20 ? 10.0f : 0.1f;
        g[i] = scale * x / (1.001f - fabsf(x) / 2);
    }
}

static void keep_most(int words)
{
    int known = atomic_load(&most);

    while (words > known && !atomic_compare_exchange_weak(&most, &known, words)) {
    }
}

static gw_status step(gw_sync *s, float *g, int rank, uint64_t t)
{
    gw_stats before = gw_sync_stats(s), after;

    fill(g, 100 * t + (uint64_t)rank);
    PASS_ON(gw_sync_gradient(s, g));
    after = gw_sync_stats(s);
    uint64_t sent = (after.bytes_sent - before.bytes_sent) / 4;
    uint64_t received = (after.bytes_received - before.bytes_received) / 4;
    keep_most((int)(sent > received ? sent : received));
    REQUIRE(sent <= WORDS && received <= WORDS,
            "step %d, worker %d: %d words sent, %d received, %d at most", (int)t, rank,
            (int)sent, (int)received, (int)WORDS);
    return GW_OK;
}

static gw_status body(gw_comm *c, void *arg)
{
    gw_tensor tensor = {.name = "all", .rows = 1, .cols = N};
    float *g = calloc(N, sizeof *g);
    gw_layout *layout;
    gw_sync *s = NULL;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(&s, arg, layout, c, NULL);
    gw_layout_free(layout);
    for (uint64_t t = 1; st == GW_OK && t <= STEPS; t++)
        st = step(s, g, gw_comm_rank(c), t);
    gw_sync_free(s);
    free(g);
    return st;
}

static void hold(char *spec)
{
    static const int workers[] = {2, 3, 4, 7, 8, 16, 32};

    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        atomic_store(&most, 0);
        assert_run_ok(ranks_run(RANKS_THREADS, workers[i], body, spec));
        print_message("%s, %d workers: at most %.2f k words\n", spec, workers[i],
                      (double)atomic_load(&most) / K);
    }
}

static void test_words(void **state)
{
    char recipe[] = "oktopk:0.01", option[] = "topk:0.01,via=owner";

    (void)state;
    hold(recipe);
    hold(option);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
