/* SPDX-License-Identifier: Apache-2.0
 *
 * test_guard.c - gw_sync_health(): it is silent while gradients stay as they are, grow
 * slowly, jump once, or follow a schedule of rates, and speaks up when a residual grows
 * by factors. It changes nothing that is exchanged, and allocates nothing. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base.h"

enum { N = 400, STEPS = 550 };

/* A stream of gradients whose length in step t is length(t) times a common one; and the
 * learning rate of that step, which is told if told is. */
typedef struct stream {
    const char *name;
    double (*length)(int t);
    double (*rate)(int t);
    bool told;
    int thin; /* until then one of 20 entries has nearly all of it */
    int away; /* the last step in which it may be noticed; 0: never */
} stream;

static double steady(int t)
{
    (void)t;
    return 1;
}

static double twice_in_100_steps(int t)
{
    return exp2(t / 100.0);
}

static double noisy(int t)
{
    return exp2((double)(test_random(7, (uint64_t)t) % 1000) / 200.0);
}

/* A batch now and then is ten times as long. */
static double with_spikes(int t)
{
    return t % 97 == 0 ? 10 : 1;
}

static double dying(int t)
{
    return exp2(-t / 20.0);
}

/* A network that is dead. */
static double nothing_at_last(int t)
{
    return t < 200 ? 1 : 0;
}

static double nothing_at_first(int t)
{
    return t < 130 ? 0 : 1;
}

static double twice_in_10_steps(int t)
{
    return exp2(t / 10.0);
}

static double bursts_after_300(int t)
{
    return t < 300 ? 1 : exp2(fmin(t - 300, 60) / 3.0);
}

static double bursts_and_dies(int t)
{
    return t < 150 ? 1 : t < 160 ? 1e5 : 1e-3;
}

/* Rates that rise and fall by more than a residual ever grows. */
static double warm_up(int t)
{
    return 0.1 * exp2(fmin(t - 400, 0) / 20);
}

static double falling(int t)
{
    return 0.1 * exp2(-t / 15.0);
}

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor tensors[] = {{.name = "w", .rows = 20, .cols = 20}};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, tensors, 1));
    gw_status st = gw_sync_new(sync, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

static void make_gradient(float *g, const stream *of, int t, int rank)
{
    uint64_t seed = (uint64_t)(1000 * rank + t);

    for (size_t i = 0; i < N; i++) {
        double x = (double)(test_random(seed, i) % 2001) / 1000 - 1;
        double part = t >= of->thin ? 1 : i % 20 == 0 ? sqrt(20) : 1e-4;
        g[i] = (float)(of->length(t) * part * x * x * x);
    }
}

static gw_health health_of(const gw_sync *s)
{
    gw_health h = {.struct_size = sizeof h};

    (void)gw_sync_health(s, &h);
    return h;
}

typedef struct trial {
    const char *spec;
    const stream *stream;
} trial;

/* One step. Models change by -rate times what the optimizer is given. */
static gw_status step(gw_sync *s, const stream *of, int t, int rank, float *g, float *x)
{
    double rate = of->rate != NULL ? of->rate(t) : 0.1;

    make_gradient(g, of, t, rank);
    if (of->told)
        PASS_ON(gw_sync_set_rate(s, rate));
    PASS_ON(gw_sync_gradient(s, g));
    for (size_t i = 0; i < N; i++)
        x[i] -= (float)rate * g[i];
    return gw_sync_model(s, x);
}

static gw_status stream_body(gw_comm *c, void *arg)
{
    const trial *run = arg;
    const stream *of = run->stream;
    float g[N], x[N] = {0};
    int noticed = 0;
    gw_sync *s;

    PASS_ON(make_sync(&s, c, run->spec));
    PASS_ON(gw_sync_start(s, x));
    size_t before = 0;
    for (int t = 1; t <= STEPS && !noticed; t++) {
        PASS_ON(step(s, of, t, gw_comm_rank(c), g, x));
        noticed = health_of(s).runs_away ? t : 0;
        before = t == 1 ? gwi_alloc_count() : before;
    }
    gw_health h = health_of(s);
    size_t allocated = gwi_alloc_count() - before;
    gw_sync_free(s);
    REQUIRE(allocated == 0, "%s: %zu allocations in steps", run->spec, allocated);
    REQUIRE((noticed != 0) == (of->away != 0) && noticed <= of->away,
            "%s, %s: noticed in step %d, not up to %d: %s", run->spec, of->name,
            noticed, of->away, h.warning);
    REQUIRE((h.warning[0] != '\0') == (noticed != 0), "'%s'", h.warning);
    REQUIRE(noticed == 0 || strstr(h.warning, "lower the learning rate") != NULL, "%s",
            h.warning);
    return GW_OK;
}

static const char *const specs[] = {
    "topk:0.05",
    "gtopk:0.01",
    "drop:0.95",
    "randk:0.1",
    "sign",
    "topk:0.05,warmup=20+q:4",
    "gtopk:0.01,warmup=64+momentum:0.9",
    "topk:0.05+momentum:0.9,velocity=local",
    "update+topk:0.05",
    "local:2+gtopk:0.05",
    "topk:0.999",
    "dense",
    "topk:0.05,residual=off",
};
enum { SPECS = sizeof specs / sizeof *specs, WITHOUT_RESIDUAL = 2 };

static void run_trials(const stream *streams, size_t count, size_t spec_count,
                       int workers)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < spec_count; k++) {
            trial t = {specs[k], &streams[i]};
            assert_run_ok(ranks_run(RANKS_THREADS, workers, stream_body, &t));
        }
}

static void test_is_silent_in_health(void **state)
{
    static const stream streams[] = {
        {.name = "steady", .length = steady},
        {.name = "steady, told", .length = steady, .told = true},
        {.name = "twice in 100", .length = twice_in_100_steps},
        {.name = "noisy", .length = noisy},
        {.name = "spikes", .length = with_spikes},
        {.name = "dying", .length = dying},
        {.name = "nothing at last", .length = nothing_at_last},
        {.name = "nothing at first", .length = nothing_at_first},
        {.name = "warm-up", .length = steady, .rate = warm_up, .told = true},
        {.name = "falling", .length = steady, .rate = falling, .told = true},
        {.name = "falling, not told", .length = steady, .rate = falling},
        {.name = "thin at first", .length = steady, .thin = 200},
    };

    (void)state;
    run_trials(streams, sizeof streams / sizeof *streams, SPECS, 1);
}

static void test_speaks_up_when_it_grows(void **state)
{
    static const stream streams[] = {
        {.name = "twice in 10", .length = twice_in_10_steps, .away = 256},
        {.name = "bursts", .length = bursts_after_300, .away = 512},
        {.name = "bursts, told",
         .length = bursts_after_300,
         .rate = warm_up,
         .told = true,
         .away = 512},
    };

    (void)state;
    /* topk:0.999 leaves nearly nothing behind, and what runs away is sent. */
    run_trials(streams, sizeof streams / sizeof *streams, SPECS - 1 - WITHOUT_RESIDUAL,
               2);
}

/* Between two measurements: what was not sent still tells of it. */
static void test_remembers_a_burst(void **state)
{
    static const stream of = {.name = "burst", .length = bursts_and_dies, .away = 192};
    trial t = {"gtopk:0.01", &of};

    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, stream_body, &t));
}

/* A gradient in pieces has the health of one in a vector. */
static gw_status pieces_body(gw_comm *c, void *arg)
{
    static const stream of = {.name = "steady", .length = steady};
    float g[N], same[N];
    gw_sync *s, *other;

    (void)arg;
    PASS_ON(make_sync(&s, c, "gtopk:0.01"));
    PASS_ON(make_sync(&other, c, "gtopk:0.01"));
    for (int t = 1; t <= 64; t++) {
        make_gradient(g, &of, t, gw_comm_rank(c));
        memcpy(same, g, sizeof g);
        gw_piece pieces[] = {{same, 150}, {same + 150, N - 150}};
        PASS_ON(gw_sync_gradient(s, g));
        PASS_ON(gw_sync_gradient_pieces(other, pieces, 2));
    }
    gw_health a = health_of(s), b = health_of(other);
    double residual = gw_sync_residual_norm(s);
    gw_sync_free(s);
    gw_sync_free(other);
    REQUIRE(a.step == 64 && a.since == 32 && a.growth > 0 && a.vector_norm > 0,
            "step %d, since %d, growth %g, vector %g", (int)a.step, (int)a.since,
            a.growth, a.vector_norm);
    REQUIRE(a.residual_norm == residual, "%g is not %g", a.residual_norm, residual);
    REQUIRE(fabs(a.vector_norm - b.vector_norm) < 1e-9 * a.vector_norm &&
                a.residual_norm == b.residual_norm && a.growth == b.growth,
            "%g %g, in pieces %g %g", a.vector_norm, a.residual_norm, b.vector_norm,
            b.residual_norm);
    return GW_OK;
}

static void test_measures_pieces(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, pieces_body, NULL));
}

/* A saved state does not say how it came to be: who loads it has no opinion. */
static gw_status load_body(gw_comm *c, void *arg)
{
    static const stream of = {.name = "grows", .length = twice_in_10_steps};
    uint8_t saved[8192];
    const void *states[] = {saved};
    float g[N];
    gw_sync *s;

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.05"));
    for (int t = 1; t <= 256; t++) {
        make_gradient(g, &of, t, 0);
        PASS_ON(gw_sync_gradient(s, g));
    }
    size_t len = gw_sync_state_len(s);
    REQUIRE(health_of(s).runs_away, "it does not run away");
    PASS_ON(gw_sync_save(s, saved, sizeof saved));
    PASS_ON(gw_sync_load(s, states, &len, 1));
    gw_health h = health_of(s);
    gw_sync_free(s);
    REQUIRE(!h.runs_away && h.step == 0 && h.warning[0] == '\0', "it knows still");
    return GW_OK;
}

static void test_begins_anew_with_a_state(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, load_body, NULL));
}

static gw_status struct_body(gw_comm *c, void *arg)
{
    struct {
        gw_health known;
        double later;
    } longer = {.known.struct_size = sizeof longer, .later = 1};
    gw_health h = {.struct_size = sizeof h - 1};
    gw_sync *s;

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.05"));
    gw_status st = gw_sync_health(s, &h), none = gw_sync_health(s, NULL);
    PASS_ON(gw_sync_health(s, &longer.known));
    gw_sync_free(s);
    REQUIRE(st == GW_ERR_ARG && none == GW_ERR_ARG, "%d, %d", st, none);
    REQUIRE(longer.known.struct_size == sizeof h && longer.later == 0, "%zu, %g",
            longer.known.struct_size, longer.later);
    return GW_OK;
}

static void test_knows_the_struct(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, struct_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_silent_in_health),
        cmocka_unit_test(test_speaks_up_when_it_grows),
        cmocka_unit_test(test_remembers_a_burst),
        cmocka_unit_test(test_measures_pieces),
        cmocka_unit_test(test_begins_anew_with_a_state),
        cmocka_unit_test(test_knows_the_struct),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
