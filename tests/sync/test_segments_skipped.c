/* SPDX-License-Identifier: Apache-2.0
 *
 * test_segments_skipped.c - steps that are skipped because of one segment, or end the
 * run. */
#define _GNU_SOURCE
#include "support_segments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = MODEL_FLOATS, WORKERS = 3 };

/* ---- a sum that overflows in one segment ------------------------------------------
 */

/* Every gradient has 3e38 in the bias, which is more than a float holds three times. */
typedef struct overflow {
    const char *spec;
    bool by_pieces;
} overflow;

static gw_status feed(gw_sync *s, float *g, bool by_pieces)
{
    size_t first = N / 2;
    gw_piece pieces[] = {{g, first}, {g + first, N - first}};

    return by_pieces ? gw_sync_gradient_pieces(s, pieces, 2) : gw_sync_gradient(s, g);
}

/* The residuals have, all together, what they had and the gradients, but for where the
 * sum could not be. */
static gw_status check_residuals(gw_comm *c, const gw_sync *s, float *before)
{
    float *after = malloc(N * sizeof *after);
    size_t bad = MODEL_ROWS * MODEL_COLS + 3;
    gw_status st;

    memcpy(after, s->kept[GWI_RESIDUAL], N * sizeof *after);
    before[bad] = after[bad] = 0;
    PASS_ON(gw_allreduce(c, before, N));
    PASS_ON(gw_allreduce(c, after, N));
    st = GW_OK;
    for (size_t i = 0; i < N && st == GW_OK; i++)
        if (gwi_layout_find(s->layout, i)->rows > 1 &&
            fabsf(after[i] - before[i]) > 1e-5f * (1 + fabsf(before[i])))
            st = gw_fail(GW_ERR_DATA, "%s: %g instead of %g at %zu", s->text,
                         (double)after[i], (double)before[i], i);
    free(after);
    return st;
}

static gw_status overflow_body(gw_comm *c, void *arg)
{
    const overflow *o = arg;
    float *x = calloc(3 * N, sizeof *x), *g = x + N, *before = g + N;
    gw_sync *s;

    PASS_ON(model_sync(&s, c, o->spec, GW_NONFINITE_SKIP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 4; t++) {
        model_gradient(g, x, gw_comm_rank(c), t);
        if (t == 2)
            g[MODEL_ROWS * MODEL_COLS + 3] = 3e38f;
        for (size_t i = 0; i < N; i++)
            before[i] = g[i] + s->kept[GWI_RESIDUAL][i];
        gw_status st = feed(s, g, o->by_pieces);
        REQUIRE(st == (t == 2 ? GW_SKIPPED : GW_OK), "%s: %s in step %d", o->spec,
                gw_status_name(st), t);
        if (t == 2)
            PASS_ON(check_residuals(c, s, before));
        PASS_ON(gw_sync_model(s, x));
    }
    gw_stats stats = gw_sync_stats(s);
    REQUIRE(stats.steps == 4 && stats.skipped == 1, "%s: counted otherwise", o->spec);
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_a_skipped_step_gives_back(void **state)
{
    static const overflow all[] = {{"gtopk:0.02", false},
                                   {"gtopk:0.02", true},
                                   {"gtopk:0.02+q:4", false},
                                   {"gtopk:0.02,dense_below=100", false},
                                   {"qsgd:8,residual=on,via=scatter,bucket=64", false},
                                   {"qsgd:8,residual=on,dense_below=100", false}};
    /* The bias is in a segment without rows of matrices. */
    static const size_t bounds[] = {30, 59, 1200};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
            set_bound(bounds[b]);
            assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, overflow_body,
                                    (void *)(uintptr_t)&all[i]));
        }
}

/* Small tensors come after the others; if it is their sum that overflows, what the
 * others gave goes back as well. */
static void test_small_tensors_that_overflow(void **state)
{
    static const overflow all[] = {{"gtopk:0.02,dense_below=100", false},
                                   {"topk:0.02,dense_below=100", false},
                                   {"qsgd:8,residual=on,dense_below=100", false}};

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        set_bound(GWI_SEGMENT_FLOATS);
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, overflow_body,
                                (void *)(uintptr_t)&all[i]));
        set_bound(700); /* the bias is with rows of both matrices */
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, overflow_body,
                                (void *)(uintptr_t)&all[i]));
    }
}

/* ---- what is spoiled, and what is not ---------------------------------------- */

typedef struct end {
    const char *spec;
    float gradient, residual; /* of one entry of the first tensor */
    gw_status saved;
} end;

static gw_status end_body(gw_comm *c, void *arg)
{
    const end *e = arg;
    float *g = calloc(N, sizeof *g);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, e->spec, GW_NONFINITE_END));
    g[7] = e->gradient;
    s->kept[GWI_RESIDUAL][7] = e->residual;
    gw_status st = gw_sync_gradient(s, g);
    REQUIRE(st == GW_ERR_NUMBER, "%s: %s", e->spec, gw_status_name(st));
    void *state = malloc(gw_sync_state_len(s));
    st = gw_sync_save(s, state, gw_sync_state_len(s));
    free(state);
    free(g);
    gw_sync_free(s);
    REQUIRE(st == e->saved, "%s is saved: %s", e->spec, gw_status_name(st));
    return GW_OK;
}

/* Who looks late has the bad number in its residual. One small tensor, in whichever
 * segment, and everybody looks first. */
static void test_the_end(void **state)
{
    static const end all[] = {
        {"topk:0.02", NAN, 0, GW_ERR_NUMBER},
        {"topk:0.02,dense_below=100", NAN, 0, GW_OK},
        {"topk:0.02,dense_below=100", 3e38f, 3e38f, GW_OK},
    };

    (void)state;
    set_bound(1200);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        assert_run_ok(
            ranks_run(RANKS_THREADS, 1, end_body, (void *)(uintptr_t)&all[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOUNDED(test_a_skipped_step_gives_back),
        BOUNDED(test_small_tensors_that_overflow),
        BOUNDED(test_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
