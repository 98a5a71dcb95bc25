/* SPDX-License-Identifier: Apache-2.0
 *
 * test_memory.c - what a worker holds beyond gradient and model, for every recipe, as
 * "Memory per worker" in docs/methods.md has it. The bounds are written out here and
 * not asked of the library. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base.h"

enum { N = 1000000, WORKERS = 4, STEPS = 3, VECTOR = 4 * N };

/* The sync, comm and layout themselves, and the scratch of an all-reduce: 512 KiB. */
enum { SLACK = 600 << 10 };

/* Entries that topk:0.001 sends, and the most that drop:0.999 may. */
enum { K = N / 1000, DROP_K = 4 * K + 1024, LARGE_K = N / 4 };

/* Messages, with positions of up to 16 bits at density 0.001 and 4 at a quarter. */
#define LIST_MESSAGE(k, value_bits) ((k) * ((value_bits) + 16) / 8 + 256)
#define LARGE_MESSAGE(k)            ((k) * (32 + 4) / 8 + (k) / 8 + 256)
#define CODED_MESSAGE(bits)         (N * (bits) / 8 + 4 * (N / 512 + 1) + 256)

/* What a selection works with: the list, and candidates. */
#define TOPK_WORK(k) (8 * (k) + 16 * (k) + 8 * (4096 + 64))
#define DROP_WORK    (8 * DROP_K + 12 * 100000 + 1024)

/* Norms and centres of one message. */
#define SCALES (4 * (N / 512 + 1) + 256)

typedef struct allowance {
    const char *spec;
    size_t vectors; /* of n floats */
    size_t rest;    /* bytes */
} allowance;

static const allowance allowances[] = {
    {"none", 0, 0},
    {"dense", 0, 0},
    {"a2sgd", 0, 256},
    {"a2sgd:per=row,bucket=64", 0, 16 * 16 * 1000 + 256},
    {"local:2", 0, 0},
    {"local:2,average=polyak", 1, 0},
    {"oneshot", 0, 0},
    {"spa:3", 0, 0},
    {"sparta:0.001", 0, 16 * K},
    {"oktopk:0.001", 1,
     2 * WORKERS *LIST_MESSAGE(K, 32) + (3 + 3 * WORKERS) * 8 * K + 4 * K +
         TOPK_WORK(K)},
    {"adasum", 0, 8 * N + 256},
    {"demo", 1,
     WORKERS *LIST_MESSAGE(N / 120, 32) + 8 * N / 120 + 24 * 400 + 2 * N + 4 * 64000 +
         TOPK_WORK(64)},
    {"lowrank:4", 1, 4 * (4 * 2000 + 4 * 1000)},
    {"topk:0.001", 1, WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K)},
    {"topk:0.001,residual=off", 0, WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K)},
    {"topk:0.001+q:4", 1, WORKERS *LIST_MESSAGE(K, 4) + TOPK_WORK(K) + SCALES},
    {"topk:0.001+momentum:0.9", 2, WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K)},
    {"update:scale=auto+topk:0.001+momentum:0.6", 3,
     WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K) + 4 * (4096 + 1)},
    {"topk:0.001+ef21", 3, WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K)},
    {"topk:0.001,ladder=1", 1, WORKERS *LARGE_MESSAGE(LARGE_K) + TOPK_WORK(LARGE_K)},
    {"gtopk:0.001", 1, 2 * LIST_MESSAGE(K, 32) + 4 * 8 * K + TOPK_WORK(K)},
    {"gtopk:0.001+q:4", 1, 2 * LIST_MESSAGE(K, 4) + 4 * 8 * K + TOPK_WORK(K) + SCALES},
    {"drop:0.999", 1, WORKERS *LIST_MESSAGE(DROP_K, 32) + DROP_WORK},
    {"drop:0.999+2bit", 1, WORKERS *LIST_MESSAGE(DROP_K, 2) + DROP_WORK + SCALES},
    {"qsgd:4,via=gather", 0, WORKERS *CODED_MESSAGE(4) + SCALES},
    {"qsgd:4,via=scatter", 0, 2 * CODED_MESSAGE(4) + 8 * 1024 + SCALES},
    {"qsgd:4,via=gather,code=entropy", 0, (WORKERS + 1) * CODED_MESSAGE(4) + SCALES},
    {"gtopk:0.001+q:4,code=entropy", 1,
     2 * LIST_MESSAGE(K, 4) + 4 * 8 * K + TOPK_WORK(K) + SCALES + K / 2 + 256},
    {"qsgd:8,via=scatter,residual=on", 1, 2 * CODED_MESSAGE(8) + 8 * 1024 + SCALES},
    {"dense+bf16", 0, 2 * (2 * N) + 8 * 1024 + SCALES},
    {"pqasgd:2,4,via=scatter", 1, 2 * CODED_MESSAGE(4) + 8 * 1024 + SCALES},
    {"pqasgd:2,4,via=gather", 1, WORKERS *CODED_MESSAGE(4) + SCALES},
    {"local:2+topk:0.001", 2, WORKERS *LIST_MESSAGE(K, 32) + TOPK_WORK(K)},
};

static gw_status step(gw_sync *s, float *g, float *x, uint64_t seed)
{
    for (size_t i = 0; i < N; i++)
        g[i] = test_float(seed, i);
    PASS_ON(gw_sync_gradient(s, g));
    for (size_t i = 0; i < N; i++)
        x[i] -= 0.1f * g[i];
    return gw_sync_model(s, x);
}

static gw_status train(gw_comm *c, const char *spec, float *g, float *x, size_t *held)
{
    gw_tensor tensor = {.name = "all", .rows = 1000, .cols = N / 1000};
    gw_layout *layout;
    gw_sync *s = NULL;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(&s, spec, layout, c, NULL);
    gw_layout_free(layout);
    if (st == GW_OK)
        st = gw_sync_start(s, x);
    for (uint64_t i = 0; st == GW_OK && i < STEPS; i++)
        st = step(s, g, x, 10 * i + (uint64_t)gw_comm_rank(c));
    *held = gwi_alloc_bytes();
    gw_sync_free(s);
    return st;
}

static gw_status check(gw_comm *c, void *arg)
{
    const allowance *a = arg;
    size_t before = gwi_alloc_bytes(), held = 0, most;
    float *vectors = calloc(2 * N, sizeof *vectors);
    gw_status st = train(c, a->spec, vectors, vectors + N, &held);

    free(vectors);
    PASS_ON(st);
    most = a->vectors * VECTOR + a->rest + SLACK;
    REQUIRE(held - before <= most, "%s: a worker holds %zu bytes, %zu at most", a->spec,
            held - before, most);
    REQUIRE(held - before >= a->vectors * VECTOR,
            "%s: a worker holds only %zu bytes, which cannot be", a->spec,
            held - before);
    return GW_OK;
}

/* What is told about a spec is what its row says. */
static void check_told(const allowance *a)
{
    gw_spec_info info = {.struct_size = sizeof info};

    assert_run_ok(gw_spec_describe(a->spec, &info));
    if (info.bytes_per_param != 4.0 * (double)a->vectors)
        fail_msg("%s: %g bytes per parameter, not %zu", a->spec, info.bytes_per_param,
                 4 * a->vectors);
}

static bool is_listed(const char *recipe)
{
    size_t len = strlen(recipe);

    for (size_t i = 0; i < sizeof allowances / sizeof *allowances; i++)
        if (strncmp(allowances[i].spec, recipe, len) == 0 &&
            strcspn(allowances[i].spec, ":+") == len)
            return true;
    return false;
}

/* A recipe without a row keeps the vectors it says it keeps, and its messages are no
 * longer than the vector. */
static void test_recipes_without_a_row(void **state)
{
    const char *name;

    (void)state;
    for (size_t i = 0; (name = gw_recipe_name(i)) != NULL; i++) {
        gw_spec_info info = {.struct_size = sizeof info};
        if (is_listed(name))
            continue;
        assert_run_ok(gw_spec_describe(gw_recipe_example(i), &info));
        allowance a = {gw_recipe_example(i), (size_t)(info.bytes_per_param / 4),
                       (WORKERS + 2) * VECTOR};
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, check, &a));
    }
}

static void test_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof allowances / sizeof *allowances; i++) {
        check_told(&allowances[i]);
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, check,
                                (void *)(uintptr_t)&allowances[i]));
    }
}

/* What the counter says, on this thread. */
static void test_counter(void **state)
{
    size_t before = gwi_alloc_bytes();
    void *a = gwi_calloc(1000, 10), *b = gwi_calloc(0, 0);

    (void)state;
    assert_true((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    assert_in_range(gwi_alloc_bytes() - before, 10000, 10000 + 4 * 128);
    gwi_free(a);
    gwi_free(b);
    gwi_free(NULL);
    assert_int_equal(gwi_alloc_bytes(), before);
    assert_null(gwi_calloc(SIZE_MAX / 2, 3));
    assert_null(gwi_calloc(SIZE_MAX, 1));
    assert_int_equal(gwi_alloc_bytes(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_recipes_without_a_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
