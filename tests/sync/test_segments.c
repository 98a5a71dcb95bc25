/* SPDX-License-Identifier: Apache-2.0
 *
 * test_segments.c - vectors that are longer than a message can speak of: where they
 * are cut, and what is done once for all of their segments. */
#define _GNU_SOURCE
#include "support_segments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = MODEL_FLOATS };

/* ---- layouts ------------------------------------------------------------------ */

#define BILLION ((size_t)1000000000)

/* Seven billion parameters, as models of 32 layers have them. */
static gw_layout *seven_billion(void)
{
    gw_tensor t[34] = {{.name = "embedding", .rows = 32000, .cols = 4096}};
    size_t at = t[0].rows * t[0].cols;
    gw_layout *layout;

    for (size_t i = 1; i <= 32; i++) {
        t[i] = (gw_tensor){"layer", at, 49408, 4096};
        at += t[i].rows * t[i].cols;
    }
    t[33] = (gw_tensor){"output", at, 1, 7 * BILLION - at};
    assert_run_ok(gw_layout_new(&layout, t, 34));
    return layout;
}

static void test_layouts_of_any_length(void **state)
{
    gw_tensor much = {.name = "much", .rows = SIZE_MAX / 128, .cols = 15};
    gw_layout *l = seven_billion();

    (void)state;
    assert_true(gw_layout_floats(l) == 7 * BILLION);
    assert_ptr_equal(gwi_layout_find(l, 7 * BILLION - 1), gw_layout_tensor(l, 33));
    gw_layout_free(l);
    assert_int_equal(gw_layout_new(&l, &much, 1), GW_OK);
    gw_layout_free(l);
    much.cols = 17;
    assert_int_equal(gw_layout_new(&l, &much, 1), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "'much'"));
}

static void test_paths_of_large_layouts(void **state)
{
    gw_layout *l = seven_billion();
    gw_traffic sent = {.bytes_sent = 7 * BILLION * 4, .messages_sent = 4};
    double rounds, bytes;

    (void)state;
    assert_run_ok(gw_spec_path("dense", l, 2, &sent, &rounds, &bytes));
    assert_true(bytes == 28e9 && rounds >= 4);
    /* One sum for each segment. */
    assert_run_ok(gw_spec_path("local:4", l, 2, &sent, &rounds, &bytes));
    assert_true(bytes == 28e9 && rounds == 4);
    gw_layout_free(l);
}

/* Dense needs no memory beside the gradient, so this one can be made. */
static gw_status large_body(gw_comm *c, void *arg)
{
    gw_layout *l = seven_billion();
    gw_sync *s;

    (void)arg;
    PASS_ON(gw_sync_new(&s, "dense", l, c, NULL));
    REQUIRE(s->segment_count == 2, "%zu segments", s->segment_count);
    REQUIRE(gw_sync_overlaps(s) && gw_sync_keeps_equal(s) &&
                gw_sync_stats(s).steps == 0,
            "not like dense");
    for (size_t i = 0; i < 2; i++)
        REQUIRE(s->segments[i]->layout->floats <= UINT32_MAX, "too long");
    gw_sync_free(s);
    gw_layout_free(l);
    return GW_OK;
}

static void test_a_sync_of_seven_billion(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, large_body, NULL));
}

/* ---- where it is cut ---------------------------------------------------------- */

static void check_cut(gwi_cut *cut, const gw_layout *l, size_t begin, size_t end,
                      size_t pieces)
{
    assert_true(gwi_cut_next(l, cut));
    assert_int_equal(cut->begin, begin);
    assert_int_equal(cut->end, end);
    assert_int_equal(cut->pieces, pieces);
}

static void test_cuts(void **state)
{
    gw_tensor t[] = {{"a", 0, 1, 6}, {"b", 6, 7, 4}, {"c", 34, 1, 2}, {"d", 36, 2, 13}};
    gwi_cut cut = {0};
    gw_layout *l;

    (void)state;
    assert_run_ok(gw_layout_new(&l, t, 4));
    set_bound(10);
    check_cut(&cut, l, 0, 6, 1);
    check_cut(&cut, l, 6, 14, 1); /* two rows of b */
    check_cut(&cut, l, 14, 22, 1);
    check_cut(&cut, l, 22, 30, 1);
    check_cut(&cut, l, 30, 36, 2); /* its last row, and c */
    check_cut(&cut, l, 36, 46, 1); /* rows of d are too long */
    check_cut(&cut, l, 46, 49, 1);
    check_cut(&cut, l, 49, 59, 1);
    check_cut(&cut, l, 59, 62, 1);
    assert_false(gwi_cut_next(l, &cut));
    set_bound(62);
    cut = (gwi_cut){0};
    check_cut(&cut, l, 0, 62, 4);
    assert_false(gwi_cut_next(l, &cut));
    gw_layout_free(l);
}

/* A fragment ends where it is due, and the next one begins with the rest of the row. */
static void test_cuts_in_fragments(void **state)
{
    gw_tensor t[] = {{"a", 0, 1, 6}, {"b", 6, 7, 4}, {"c", 34, 1, 2}, {"d", 36, 2, 13}};
    gwi_spec spec;
    gwi_cut cut = {.spec = &spec};
    gw_layout *l;

    (void)state;
    assert_run_ok(gw_layout_new(&l, t, 4));
    assert_run_ok(gwi_spec_parse("local:4,fragments=2", &spec));
    set_bound(10);
    check_cut(&cut, l, 0, 6, 1);
    check_cut(&cut, l, 6, 14, 1);
    check_cut(&cut, l, 14, 22, 1);
    check_cut(&cut, l, 22, 31, 2); /* two rows of b, and a quarter of the next */
    assert_int_equal(cut.fragment, 0);
    check_cut(&cut, l, 31, 36, 2); /* the rest of it, and c */
    assert_int_equal(cut.fragment, 1);
    check_cut(&cut, l, 36, 46, 1);
    check_cut(&cut, l, 46, 49, 1);
    check_cut(&cut, l, 49, 59, 1);
    check_cut(&cut, l, 59, 62, 1);
    assert_false(gwi_cut_next(l, &cut));
    gw_layout_free(l);
}

/* Every float is in one segment, in its order, under the name of its tensor. */
static gw_status cover_body(gw_comm *c, void *arg)
{
    gw_sync *s;
    size_t at = 0;

    (void)arg;
    PASS_ON(model_sync(&s, c, "topk:0.1", GW_NONFINITE_STOP));
    REQUIRE(s->segment_count > 1, "not cut");
    for (size_t i = 0; i < s->segment_count; i++) {
        const gw_sync *g = s->segments[i];
        REQUIRE(g->base == at && g->layout->floats <= gwi_segment_floats,
                "segment %zu of %zu begins at %zu", i, gwi_segment_floats, g->base);
        REQUIRE(g->kept[GWI_RESIDUAL] == s->kept[GWI_RESIDUAL] + at, "its residual");
        for (size_t t = 0; t < g->layout->count; t++) {
            const gw_tensor *piece = &g->layout->tensors[t];
            const char *name = gwi_layout_find(s->layout, at + piece->offset)->name;
            REQUIRE(strcmp(piece->name, name) == 0, "%s is %s", piece->name, name);
        }
        at += g->layout->floats;
    }
    REQUIRE(at == N, "%zu floats", at);
    gw_sync_free(s);
    return GW_OK;
}

static void test_segments_cover_the_vector(void **state)
{
    (void)state;
    for (size_t bound = 1; bound < N; bound = bound * 3 / 2 + 1) {
        set_bound(bound);
        assert_run_ok(ranks_run(RANKS_THREADS, 1, cover_body, NULL));
    }
}

/* ---- what is made of all segments together -----------------------------------------
 */

typedef struct velocity {
    const char *spec;
    uint64_t digests[2]; /* after one step */
} velocity;

static gw_status velocity_body(gw_comm *c, void *arg)
{
    velocity *v = arg;
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, v->spec, GW_NONFINITE_STOP));
    model_gradient(x + N, x, gw_comm_rank(c), 1);
    PASS_ON(gw_sync_gradient(s, x + N));
    v->digests[gw_comm_rank(c)] = model_digest(s->kept[GWI_VELOCITY]);
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void check_velocity(const char *spec)
{
    velocity whole = {.spec = spec}, cut = whole;

    set_bound(GWI_SEGMENT_FLOATS);
    assert_run_ok(ranks_run(RANKS_THREADS, 2, velocity_body, &whole));
    set_bound(100);
    assert_run_ok(ranks_run(RANKS_THREADS, 2, velocity_body, &cut));
    assert_memory_equal(whole.digests, cut.digests, sizeof whole.digests);
}

/* A gradient is clipped by its own norm and not by those of its segments. */
static void test_clipping(void **state)
{
    (void)state;
    check_velocity("topk:0.1+momentum:0.9,clip=1,mask=off,velocity=local");
}

static void test_momentum_of_dense_steps(void **state)
{
    (void)state;
    check_velocity("topk:0.1,warmup=1+momentum:0.9");
}

/* Seconds and masses of all segments are counted, once. */
static gw_status statistics_body(gw_comm *c, void *arg)
{
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "gtopk:0.02,putback=paper", GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    model_gradient(x + N, x, gw_comm_rank(c), 1);
    double begin = gwi_now();
    PASS_ON(gw_sync_gradient(s, x + N));
    double seconds = gwi_now() - begin, mass = 0;
    gw_stats t = gw_sync_stats(s);
    for (size_t i = 0; i < N; i++)
        mass += (double)fabsf(x[N + i]) * gw_comm_workers(c);
    REQUIRE(fabs(t.applied_mass - mass) < 1e-3 * mass && mass > 0,
            "applied %g, counted %g", mass, t.applied_mass);
    REQUIRE(t.encode_seconds > 0 && t.decode_seconds > 0 &&
                t.encode_seconds + t.decode_seconds + t.wait_seconds <= seconds + 1e-6,
            "%g + %g + %g of %g s", t.encode_seconds, t.decode_seconds, t.wait_seconds,
            seconds);
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_statistics(void **state)
{
    (void)state;
    set_bound(100);
    assert_run_ok(ranks_run(RANKS_THREADS, 3, statistics_body, NULL));
}

/* Segments of the same gradients are rounded otherwise, but the first as ever. */
static gw_status rounding_body(gw_comm *c, void *arg)
{
    gw_tensor t[] = {{"a", 0, 1, 512}, {"b", 512, 1, 512}};
    float g[1024], *first = arg;
    gw_layout *l;
    gw_sync *s;

    for (size_t i = 0; i < 1024; i++)
        g[i] = test_float(5, i % 512);
    PASS_ON(gw_layout_new(&l, t, 2));
    PASS_ON(gw_sync_new(&s, "qsgd:2,via=gather", l, c, NULL));
    PASS_ON(gw_sync_gradient(s, g));
    gw_sync_free(s);
    gw_layout_free(l);
    memcpy(first, g, 512 * sizeof *g);
    REQUIRE(memcmp(g, g + 512, 512 * sizeof *g) != 0, "rounded with the same bits");
    return GW_OK;
}

static void test_random_bits(void **state)
{
    float whole[512], cut[512];

    (void)state;
    set_bound(GWI_SEGMENT_FLOATS);
    assert_run_ok(ranks_run(RANKS_THREADS, 1, rounding_body, whole));
    set_bound(512);
    assert_run_ok(ranks_run(RANKS_THREADS, 1, rounding_body, cut));
    assert_memory_equal(whole, cut, sizeof whole);
}

/* The whole knows which choices its segments have made. */
static gw_status spec_body(gw_comm *c, void *arg)
{
    gw_sync *s;

    (void)arg;
    PASS_ON(model_sync(&s, c, "qsgd:4", GW_NONFINITE_STOP));
    REQUIRE(strstr(gw_sync_spec(s), "via=scatter") != NULL, "%s", gw_sync_spec(s));
    gw_sync_free(s);
    return GW_OK;
}

static void test_the_spec(void **state)
{
    (void)state;
    set_bound(100);
    assert_run_ok(ranks_run(RANKS_THREADS, 3, spec_body, NULL));
}

/* Those who differ find out, however it is cut; and models that differ are found. */
static gw_status settings_body(gw_comm *c, void *arg)
{
    bool last = gw_comm_rank(c) == gw_comm_workers(c) - 1;
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    (void)arg;
    gw_status st = model_sync(&s, c, last ? "topk:0.1" : "topk:0.2", GW_NONFINITE_STOP);
    REQUIRE(st == GW_ERR_MISMATCH, "%s", gw_status_name(st));
    PASS_ON(model_sync(&s, c, "topk:0.1+check:1", GW_NONFINITE_STOP));
    PASS_ON(gw_sync_gradient(s, x));
    if (last)
        x[N - 1] = 1;
    st = gw_sync_model(s, x);
    REQUIRE(st == GW_ERR_DIFFER, "%s", gw_status_name(st));
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static void test_settings_and_models_are_compared(void **state)
{
    (void)state;
    set_bound(100);
    assert_run_ok(ranks_run(RANKS_THREADS, 3, settings_body, NULL));
}

/* ---- states -------------------------------------------------------------------------
 */

enum { OLD_WORKERS = 3, STATE_CAP = 65536 };

typedef struct saved {
    const char *spec;
    uint8_t bytes[OLD_WORKERS][STATE_CAP];
    size_t lens[OLD_WORKERS];
    float residuals[N]; /* of all */
} saved;

static gw_status save_body(gw_comm *c, void *arg)
{
    saved *to = arg;
    float *x = calloc(2 * N, sizeof *x);
    int own = gw_comm_rank(c);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, to->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 2; t++) {
        model_gradient(x + N, x, own, t);
        PASS_ON(gw_sync_gradient(s, x + N));
        PASS_ON(gw_sync_model(s, x));
    }
    to->lens[own] = gw_sync_state_len(s);
    REQUIRE(to->lens[own] <= STATE_CAP, "%zu bytes", to->lens[own]);
    PASS_ON(gw_sync_save(s, to->bytes[own], STATE_CAP));
    memcpy(x, s->kept[GWI_RESIDUAL], N * sizeof *x);
    PASS_ON(gw_allreduce(c, x, N));
    if (own == 0)
        memcpy(to->residuals, x, N * sizeof *x);
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

/* Loads on any number of workers; the residuals have the same sum. */
static gw_status load_body(gw_comm *c, void *arg)
{
    const saved *from = arg;
    const void *states[] = {from->bytes[0], from->bytes[1], from->bytes[2]};
    float *sum = malloc(N * sizeof *sum);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, from->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_load(s, states, from->lens, OLD_WORKERS));
    REQUIRE(gw_sync_stats(s).steps == 2 && s->step == 2, "of another step");
    memcpy(sum, s->kept[GWI_RESIDUAL], N * sizeof *sum);
    PASS_ON(gw_allreduce(c, sum, N));
    for (size_t i = 0; i < N; i++)
        REQUIRE(fabsf(sum[i] - from->residuals[i]) <= 1e-5f, "residual %zu", i);
    if (gw_comm_workers(c) == OLD_WORKERS) {
        uint8_t *again = malloc(STATE_CAP);
        PASS_ON(gw_sync_save(s, again, STATE_CAP));
        REQUIRE(memcmp(again, states[gw_comm_rank(c)], from->lens[0]) == 0,
                "saved again, it is another state");
        free(again);
    }
    gw_sync_free(s);
    free(sum);
    return GW_OK;
}

/* A state does not depend on how vectors were cut for messages. */
static void test_states(void **state)
{
    static const char *const specs[] = {"topk:0.05+momentum:0.9", "local:2+gtopk:0.05",
                                        "qsgd:8,residual=on"};
    static const size_t later[] = {100, 700, GWI_SEGMENT_FLOATS};
    static saved s;

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        s.spec = specs[i];
        set_bound(100);
        assert_run_ok(ranks_run(RANKS_THREADS, OLD_WORKERS, save_body, &s));
        for (size_t k = 0; k < sizeof later / sizeof *later; k++)
            for (int workers = 1; workers <= 4; workers++) {
                set_bound(later[k]);
                assert_run_ok(ranks_run(RANKS_THREADS, workers, load_body, &s));
            }
    }
}

/* ---- memory
 * --------------------------------------------------------------------------- */

/* Fails each allocation in turn: a clean GW_ERR_NOMEM, and nothing is left behind. */
static gw_status starving_body(gw_comm *c, void *arg)
{
    gw_sync *s = NULL;
    size_t held = gwi_alloc_bytes();

    for (size_t k = 0; s == NULL; k++) {
        gwi_alloc_fail_at(k);
        gw_status st = model_sync(&s, c, arg, GW_NONFINITE_STOP);
        gwi_alloc_fail_at((size_t)-1);
        REQUIRE(st == (s != NULL ? GW_OK : GW_ERR_NOMEM) || k == 0, "%s: %s",
                (char *)arg, gw_status_name(st));
        REQUIRE(s != NULL || gwi_alloc_bytes() == held, "%s: allocation %zu leaks",
                (char *)arg, k);
    }
    REQUIRE(s->segment_count > 1, "%s is not cut", (char *)arg);
    gw_sync_free(s);
    REQUIRE(gwi_alloc_bytes() == held, "%s leaks", (char *)arg);
    return GW_OK;
}

static void test_no_memory(void **state)
{
    (void)state;
    set_bound(700);
    for (size_t i = 0; conform_spec(i) != NULL; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 1, starving_body,
                                (void *)(uintptr_t)conform_spec(i)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOUNDED(test_layouts_of_any_length),
        BOUNDED(test_paths_of_large_layouts),
        BOUNDED(test_a_sync_of_seven_billion),
        BOUNDED(test_cuts),
        BOUNDED(test_cuts_in_fragments),
        BOUNDED(test_segments_cover_the_vector),
        BOUNDED(test_clipping),
        BOUNDED(test_momentum_of_dense_steps),
        BOUNDED(test_statistics),
        BOUNDED(test_random_bits),
        BOUNDED(test_the_spec),
        BOUNDED(test_settings_and_models_are_compared),
        BOUNDED(test_states),
        BOUNDED(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
