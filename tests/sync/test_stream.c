/* SPDX-License-Identifier: Apache-2.0
 *
 * test_stream.c - models that are exchanged in fragments, late, and mixed. */
#define _GNU_SOURCE
#include <math.h>
#include <semaphore.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "support_conform.h"
#include "support_model.h"
#include "sync/beside/stream.h"
#include "sync/segments.h"

/* ---- published histories ----------------------------------------------------------
 */

/* Two scalars, each a tensor, which begin with 1 and lose 2 in every step; periods of 6
 * steps; an outer step of rate 2 without momentum. What they are after each of 15
 * steps is what torchft's tests have stored (meta-pytorch/torchft, test_fixtures/
 * torchft.diloco_regression_test.DiLoCoMockedUpdateTest.test_diloco_mocked_updates_*,
 * numbers 0 to 5), and so are the common states after steps 3, 6, 9 and 12. */
enum { STEPS = 15, COMMON = 4 };

typedef struct history {
    const char *spec;
    float x[STEPS][2];
    float common[COMMON][2];
} history;

static const history histories[] = {
    {"local:6,fragments=2+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-11, -5},
      {-13, -7},
      {-15, -9},
      {-17, -23},
      {-19, -25},
      {-21, -27},
      {-35, -29},
      {-37, -31},
      {-39, -33},
      {-41, -47},
      {-43, -49},
      {-45, -51},
      {-59, -53}},
     {{-11, 1}, {-11, -23}, {-35, -23}, {-35, -47}}},
    {"local:6,fragments=2,mix=0.5+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-8, -5},
      {-10, -7},
      {-12, -9},
      {-14, -17},
      {-16, -19},
      {-18, -21},
      {-24.5F, -23},
      {-26.5F, -25},
      {-28.5F, -27},
      {-30.5F, -32},
      {-32.5F, -34},
      {-34.5F, -36},
      {-40.25F, -38}},
     {{-11, 1}, {-11, -23}, {-29, -23}, {-29, -35}}},
    {"local:6,fragments=2,mix=1+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-5, -5},
      {-7, -7},
      {-9, -9},
      {-11, -11},
      {-13, -13},
      {-15, -15},
      {-17, -17},
      {-19, -19},
      {-21, -21},
      {-23, -23},
      {-25, -25},
      {-27, -27},
      {-29, -29}},
     {{-11, 1}, {-11, -23}, {-23, -23}, {-23, -23}}},
    {"local:6,fragments=2,delay=1+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-7, -5},
      {-9, -7},
      {-11, -9},
      {-13, -19},
      {-15, -21},
      {-17, -23},
      {-27, -25},
      {-29, -27},
      {-31, -29},
      {-33, -39},
      {-35, -41},
      {-37, -43},
      {-47, -45}},
     {{-7, 1}, {-7, -19}, {-27, -19}, {-27, -39}}},
    {"local:6,fragments=2,delay=1,mix=0.5+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-6, -5},
      {-8, -7},
      {-10, -9},
      {-12, -15},
      {-14, -17},
      {-16, -19},
      {-21.5F, -21},
      {-23.5F, -23},
      {-25.5F, -25},
      {-27.5F, -29},
      {-29.5F, -31},
      {-31.5F, -33},
      {-35.75F, -35}},
     {{-7, 1}, {-7, -19}, {-25, -19}, {-25, -31}}},
    {"local:6,fragments=2,delay=1,mix=1+outer:2,0",
     {{-1, -1},
      {-3, -3},
      {-5, -5},
      {-7, -7},
      {-9, -9},
      {-11, -11},
      {-13, -13},
      {-15, -15},
      {-17, -17},
      {-19, -19},
      {-21, -21},
      {-23, -23},
      {-25, -25},
      {-27, -27},
      {-29, -29}},
     {{-7, 1}, {-7, -19}, {-23, -19}, {-23, -23}}},
};

static gw_status new_sync(gw_sync **s, gw_comm *c, const char *spec, size_t tensors)
{
    gw_tensor t[8];
    gw_layout *layout;

    for (size_t i = 0; i < tensors; i++)
        t[i] = (gw_tensor){"layer", i, 1, 1};
    PASS_ON(gw_layout_new(&layout, t, tensors));
    gw_status st = gw_sync_new(s, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

static gw_status history_body(gw_comm *c, void *arg)
{
    const history *h = arg;
    float x[2] = {1, 1};
    gw_sync *s;

    PASS_ON(new_sync(&s, c, h->spec, 2));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= STEPS; t++) {
        float g[2] = {2, 2};
        PASS_ON(gw_sync_gradient(s, g));
        for (int i = 0; i < 2; i++)
            x[i] -= g[i];
        PASS_ON(gw_sync_model(s, gw_sync_model_due(s) ? x : NULL));
        REQUIRE(memcmp(x, h->x[t - 1], sizeof x) == 0, "%s, step %d: %g %g", h->spec, t,
                (double)x[0], (double)x[1]);
        const float *z = s->kept[GWI_REFERENCE];
        REQUIRE(t % 3 != 0 || t / 3 > COMMON ||
                    memcmp(z, h->common[t / 3 - 1], sizeof x) == 0,
                "%s, step %d: common %g %g", h->spec, t, (double)z[0], (double)z[1]);
    }
    gw_sync_free(s);
    return GW_OK;
}

/* Two tensors of one float are cut the same way by tensors and evenly. */
static void test_published_histories(void **state)
{
    char spec[80];

    (void)state;
    for (size_t i = 0; i < sizeof histories / sizeof *histories; i++)
        for (int workers = 1; workers <= 4; workers++) {
            history by_tensors = histories[i], even = by_tensors;
            const char *outer = strchr(even.spec, '+');
            snprintf(spec, sizeof spec, "%.*s,cut=tensors%s", (int)(outer - even.spec),
                     even.spec, outer);
            by_tensors.spec = spec;
            assert_run_ok(ranks_run(RANKS_THREADS, workers, history_body, &even));
            assert_run_ok(ranks_run(RANKS_THREADS, workers, history_body, &by_tensors));
        }
}

/* ---- turns and fragments ----------------------------------------------------------
 */

static void test_turns(void **state)
{
    static const uint64_t ends[] = {7, 15, 22, 30, 37, 45, 52, 60};
    gwi_spec spec;
    size_t turn = 0;

    (void)state;
    assert_int_equal(gwi_spec_parse("diloco:30,fragments=4,delay=5", &spec), GW_OK);
    for (uint64_t step = 1; step <= 60; step++) {
        gwi_turn at = gwi_turn_at(&spec, step);
        if (step > ends[turn])
            turn++;
        assert_int_equal(at.end, ends[turn]);
        assert_int_equal(at.begin, turn == 0 ? 0 : ends[turn - 1]);
        assert_int_equal(at.fragment, turn % 4);
        assert_int_equal(gwi_turn_begins(&spec, &at, step), step == ends[turn] - 5);
    }
}

typedef struct sizes {
    size_t rows[6], cols[6], tensors;
    const char *spec;
    size_t ends[7];
} sizes;

static void check_ends(const sizes *row)
{
    gwi_cut cut;
    gwi_spec spec;
    gw_tensor t[6];
    gw_layout *l;
    size_t at = 0, seen = 0;

    for (size_t i = 0; i < row->tensors; at += t[i].rows * t[i].cols, i++)
        t[i] = (gw_tensor){"t", at, row->rows[i], row->cols[i]};
    assert_int_equal(gw_layout_new(&l, t, row->tensors), GW_OK);
    assert_int_equal(gwi_spec_parse(row->spec, &spec), GW_OK);
    for (cut = (gwi_cut){.spec = &spec}; gwi_cut_next(l, &cut); seen++)
        if (cut.end != row->ends[seen] || cut.fragment != seen)
            fail_msg("%s, %zu tensors: fragment %zu ends before float %zu", row->spec,
                     row->tensors, cut.fragment, cut.end);
    assert_int_equal(seen, gwi_fragments(&spec));
    gw_layout_free(l);
}

#define ONES             \
    {                    \
        1, 1, 1, 1, 1, 1 \
    }

static void test_whole_tensors(void **state)
{
    static const sizes rows[] = {
        {ONES, {4, 4, 4, 4}, 4, "local:9,fragments=2,cut=tensors", {8, 16}},
        {ONES, {4, 4, 4, 4}, 4, "local:9,fragments=4,cut=tensors", {4, 8, 12, 16}},
        {ONES, {90, 2, 2, 2}, 4, "local:9,fragments=3,cut=tensors", {90, 92, 96}},
        {ONES, {2, 2, 2, 90}, 4, "local:9,fragments=3,cut=tensors", {4, 6, 96}},
        {ONES,
         {10, 1, 10, 1, 10, 1},
         6,
         "local:9,fragments=3,cut=tensors",
         {11, 22, 33}},
        {ONES, {5, 5, 2}, 3, "local:9,fragments=2,cut=tensors", {5, 12}},
        {ONES, {3, 2, 3}, 3, "local:9,fragments=2,cut=tensors", {3, 8}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_ends(&rows[i]);
}

/* Between rows that are short, of two ends the first; elsewhere in rows. */
static void test_fragments_are_even(void **state)
{
    static const sizes rows[] = {
        {ONES, {4, 4, 4, 4}, 4, "local:9,fragments=2", {8, 16}},
        {ONES, {90, 2, 2, 2}, 4, "local:9,fragments=3", {32, 64, 96}},
        {ONES, {7}, 1, "local:9,fragments=7", {1, 2, 3, 4, 5, 6, 7}},
        {{20, 1}, {10, 1}, 2, "local:9,fragments=2", {100, 201}},
        {{1, 41}, {5, 4}, 2, "local:9,fragments=2", {85, 169}},
        {{1, 42}, {3, 4}, 2, "local:9,fragments=2", {83, 171}},
        {{1, 41}, {6, 4}, 2, "local:9,fragments=2", {86, 170}},
        {{2, 1}, {100, 1}, 2, "local:9,fragments=3", {67, 134, 201}},
        {{1, 1, 1}, {62, 4, 62}, 3, "local:9,fragments=2", {62, 128}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_ends(&rows[i]);
}

/* What is exchanged in a step is at most the largest fragment, and in a period all. */
static gw_status peak_body(gw_comm *c, void *arg)
{
    uint64_t before = 0, peak = 0;
    float x[8] = {0}, g[8] = {0};
    gw_sync *s;

    PASS_ON(new_sync(&s, c, arg, 8));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 8; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        PASS_ON(gw_sync_model(s, x));
        uint64_t sent = gw_sync_stats(s).bytes_sent;
        if (sent - before > peak)
            peak = sent - before;
        before = sent;
    }
    /* Two workers send each other their floats, a note of 8 bytes and a check of 4. */
    REQUIRE(peak == 2 * 4 + 12 && before == 4 * peak, "%d bytes at most, %d in all",
            (int)peak, (int)before);
    gw_sync_free(s);
    return GW_OK;
}

static void test_a_fourth_at_a_time(void **state)
{
    (void)state;
    assert_run_ok(
        ranks_run(RANKS_THREADS, 2, peak_body, "local:8,fragments=4+outer:0.5,0"));
}

/* ---- nothing is lost ---------------------------------------------------------------
 */

/* With an outer step of rate 1 and no mixing, what the workers' models have changed by
 * up to the beginnings of the exchanges is in the common state or in the residuals. */
static gw_status kept_body(gw_comm *c, void *arg)
{
    enum { N = MODEL_FLOATS };
    float *x = calloc(4 * N, sizeof *x), *g = x + N, *sent = g + N, *sums = sent + N;
    float workers = (float)gw_comm_workers(c);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, arg, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 16; t++) {
        model_gradient(g, x, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.1F * g[i];
        if (s->now.begins) {
            gwi_turn turn = gwi_turn_at(&s->spec, s->step);
            gwi_run_of of = gwi_segments_of(s, turn.fragment);
            size_t from = s->segments[of.begin]->base;
            size_t to = of.end == s->segment_count ? N : s->segments[of.end]->base;
            for (size_t i = from; i < to; i++)
                sent[i] += x[i] - s->kept[GWI_REFERENCE][i];
        }
        PASS_ON(gw_sync_model(s, x));
    }
    for (size_t i = 0; i < N; i++)
        sums[i] = sent[i] - s->kept[GWI_RESIDUAL][i];
    PASS_ON(gw_allreduce(c, sums, N));
    for (size_t i = 0; i < N; i++)
        REQUIRE(fabsf(sums[i] / workers - s->kept[GWI_REFERENCE][i]) < 1e-5F,
                "%s: coordinate %zu went from 0 to %g, but %g was sent", (char *)arg, i,
                (double)s->kept[GWI_REFERENCE][i], (double)(sums[i] / workers));
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_conserved(void **state)
{
    static const char *const specs[] = {
        "local:4,fragments=2+topk:0.05", "local:4,fragments=2,delay=1+topk:0.05+q:4",
        "local:8,fragments=2,delay=3+gtopk:0.1+2bit", "local:4,delay=3+drop:0.9"};

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int workers = 2; workers <= 3; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, kept_body,
                                    (void *)(uintptr_t)specs[i]));
}

/* ---- resumed at any step, also while something is under way ------------------------
 */

static void test_resumed(void **state)
{
    static const char *const specs[] = {
        "diloco:5,fragments=2,delay=1,mix=0.5",
        "diloco:6,fragments=2,delay=1,cut=tensors",
        "local:8,fragments=3,delay=1+topk:0.05+q:4+outer:0.7,0.9",
        "local:7,delay=5,start=2+outer:0.4,0",
        "sparseloco:7,fragments=2,delay=2,mix=0.25"};
    uint64_t whole[9], resumed[9];

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int at = 0; at <= 16; at++) {
            conform_job j = {specs[i], .steps = 17, .break_at = at};
            j.digests = at == 0 ? whole : resumed;
            if (ranks_run(RANKS_THREADS, 3, conform_body, &j) != GW_OK)
                fail_msg("%s: %s", specs[i], gw_error_message());
            if (at > 0 && memcmp(whole, resumed, 3 * sizeof *whole) != 0)
                fail_msg("'%s' resumed after step %d is another run", specs[i], at);
        }
}

/* ---- off is off ---------------------------------------------------------------------
 */

static void test_off(void **state)
{
    static const char *const specs[][2] = {
        {"local:3", "local:3,fragments=1,delay=0,mix=0"},
        {"diloco:2", "diloco:2,fragments=1,mix=0"},
        {"sparseloco:2", "sparseloco:2,delay=0"},
    };
    uint64_t without[9], with[9];

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        conform_job j = {specs[i][0], .steps = 7, .digests = without};
        assert_run_ok(ranks_run(RANKS_THREADS, 3, conform_body, &j));
        j = (conform_job){specs[i][1], .steps = 7, .digests = with};
        assert_run_ok(ranks_run(RANKS_THREADS, 3, conform_body, &j));
        assert_memory_equal(without, with, 3 * sizeof *with);
    }
}

/* ---- beside the caller
 * ---------------------------------------------------------------
 */

/* Worker 0 takes its further steps while worker 1 has not even begun the exchange: it
 * tells worker 1 to go on only after them. */
static gw_status beside_body(gw_comm *c, void *arg)
{
    float x[2] = {1, 2}, g[2] = {1, 1};
    sem_t *go = arg;
    gw_sync *s;

    PASS_ON(new_sync(&s, c, "local:8,delay=5", 2));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 8; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        if (t == 3 && gw_comm_rank(c) == 1)
            sem_wait(go);
        PASS_ON(gw_sync_model(s, x));
        if (t == 7 && gw_comm_rank(c) == 0) {
            REQUIRE(gw_sync_stats(s).steps == 7 && gw_sync_stats(s).bytes_sent == 0,
                    "counts of what is under way are shown");
            sem_post(go);
        }
    }
    REQUIRE(gw_sync_stats(s).bytes_sent > 0, "nothing was sent");
    gw_sync_free(s);
    return GW_OK;
}

static void test_beside_computing(void **state)
{
    sem_t go;

    (void)state;
    assert_int_equal(sem_init(&go, 0, 0), 0);
    assert_run_ok(ranks_run(RANKS_THREADS, 2, beside_body, &go));
    sem_destroy(&go);
}

/* ---- a run that ends in a turn ----------------------------------------------------
 */

static gw_status ended_body(gw_comm *c, void *arg)
{
    float x[3] = {1, 2, 3}, own[3], g[3] = {1, 1, 1}, first[3];
    int workers = gw_comm_workers(c);
    gw_sync *s;

    PASS_ON(new_sync(&s, c, arg, 3));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 7; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        for (int i = 0; i < 3; i++)
            x[i] -= (float)(gw_comm_rank(c) + 1) * g[i];
        PASS_ON(gw_sync_model(s, x));
    }
    memcpy(own, x, sizeof own);
    PASS_ON(gw_sync_finish(s, x));
    PASS_ON(gw_allreduce(c, own, 3));
    for (int i = 0; i < 3; i++)
        REQUIRE(fabsf(own[i] / (float)workers - x[i]) < 1e-5F, "%g is not the mean %g",
                (double)x[i], (double)(own[i] / (float)workers));
    memcpy(first, x, sizeof first);
    PASS_ON(gw_broadcast(c, first, sizeof first, 0));
    REQUIRE(memcmp(first, x, sizeof first) == 0, "models differ at the end");
    gw_sync_free(s);
    return GW_OK;
}

static void test_ends_averaged(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 3, ended_body, "local:9,delay=4"));
    assert_run_ok(
        ranks_run(RANKS_THREADS, 3, ended_body, "diloco:6,fragments=3,delay=1"));
    assert_run_ok(ranks_run(RANKS_THREADS, 3, ended_body, "local:7,mix=0.5"));
}

/* ---- what is refused ------------------------------------------------------------- */

static void test_refused(void **state)
{
    static const char *const rows[][2] = {
        {"local:3,fragments=4", "periods of 3 steps, in which 4 fragments"},
        {"diloco:30,fragments=4,delay=7", "delay must be below 7"},
        {"local:1,delay=1", "delay must be below 1"},
        {"local:grow,fragments=2", "need periods of one length"},
        {"local:4,mix=2", "from 0 to 1"},
        {"local:4,fragments=2+topk:0.1+ef21", "'ef21' estimates whole changes"},
        {"local:4,fragments=2,cut=rows", "even|tensors"},
        {"local:4+topk:0.1,delay=1", "must be given to the first stage"},
    };
    gwi_spec spec;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gwi_spec_parse(rows[i][0], &spec), GW_ERR_SPEC);
        if (strstr(gw_error_message(), rows[i][1]) == NULL)
            fail_msg("'%s': %s", rows[i][0], gw_error_message());
    }
}

static gw_status too_few_body(gw_comm *c, void *arg)
{
    gw_sync *s;

    (void)arg;
    REQUIRE(new_sync(&s, c, "local:4,fragments=3", 2) == GW_ERR_ARG &&
                strstr(gw_error_message(), "parameters, but the model has only 2"),
            "more fragments than parameters: %s", gw_error_message());
    REQUIRE(new_sync(&s, c, "local:4,fragments=3,cut=tensors", 2) == GW_ERR_ARG &&
                strstr(gw_error_message(), "cut=tensors, but the model has only 2"),
            "more fragments than tensors: %s", gw_error_message());
    return GW_OK;
}

static void test_too_few(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, too_few_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_histories),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_whole_tensors),
        cmocka_unit_test(test_fragments_are_even),
        cmocka_unit_test(test_a_fourth_at_a_time),
        cmocka_unit_test(test_conserved),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_beside_computing),
        cmocka_unit_test(test_ends_averaged),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
