/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sync.c - what a sync does around its method: settings compared, bad numbers
 * named, skipped or ignored, bytes and steps counted, memory accounted for. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base.h"

enum { FIRST = 60, SECOND = 20000, N = FIRST + SECOND };

static gw_layout *two_tensors(void)
{
    gw_tensor t[] = {{.name = "first", .offset = 0, .rows = 6, .cols = 10},
                     {.name = "second", .offset = FIRST, .rows = 1, .cols = SECOND}};
    gw_layout *layout;

    return gw_layout_new(&layout, t, 2) == GW_OK ? layout : NULL;
}

/* ---- layouts ----------------------------------------------------------------------
 */

static void test_layout(void **state)
{
    gw_layout *l = two_tensors();

    (void)state;
    assert_int_equal(gw_layout_floats(l), N);
    assert_int_equal(gw_layout_tensors(l), 2);
    assert_string_equal(gw_layout_tensor(l, 1)->name, "second");
    assert_null(gw_layout_tensor(l, 2));
    gw_layout_free(l);
    gw_layout_free(NULL);
}

static void test_bad_layouts(void **state)
{
    gw_tensor bad[][2] = {
        {{.name = "a", .offset = 1, .rows = 1, .cols = 1}, {.rows = 1, .cols = 1}},
        {{.name = "a", .rows = 2, .cols = 2},
         {.name = "b", .offset = 3, .rows = 1, .cols = 1}},
        {{.name = "a", .rows = 2, .cols = 2},
         {.name = "b", .offset = 5, .rows = 1, .cols = 1}},
        {{.name = "a", .rows = 0, .cols = 2}, {.name = "b", .rows = 1, .cols = 1}},
        {{.name = "a", .rows = SIZE_MAX, .cols = 2},
         {.name = "b", .rows = 1, .cols = 1}},
    };
    gw_layout *l;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gw_layout_new(&l, bad[i], 2), GW_ERR_ARG);
        assert_null(l);
    }
    assert_int_equal(gw_layout_new(&l, NULL, 0), GW_ERR_ARG);
}

/* ---- dense and none ----------------------------------------------------- */

static gw_status averages_body(gw_comm *c, void *arg)
{
    const char *spec = arg;
    int p = gw_comm_workers(c), r = gw_comm_rank(c), dense = strcmp(spec, "none") != 0;
    gw_layout *layout = two_tensors();
    float *g = malloc(N * sizeof *g);
    gw_sync *sync;

    PASS_ON(gw_sync_new(&sync, spec, layout, c, NULL));
    gw_layout_free(layout);
    for (int step = 1; step <= 3; step++) {
        for (size_t i = 0; i < N; i++)
            g[i] = (float)(r + 1) * (float)(i % 50);
        PASS_ON(gw_sync_gradient(sync, g));
        PASS_ON(gw_sync_model(sync, g));
        for (size_t i = 0; i < N; i++) {
            float expected =
                (dense ? (float)(p + 1) / 2 : (float)(r + 1)) * (float)(i % 50);
            REQUIRE(fabsf(g[i] - expected) <= 1e-4f * expected, "%zu: %g", i,
                    (double)g[i]);
        }
    }
    gw_stats s = gw_sync_stats(sync);
    REQUIRE(s.steps == 3 && s.skipped == 0, "%llu steps", (unsigned long long)s.steps);
    REQUIRE((s.bytes_sent > 0) == (dense && p > 1), "bytes sent");
    REQUIRE(gw_sync_keeps_equal(sync) == (dense || p == 1), "keeps equal");
    gw_sync_free(sync);
    free(g);
    return GW_OK;
}

static void test_averages(void **state)
{
    static const char *const off[] = {
        "dense",  "none",    "topk:1",  "gtopk:density=1",
        "drop:0", "qsgd:32", "local:1", "local:1+topk:1+q:32"};

    (void)state;
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        for (int workers = 1; workers <= 5; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, averages_body,
                                    (void *)(uintptr_t)off[i]));
}

/* Where everything is sent whole, no tensor is sent apart: the bits are those of dense,
 * also around a ring, where they depend on how the vector is cut. */
static gw_status whole_body(gw_comm *c, void *arg)
{
    float *g = malloc(2 * N * sizeof *g);
    const char *specs[2] = {"dense", arg};
    uint64_t sent[2];

    for (size_t k = 0; k < 2; k++) {
        gw_layout *layout = two_tensors();
        gw_sync *sync;
        PASS_ON(gw_sync_new(&sync, specs[k], layout, c, NULL));
        gw_layout_free(layout);
        for (size_t i = 0; i < N; i++)
            g[k * N + i] = test_float(1 + (uint64_t)gw_comm_rank(c), i);
        PASS_ON(gw_sync_gradient(sync, g + k * N));
        sent[k] = gw_sync_stats(sync).bytes_sent;
        gw_sync_free(sync);
    }
    int same = memcmp(g, g + N, N * sizeof *g);
    free(g);
    REQUIRE(same == 0, "%s: not the bits of dense", specs[1]);
    REQUIRE(sent[0] == sent[1], "%s: %llu bytes, dense %llu", specs[1],
            (unsigned long long)sent[1], (unsigned long long)sent[0]);
    return GW_OK;
}

static void test_whole_is_dense(void **state)
{
    static const char *const whole[] = {
        "topk:1,dense_below=100", "gtopk:1,dense_below=100", "drop:0,dense_below=30000",
        "qsgd:32,dense_below=100"};

    (void)state;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        for (int workers = 1; workers <= 5; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, whole_body,
                                    (void *)(uintptr_t)whole[i]));
}

/* ---- what must be the same on all workers ------------------------------- */

static gw_status mismatch_body(gw_comm *c, void *arg)
{
    const int *what = arg;
    bool odd = gw_comm_rank(c) == 2;
    gw_tensor t = {.name = *what == 2 && odd ? "other" : "t", .rows = 2, .cols = 5};
    gw_sync_options opt = {.struct_size = sizeof opt,
                           .seed = *what == 3 && odd ? 5 : 4};
    gw_layout *layout;
    gw_sync *sync;

    if (*what == 1 && odd)
        t.cols = 6;
    if (*what == 4 && odd)
        opt.nonfinite = GW_NONFINITE_SKIP;
    PASS_ON(gw_layout_new(&layout, &t, 1));
    gw_status st =
        gw_sync_new(&sync, *what == 0 && odd ? "none" : "dense", layout, c, &opt);
    gw_layout_free(layout);
    REQUIRE(st == GW_ERR_MISMATCH && sync == NULL, "worker %d got %s", gw_comm_rank(c),
            gw_status_name(st));
    return gw_comm_rank(c) == 0 ? st : GW_OK;
}

static void test_mismatch(void **state)
{
    static const char *const expected[] = {"'none'", "12", "tensors", "seed", "NaN"};

    (void)state;
    for (int what = 0; what < 5; what++) {
        assert_int_equal(ranks_run(RANKS_THREADS, 3, mismatch_body, &what),
                         GW_ERR_MISMATCH);
        assert_non_null(strstr(gw_error_message(), expected[what]));
        assert_non_null(strstr(gw_error_message(), "worker 2"));
    }
}

/* ---- NaN and infinity --------------------------------------------------- */

typedef struct bad_number {
    const char *spec;
    gw_nonfinite rule;
    float value;
    size_t at, n;
    gw_status expected;
} bad_number;

static gw_status bad_number_body(gw_comm *c, void *arg)
{
    const bad_number *b = arg;
    gw_sync_options opt = {.struct_size = sizeof opt, .nonfinite = b->rule};
    gw_tensor t[] = {{.name = "first", .rows = 1, .cols = 50},
                     {.name = "second", .offset = 50, .rows = 1, .cols = b->n - 50}};
    gw_layout *layout;
    gw_sync *sync;
    float *g = calloc(b->n, sizeof *g);

    PASS_ON(gw_layout_new(&layout, t, 2));
    PASS_ON(gw_sync_new(&sync, b->spec, layout, c, &opt));
    gw_layout_free(layout);
    PASS_ON(gw_sync_gradient(sync, g));
    for (size_t i = 0; i < b->n; i++)
        g[i] = (float)i;
    if (gw_comm_rank(c) == 1)
        g[b->at] = b->value;
    gw_status st = gw_sync_gradient(sync, g);
    char why[512];
    snprintf(why, sizeof why, "%s", gw_error_message());
    uint64_t skipped = gw_sync_stats(sync).skipped;
    size_t len = gw_sync_state_len(sync);
    void *saved = calloc(1, len);
    gw_status save = gw_sync_save(sync, saved, len);
    free(saved);
    gw_sync_free(sync);
    free(g);
    REQUIRE(st == b->expected, "worker %d got %s", gw_comm_rank(c), gw_status_name(st));
    /* What is saved is sound, or it is not saved. */
    REQUIRE(save == GW_OK || (save == GW_ERR_NUMBER && b->rule == GW_NONFINITE_END &&
                              gw_comm_rank(c) == 1),
            "saving: %s", gw_status_name(save));
    if (st == GW_ERR_NUMBER)
        (void)gw_fail(st, "%s", why);
    REQUIRE(skipped == (st == GW_SKIPPED), "skipped %llu", (unsigned long long)skipped);
    return st == GW_ERR_NUMBER ? st : GW_OK;
}

static void test_bad_numbers(void **state)
{
    const float values[] = {NAN, -NAN, INFINITY, -INFINITY};
    const size_t lengths[] = {100, 100000};
    const char *const specs[] = {"dense",    "topk:0.05",     "gtopk:0.05",
                                 "drop:0.9", "topk:0.05+q:4", "qsgd:4"};

    (void)state;
    for (int i = 0; i < 48; i++) {
        bad_number b = {specs[i / 8], GW_NONFINITE_STOP,  values[i % 4],
                        70,           lengths[i / 4 % 2], GW_ERR_NUMBER};
        assert_int_equal(ranks_run(RANKS_THREADS, 4, bad_number_body, &b),
                         GW_ERR_NUMBER);
        assert_string_equal(gw_error_message(), "the gradient of worker 1 holds NaN or "
                                                "infinity in tensor 'second' (step 2)");
        b.rule = GW_NONFINITE_END;
        assert_int_equal(ranks_run(RANKS_THREADS, 4, bad_number_body, &b),
                         GW_ERR_NUMBER);
        assert_string_equal(gw_error_message(), "the gradient of worker 1 holds NaN or "
                                                "infinity in tensor 'second' (step 2)");
        b.rule = GW_NONFINITE_SKIP;
        b.expected = GW_SKIPPED;
        assert_run_ok(ranks_run(RANKS_THREADS, 4, bad_number_body, &b));
        b.rule = GW_NONFINITE_IGNORE;
        b.expected = GW_OK;
        assert_run_ok(ranks_run(RANKS_THREADS, 4, bad_number_body, &b));
    }
}

/* Worker 2 has a bad gradient and comes late: the others have stopped by then. */
typedef struct late {
    const char *spec;
    gw_nonfinite rule;
    bool by_parts;
    atomic_bool ready; /* worker 2 has its sync */
    gw_status last;    /* what worker 2 got */
    char why[512];
} late;

static gw_status late_body(gw_comm *c, void *arg)
{
    late *l = arg;
    gw_sync_options opt = {.struct_size = sizeof opt, .nonfinite = l->rule};
    gw_layout *layout = two_tensors();
    gw_sync *sync;
    float *g;

    PASS_ON(gw_sync_new(&sync, l->spec, layout, c, &opt));
    gw_layout_free(layout);
    if (gw_comm_rank(c) != 2) {
        gw_sync_free(sync);
        while (!atomic_load(&l->ready))
            sched_yield();
        return gw_fail(GW_ERR_NUMBER, "somebody was faster");
    }
    atomic_store(&l->ready, true);
    g = calloc(N, sizeof *g);
    g[FIRST + 7] = NAN;
    for (size_t t = 2; l->by_parts && t-- > 0;)
        PASS_ON(gw_sync_gradient_part(sync, g, t));
    l->last = gw_sync_gradient(sync, g);
    snprintf(l->why, sizeof l->why, "%s", gw_error_message());
    gw_sync_free(sync);
    free(g);
    return l->last;
}

static void test_late_at_a_bad_number(void **state)
{
    static const char *const specs[] = {"dense",      "a2sgd",  "topk:0.05",
                                        "gtopk:0.05", "qsgd:4", "drop:0.9"};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof specs / sizeof *specs; i++) {
        late l = {.spec = specs[i / 2], .rule = GW_NONFINITE_STOP, .by_parts = i % 2};
        (void)ranks_run(RANKS_THREADS, 3, late_body, &l);
        if (l.last != GW_ERR_NUMBER || strstr(l.why, "worker 2 holds NaN") == NULL)
            fail_msg("%s: %s: %s", l.spec, gw_status_name(l.last), l.why);
        /* A step is skipped by all or by none. */
        atomic_store(&l.ready, false);
        l.rule = GW_NONFINITE_SKIP;
        (void)ranks_run(RANKS_THREADS, 3, late_body, &l);
        assert_int_equal(l.last, GW_ERR_PEER);
    }
}

/* ---- dense steps before local ones ---------------------------------------- */

/* Changes are counted from the model at which local steps begin: with all steps
 * sending nothing new, the model must stay where the dense ones have led. */
static gw_status start_body(gw_comm *c, void *arg)
{
    gw_layout *layout = two_tensors();
    float *x = calloc(2 * N, sizeof *x), *g = x + N;
    gw_sync *sync;

    PASS_ON(gw_sync_new(&sync, arg, layout, c, NULL));
    gw_layout_free(layout);
    PASS_ON(gw_sync_start(sync, x));
    for (int step = 1; step <= 6; step++) {
        for (size_t i = 0; i < N; i++)
            g[i] = step <= 2 ? 1.0f + (float)(i % 7) : 0.0f;
        PASS_ON(gw_sync_gradient(sync, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= g[i];
        PASS_ON(gw_sync_model(sync, x));
    }
    for (size_t i = 0; i < N; i++)
        REQUIRE(x[i] == -2.0f * (1.0f + (float)(i % 7)), "%zu: %g", i, (double)x[i]);
    gw_sync_free(sync);
    free(x);
    return GW_OK;
}

static void test_start(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, start_body, "local:2,start=2+topk:0.01"));
    assert_run_ok(ranks_run(RANKS_THREADS, 3, start_body, "local:2,start=2"));
}

/* ---- memory ------------------------------------------------------------- */

static gw_status memory_body(gw_comm *c, void *arg)
{
    gw_layout *layout = two_tensors();
    float *g = calloc(N, sizeof *g);
    gw_sync *sync = NULL;
    size_t steady = 0;

    (void)arg;
    /* With one worker nothing is waited for, so each allocation can fail in turn. */
    for (size_t k = 0; gw_comm_workers(c) == 1 && sync == NULL; k++) {
        gwi_alloc_fail_at(k);
        gw_status st = gw_sync_new(&sync, "dense", layout, c, NULL);
        gwi_alloc_fail_at((size_t)-1);
        REQUIRE(st == (sync != NULL ? GW_OK : GW_ERR_NOMEM), "%s", gw_status_name(st));
    }
    if (sync == NULL)
        PASS_ON(gw_sync_new(&sync, "dense", layout, c, NULL));
    for (int step = 0; step < 5; step++) {
        PASS_ON(gw_sync_gradient(sync, g));
        if (step == 0)
            steady = gwi_alloc_count();
    }
    REQUIRE(gwi_alloc_count() == steady, "a step after the first allocates");
    gw_sync_free(sync);
    gw_layout_free(layout);
    free(g);
    return GW_OK;
}

static void test_memory(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, memory_body, NULL));
    assert_run_ok(ranks_run(RANKS_THREADS, 3, memory_body, NULL));
}

static gw_status wrong_pieces_body(gw_comm *c, void *arg)
{
    gw_layout *layout = two_tensors();
    float *g = calloc(N, sizeof *g);
    gw_piece pieces[] = {{g, FIRST}, {g + FIRST, SECOND - 1}};
    gw_sync *sync;

    (void)arg;
    PASS_ON(gw_sync_new(&sync, "topk:0.1", layout, c, NULL));
    REQUIRE(gw_sync_gradient_pieces(sync, pieces, 2) == GW_ERR_ARG, "took too little");
    pieces[1].floats++;
    PASS_ON(gw_sync_gradient_part(sync, g, 1));
    REQUIRE(gw_sync_gradient_pieces(sync, pieces, 2) == GW_ERR_ARG, "took both");
    PASS_ON(gw_sync_gradient(sync, g));
    PASS_ON(gw_sync_gradient_pieces(sync, pieces, 2));
    REQUIRE(gw_sync_stats(sync).steps == 2, "counted other steps");
    gw_sync_free(sync);
    gw_layout_free(layout);
    free(g);
    return GW_OK;
}

static void test_wrong_use(void **state)
{
    gw_sync *sync = (gw_sync *)1;

    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, wrong_pieces_body, NULL));
    assert_int_equal(gw_sync_new(&sync, "dense", NULL, NULL, NULL), GW_ERR_ARG);
    assert_null(sync);
    gw_sync_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_bad_layouts),
        cmocka_unit_test(test_averages),
        cmocka_unit_test(test_whole_is_dense),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_late_at_a_bad_number),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_wrong_use),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
