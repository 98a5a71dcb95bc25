/* SPDX-License-Identifier: Apache-2.0
 *
 * test_segments_promises.c - what every sync promises, also of vectors that are cut. */
#define _GNU_SOURCE
#include "support_segments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef conform_job job;

/* Segments that end in the middle of rows, between rows, and between tensors. */
static const size_t bounds[] = {100, 700, 1230};
enum { BOUNDS = sizeof bounds / sizeof *bounds };

static void run(rank_kind kind, int workers, const job *j)
{
    if (ranks_run(kind, workers, conform_body, (void *)(uintptr_t)j) != GW_OK)
        fail_msg("%s, %s, %d workers, segments of %zu: %s", j->spec,
                 rank_kind_name(kind), workers, gwi_segment_floats, gw_error_message());
}

/* ---- the promises, again -------------------------------------------------------- */

static void test_any_number_of_workers(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        set_bound(bounds[i % BOUNDS]);
        for (int workers = 1; workers <= 5; workers = ranks_more(workers))
            run(RANKS_THREADS, workers, &(job){.spec = conform_spec(i), .steps = 5});
    }
}

static void test_same_bits_on_transports(void **state)
{
    uint64_t first[9], again[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        set_bound(bounds[(i + 1) % BOUNDS]);
        run(RANKS_THREADS, 3, &(job){conform_spec(i), .steps = 3, .digests = first});
        run(RANKS_STREAMS, 3, &(job){conform_spec(i), .steps = 3, .digests = again});
        assert_memory_equal(first, again, 3 * sizeof *first);
        run(RANKS_PROCESSES, 3, &(job){.spec = conform_spec(i), .steps = 3});
    }
}

static void test_parts_and_pieces(void **state)
{
    uint64_t whole[9], parts[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        for (size_t b = 0; b < BOUNDS; b++) {
            const char *spec = conform_spec(i);
            set_bound(bounds[b]);
            run(RANKS_THREADS, 3, &(job){spec, .steps = 5, .digests = whole});
            run(RANKS_THREADS, 3,
                &(job){spec, .steps = 5, .digests = parts, .by_parts = true});
            assert_memory_equal(whole, parts, 3 * sizeof *whole);
            run(RANKS_THREADS, 3,
                &(job){spec, .steps = 5, .digests = parts, .by_pieces = true});
            assert_memory_equal(whole, parts, 3 * sizeof *whole);
        }
}

static void test_resumed_is_not_stopped(void **state)
{
    uint64_t whole[9], resumed[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        for (int at = 1; at <= 3; at++) {
            job j = {conform_spec(i), .steps = 5, .digests = whole};
            set_bound(bounds[(size_t)at % BOUNDS]);
            run(RANKS_THREADS, 3, &j);
            j.digests = resumed;
            j.break_at = at;
            run(RANKS_THREADS, 3, &j);
            if (memcmp(whole, resumed, 3 * sizeof *whole) != 0)
                fail_msg("'%s' resumed after step %d is another run", j.spec, at);
        }
}

static void test_bad_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        job j = {.spec = conform_spec(i), .steps = 5, .bad_step = 3};
        set_bound(bounds[i % BOUNDS]);
        for (gw_nonfinite how = GW_NONFINITE_STOP; how <= GW_NONFINITE_END; how += 3) {
            j.nonfinite = how;
            gw_status st = ranks_run(RANKS_THREADS, 3, conform_body, &j);
            if (st != GW_ERR_NUMBER ||
                strstr(gw_error_message(),
                       "worker 2 holds NaN or infinity in tensor 'bias' (step 3)") ==
                    NULL)
                fail_msg("'%s': %s", j.spec, gw_error_message());
        }
        j.nonfinite = GW_NONFINITE_SKIP;
        run(RANKS_THREADS, 3, &j);
        j.by_pieces = true;
        run(RANKS_THREADS, 3, &j);
    }
}

static void test_bytes_and_memory(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        void *spec = (void *)(uintptr_t)conform_spec(i);
        set_bound(bounds[i % BOUNDS]);
        assert_run_ok(ranks_run(RANKS_THREADS, 3, conform_bytes, spec));
        assert_run_ok(ranks_run(RANKS_THREADS, 3, conform_steady, spec));
        assert_run_ok(ranks_run(RANKS_THREADS, 2, conform_nonsense, spec));
    }
}

/* Where a sum of two has no order, and no selection is made, cutting changes no bit. */
static void test_sums_of_two_are_the_same(void **state)
{
    static const char *const specs[] = {"dense",   "none",    "dense+bf16",
                                        "local:2", "oneshot", "local:1,average=polyak"};
    uint64_t whole[2], cut[2];

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        set_bound(GWI_SEGMENT_FLOATS);
        run(RANKS_THREADS, 2, &(job){specs[i], .steps = 5, .digests = whole});
        set_bound(100);
        run(RANKS_THREADS, 2, &(job){specs[i], .steps = 5, .digests = cut});
        if (memcmp(whole, cut, sizeof whole) != 0)
            fail_msg("'%s' is another run in segments", specs[i]);
    }
}

/* Each tensor is there when it is fed, and not before. */
static gw_status late_body(gw_comm *c, void *arg)
{
    static const size_t begins[] = {0, MODEL_ROWS * MODEL_COLS,
                                    MODEL_FLOATS - MODEL_LAST, MODEL_FLOATS};
    float *g = malloc(MODEL_FLOATS * sizeof *g);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, arg, GW_NONFINITE_STOP));
    for (size_t i = 0; i < MODEL_FLOATS; i++)
        g[i] = NAN;
    for (size_t t = 3; t-- > 0;) {
        for (size_t i = begins[t]; i < begins[t + 1]; i++)
            g[i] = 1;
        PASS_ON(gw_sync_gradient_part(s, g, t));
        usleep(5000); /* Time to look too early, for a thread that does. */
    }
    PASS_ON(gw_sync_gradient(s, g));
    gw_sync_free(s);
    free(g);
    return GW_OK;
}

static void test_parts_are_awaited(void **state)
{
    (void)state;
    for (size_t b = 0; b < BOUNDS; b++) {
        set_bound(bounds[b]);
        assert_run_ok(ranks_run(RANKS_THREADS, 2, late_body, "dense"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOUNDED(test_any_number_of_workers),
        BOUNDED(test_same_bits_on_transports),
        BOUNDED(test_parts_and_pieces),
        BOUNDED(test_resumed_is_not_stopped),
        BOUNDED(test_bad_numbers),
        BOUNDED(test_bytes_and_memory),
        BOUNDED(test_sums_of_two_are_the_same),
        BOUNDED(test_parts_are_awaited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
