/* SPDX-License-Identifier: Apache-2.0
 *
 * test_momentum.c - momentum before the selection: it is that of SGD where everything
 * is sent, and what waits keeps its worth while the learning rate changes. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <string.h>

#include "sync/sync.h"

enum { N = 300, STEPS = 12 };

static gw_status make_sync(gw_sync **sync, gw_comm *c, const char *spec)
{
    gw_tensor tensors[] = {{.name = "w", .rows = 28, .cols = 10},
                           {.name = "b", .offset = 280, .rows = 1, .cols = 20}};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, tensors, 2));
    gw_status st = gw_sync_new(sync, spec, layout, c, NULL);
    gw_layout_free(layout);
    return st;
}

static void make_gradient(float *g, int rank, int step)
{
    for (size_t i = 0; i < N; i++)
        g[i] = test_float((uint64_t)(100 * rank + step), i);
}

/* ---- that of SGD ------------------------------------------------------------- */

typedef struct rule {
    const char *spec; /* sends everything, by warm-up or because tensors are small */
    double momentum, dampening;
    bool nesterov;
} rule;

/* PyTorch's SGD on the average gradient, in double. */
static void apply_rule(const rule *r, double *u, const double *mean, int step,
                       double *out)
{
    for (size_t i = 0; i < N; i++) {
        double weight = step > 1 ? 1 - r->dampening : 1;
        u[i] = r->momentum * u[i] + weight * mean[i];
        out[i] = r->nesterov ? weight * mean[i] + r->momentum * u[i] : u[i];
    }
}

static void make_mean(double *mean, int workers, int step)
{
    float g[N];

    memset(mean, 0, N * sizeof *mean);
    for (int r = 0; r < workers; r++) {
        make_gradient(g, r, step);
        for (size_t i = 0; i < N; i++)
            mean[i] += (double)g[i] / workers;
    }
}

static gw_status rule_body(gw_comm *c, void *arg)
{
    const rule *r = arg;
    double u[N] = {0}, mean[N], want[N], far = 0;
    float g[N];
    gw_sync *s;

    PASS_ON(make_sync(&s, c, r->spec));
    for (int t = 1; t <= STEPS; t++) {
        make_gradient(g, gw_comm_rank(c), t);
        make_mean(mean, gw_comm_workers(c), t);
        apply_rule(r, u, mean, t, want);
        PASS_ON(gw_sync_gradient(s, g));
        for (size_t i = 0; i < N; i++)
            far += fabs((double)g[i] - want[i]) > 1e-5 * (1 + fabs(want[i]));
    }
    gw_sync_free(s);
    REQUIRE(far == 0, "%s: %g entries are not those of SGD", r->spec, far);
    return GW_OK;
}

static void test_is_that_of_sgd(void **state)
{
    static const rule rules[] = {
        {"topk:0.5,warmup=12+momentum:0.9", 0.9, 0, false},
        {"topk:0.5,warmup=12+momentum:0.9,velocity=local", 0.9, 0, false},
        {"gtopk:0.5,warmup=12+momentum:0.8,nesterov=on", 0.8, 0, true},
        {"drop:0.5,warmup=12+momentum:0.9,dampening=0.3", 0.9, 0.3, false},
        /* Small tensors are averaged whole in every step. */
        {"topk:0.5,dense_below=1000+momentum:0.9", 0.9, 0, false},
        {"topk:0.5,dense_below=1000+momentum:0.9,nesterov=on", 0.9, 0, true},
        {"topk:0.5,dense_below=1000+momentum:0.9,velocity=local", 0.9, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int workers = 1; workers <= 3; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, rule_body,
                                    (void *)(uintptr_t)&rules[i]));
}

/* ---- the learning rate ---------------------------------------------------------- */

static gw_status check_factor(const gw_sync *s, const float *before, float factor)
{
    for (size_t i = 0; i < N; i++)
        REQUIRE(s->kept[GWI_RESIDUAL][i] == factor * before[i], "%g is not %g times %g",
                (double)s->kept[GWI_RESIDUAL][i], (double)factor, (double)before[i]);
    return GW_OK;
}

static gw_status rate_body(gw_comm *c, void *arg)
{
    float g[N], before[N];
    gw_sync *s;

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.1+momentum:0.9"));
    PASS_ON(gw_sync_set_rate(s, 0.1));
    make_gradient(g, gw_comm_rank(c), 1);
    PASS_ON(gw_sync_gradient(s, g));
    memcpy(before, s->kept[GWI_RESIDUAL], sizeof before);
    PASS_ON(gw_sync_set_rate(s, 0.0995)); /* not worth a pass */
    PASS_ON(check_factor(s, before, 1));
    PASS_ON(gw_sync_set_rate(s, 0.05));
    PASS_ON(gw_sync_set_rate(s, 0)); /* nothing is worth anything */
    PASS_ON(check_factor(s, before, 2));
    PASS_ON(gw_sync_set_rate(s, 0.1));
    PASS_ON(check_factor(s, before, 1));
    gw_sync_free(s);
    return GW_OK;
}

static void test_rate(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 2, rate_body, NULL));
}

/* A run that is resumed knows for which rate its residual is. */
static gw_status resumed_body(gw_comm *c, void *arg)
{
    float g[N], other[N];
    gw_sync *s, *again;
    char state[8000];
    const void *states[1] = {state};

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.1+momentum:0.9"));
    PASS_ON(gw_sync_set_rate(s, 0.1));
    make_gradient(g, 0, 1);
    PASS_ON(gw_sync_gradient(s, g));
    size_t len = gw_sync_state_len(s);
    PASS_ON(gw_sync_save(s, state, sizeof state));
    PASS_ON(make_sync(&again, c, "topk:0.1+momentum:0.9"));
    PASS_ON(gw_sync_load(again, states, &len, 1));
    for (int t = 2; t < STEPS; t++) {
        make_gradient(g, 0, t);
        make_gradient(other, 0, t);
        PASS_ON(gw_sync_set_rate(s, 0.1 / t));
        PASS_ON(gw_sync_set_rate(again, 0.1 / t));
        PASS_ON(gw_sync_gradient(s, g));
        PASS_ON(gw_sync_gradient(again, other));
        REQUIRE(memcmp(g, other, sizeof g) == 0, "step %d is another", t);
    }
    gw_sync_free(s);
    gw_sync_free(again);
    return GW_OK;
}

static void test_resumed(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, resumed_body, NULL));
}

/* ---- clipping ----------------------------------------------------------------------
 */

/* A momentum of 0 clips all the same: what comes out is that of a clipped gradient. */
static gw_status clip_body(gw_comm *c, void *arg)
{
    const double most = 0.5;
    gw_sync *clips, *plain;
    float g[N], same[N];

    (void)arg;
    PASS_ON(make_sync(&clips, c, "topk:0.1+momentum:0,clip=0.5"));
    PASS_ON(make_sync(&plain, c, "topk:0.1"));
    for (int t = 1; t < STEPS; t++) {
        double sum = 0.0;
        make_gradient(g, 0, t);
        for (size_t i = 0; i < N; i++)
            sum += (double)g[i] * (double)g[i];
        REQUIRE(sum > most * most, "gradient %d is short", t);
        for (size_t i = 0; i < N; i++)
            same[i] = (float)((double)g[i] * most / sqrt(sum));
        PASS_ON(gw_sync_gradient(clips, g));
        PASS_ON(gw_sync_gradient(plain, same));
        for (size_t i = 0; i < N; i++)
            REQUIRE(fabs((double)(g[i] - same[i])) < 1e-6, "step %d, entry %zu: %g, %g",
                    t, i, (double)g[i], (double)same[i]);
    }
    gw_sync_free(clips);
    gw_sync_free(plain);
    return GW_OK;
}

static void test_clip_alone(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, clip_body, NULL));
}

/* ---- mistakes -----------------------------------------------------------------------
 */

static gw_status mistakes_body(gw_comm *c, void *arg)
{
    gw_sync *s;

    (void)arg;
    PASS_ON(make_sync(&s, c, "topk:0.1+momentum:0.9"));
    REQUIRE(gw_sync_set_rate(s, -1) == GW_ERR_ARG, "a rate of -1");
    REQUIRE(gw_sync_set_rate(s, (double)NAN) == GW_ERR_ARG, "a rate of NaN");
    REQUIRE(gw_sync_set_momentum(s, 0.5) == GW_OK, "a momentum of 0.5");
    REQUIRE(gw_sync_set_momentum(s, 1) == GW_ERR_ARG, "a momentum of 1");
    gw_sync_free(s);
    PASS_ON(make_sync(&s, c, "topk:0.1"));
    REQUIRE(gw_sync_set_rate(s, 0.1) == GW_OK, "others ignore it");
    REQUIRE(gw_sync_set_momentum(s, 0.5) == GW_ERR_ARG, "there is no momentum");
    gw_sync_free(s);
    return GW_OK;
}

static void test_mistakes(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, mistakes_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_that_of_sgd), cmocka_unit_test(test_rate),
        cmocka_unit_test(test_resumed),        cmocka_unit_test(test_clip_alone),
        cmocka_unit_test(test_mistakes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
