/* SPDX-License-Identifier: Apache-2.0
 *
 * test_conformance.c - what every sync promises, for every recipe and a list of
 * compositions, for 1 to 9 workers, on every transport. A recipe that is added gets
 * all of it by its line in the table. */
#define _GNU_SOURCE
#include "support_conform.h"

#include <stdio.h>
#include <string.h>

typedef conform_job job;

static void run(rank_kind kind, int workers, const job *j)
{
    if (ranks_run(kind, workers, conform_body, (void *)(uintptr_t)j) != GW_OK)
        fail_msg("%s, %s, %d workers: %s", j->spec, rank_kind_name(kind), workers,
                 gw_error_message());
}

/* ---- the promises ------------------------------------------------------- */

static void test_any_number_of_workers(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        for (int workers = 1; workers <= 9; workers = ranks_more(workers))
            run(RANKS_THREADS, workers, &(job){.spec = conform_spec(i), .steps = 5});
}

static void test_same_bits_on_every_transport(void **state)
{
    uint64_t first[9], again[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        for (int workers = 1; workers <= 9; workers = ranks_more(workers)) {
            run(RANKS_THREADS, workers,
                &(job){conform_spec(i), .steps = 3, .digests = first});
            for (rank_kind kind = RANKS_SOCKETS; kind < RANKS_KINDS; kind++) {
                if (kind == RANKS_SOCKETS_NO_WAIT) /* polling takes its time */
                    continue;
                run(kind, workers,
                    &(job){conform_spec(i), .steps = 3, .digests = again});
                assert_memory_equal(first, again, (size_t)workers * sizeof *first);
            }
        }
    }
}

static void test_processes(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        for (int workers = 1; workers <= 9; workers = ranks_more(workers))
            run(RANKS_PROCESSES, workers, &(job){.spec = conform_spec(i), .steps = 3});
}

static void test_off_equals_dense(void **state)
{
    static const char *const off[] = {"topk:1",
                                      "gtopk:1",
                                      "drop:0",
                                      "qsgd:32",
                                      "local:1",
                                      "pqasgd:1,32",
                                      "spa:1",
                                      "local:1+topk:1+q:32",
                                      "topk:1+momentum:0",
                                      "topk:1,dense_below=100",
                                      "gtopk:1,dense_below=5000",
                                      "qsgd:32,dense_below=100"};
    uint64_t dense[9], other[9];

    (void)state;
    for (int workers = 1; workers <= 5; workers += 2) {
        run(RANKS_THREADS, workers, &(job){"dense", .steps = 4, .digests = dense});
        for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
            run(RANKS_THREADS, workers, &(job){off[i], .steps = 4, .digests = other});
            if (memcmp(dense, other, (size_t)workers * sizeof *dense) != 0)
                fail_msg("'%s' is not dense with %d workers", off[i], workers);
        }
    }
}

/* Each pair is one method. */
static void test_off_equals_what_is_left(void **state)
{
    static const char *const pairs[][2] = {
        {"local:2+outer:1,0", "local:2"},
        {"local:1+outer:lr=1,momentum=0", "dense"},
        {"local:2,average=polyak+outer:1,0", "local:2,average=polyak"},
        {"local:2+topk:0.05+outer:1,0", "local:2+topk:0.05"},
        {"diloco:2,1,0", "local:2"},
        {"diloco:2", "local:2+outer:0.7,0.9"},
        {"diloco:3,start=1+gtopk:0.05", "local:3,start=1+gtopk:0.05+outer:0.7,0.9"}};
    uint64_t one[9], other[9];

    (void)state;
    for (int workers = 1; workers <= 5; workers += 2)
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            run(RANKS_THREADS, workers,
                &(job){pairs[i][0], .steps = 7, .digests = one});
            run(RANKS_THREADS, workers,
                &(job){pairs[i][1], .steps = 7, .digests = other});
            if (memcmp(one, other, (size_t)workers * sizeof *one) != 0)
                fail_msg("'%s' is not '%s' with %d workers", pairs[i][0], pairs[i][1],
                         workers);
        }
}

static void test_parts_give_the_same_bits(void **state)
{
    uint64_t whole[9], parts[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        run(RANKS_THREADS, 3, &(job){conform_spec(i), .steps = 5, .digests = whole});
        run(RANKS_THREADS, 3,
            &(job){conform_spec(i), .steps = 5, .digests = parts, .by_parts = true});
        assert_memory_equal(whole, parts, 3 * sizeof *whole);
        run(RANKS_THREADS, 3,
            &(job){conform_spec(i), .steps = 5, .digests = parts, .by_pieces = true});
        assert_memory_equal(whole, parts, 3 * sizeof *whole);
    }
}

static void test_resumed_is_not_stopped(void **state)
{
    uint64_t whole[9], resumed[9];

    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        for (int at = 1; at <= 3; at++) {
            run(RANKS_THREADS, 3,
                &(job){conform_spec(i), .steps = 5, .digests = whole});
            run(RANKS_THREADS, 3,
                &(job){conform_spec(i), .steps = 5, .digests = resumed,
                       .break_at = at});
            if (memcmp(whole, resumed, 3 * sizeof *whole) != 0)
                fail_msg("'%s' resumed after step %d is another run", conform_spec(i),
                         at);
        }
    }
}

static void test_bad_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++) {
        for (int workers = 1; workers <= 5; workers = ranks_more(workers)) {
            job j = {.spec = conform_spec(i), .steps = 5, .bad_step = 3};
            char expected[80];
            gw_status st = ranks_run(RANKS_THREADS, workers, conform_body, &j);
            snprintf(expected, sizeof expected,
                     "worker %d holds NaN or infinity in tensor", workers - 1);
            if (st != GW_ERR_NUMBER || strstr(gw_error_message(), expected) == NULL)
                fail_msg("'%s', %d workers: %s", conform_spec(i), workers,
                         gw_error_message());
            j.nonfinite = GW_NONFINITE_SKIP;
            run(RANKS_THREADS, workers, &j);
            j.by_pieces = true;
            run(RANKS_THREADS, workers, &j);
        }
    }
}

static void test_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        for (int workers = 1; workers <= 5; workers = ranks_more(workers))
            assert_run_ok(ranks_run(RANKS_THREADS, workers, conform_bytes,
                                    (void *)(uintptr_t)conform_spec(i)));
}

static void test_steady(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 3, conform_steady,
                                (void *)(uintptr_t)conform_spec(i)));
}

static void test_nonsense(void **state)
{
    (void)state;
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 2, conform_nonsense,
                                (void *)(uintptr_t)conform_spec(i)));
}

/* Whoever adds a recipe adds no line here, and still gets all of the above. */
static void test_every_recipe_is_here(void **state)
{
    const char *name, *spec;

    (void)state;
    for (size_t r = 0; (name = gw_recipe_name(r)) != NULL; r++) {
        bool found = false;
        for (size_t i = 0; (spec = conform_spec(i)) != NULL; i++) {
            gw_spec_info info = {.struct_size = sizeof info};
            assert_run_ok(gw_spec_describe(spec, &info));
            found |= strcmp(info.stages[0], name) == 0;
        }
        if (!found)
            fail_msg("'%s' is in the table of recipes but not tried here", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_recipe_is_here),
        cmocka_unit_test(test_any_number_of_workers),
        cmocka_unit_test(test_same_bits_on_every_transport),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_off_equals_dense),
        cmocka_unit_test(test_off_equals_what_is_left),
        cmocka_unit_test(test_parts_give_the_same_bits),
        cmocka_unit_test(test_resumed_is_not_stopped),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_steady),
        cmocka_unit_test(test_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
