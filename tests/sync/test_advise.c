/* SPDX-License-Identifier: Apache-2.0
 *
 * test_advise.c - which spec is taken with which optimizer. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "support_model.h"

typedef struct advised {
    const char *asked;
    gw_optimizer_info optimizer;
    const char *spec; /* NULL: the one that was asked for */
    int takes_momentum;
    const char *warning; /* a part of it; NULL: there is none */
} advised;

#define SGD(...)                                                            \
    {                                                                       \
        .struct_size = sizeof(gw_optimizer_info), .workers = 4, __VA_ARGS__ \
    }
#define ADAPTIVE(...)                                                          \
    {                                                                          \
        .struct_size = sizeof(gw_optimizer_info), .workers = 4, .adaptive = 1, \
        __VA_ARGS__                                                            \
    }
#define MANY                                                                    \
    {                                                                           \
        .struct_size = sizeof(gw_optimizer_info), .workers = 9, .momentum = 0.9 \
    }
#define ADAM    ADAPTIVE(.beta1 = 0.9)
#define RMSPROP ADAPTIVE(.beta1 = 0)
#define ADAM_OF_8                                                              \
    {                                                                          \
        .struct_size = sizeof(gw_optimizer_info), .workers = 8, .adaptive = 1, \
        .beta1 = 0.9                                                           \
    }

#define MOVED "+momentum:0.6,dampening=0.6"

static const advised table[] = {
    {"dense", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"dense", ADAM, NULL, 0, NULL},
    {"qsgd:4", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"qsgd:4", ADAM, NULL, 0, NULL},
    {"local:8", ADAM, NULL, 0, NULL},
    {"local:8+topk:0.01", ADAM, NULL, 0, NULL},
    {"topk:0.01", SGD(.momentum = 0.9), "topk:0.01,warmup=64,ladder=64+momentum:0.9", 1,
     NULL},
    {"topk:0.01,warmup=0", SGD(.momentum = 0.9), "topk:0.01,warmup=0+momentum:0.9", 1,
     NULL},
    {"topk:0.01,ladder=8", SGD(.momentum = 0.9), "topk:0.01,ladder=8+momentum:0.9", 1,
     NULL},
    {"gtopk:0.01+q:4", SGD(.momentum = 0.9, .nesterov = 1),
     "gtopk:0.01,warmup=64,ladder=64,putback=keep+q:4+momentum:0.9,nesterov=on", 1,
     NULL},
    {"topk:0.01", SGD(.momentum = 0.8, .nesterov = 1),
     "topk:0.01,warmup=64,ladder=64+momentum:0.8,nesterov=on", 1, NULL},
    {"drop:0.99,warmup=9", SGD(.momentum = 0.9, .nesterov = 1),
     "drop:0.99,warmup=9+momentum:0.9,nesterov=on", 1, NULL},
    {"dense", SGD(.momentum = 0.9, .nesterov = 1), NULL, 0, NULL},
    {"topk:0.01+check:100", SGD(.momentum = 0.9),
     "topk:0.01,warmup=64,ladder=64+momentum:0.9+check:100", 1, NULL},
    {"gtopk:0.01+q:4+check:0", SGD(.momentum = 0.9),
     "gtopk:0.01,warmup=64,ladder=64,putback=keep+q:4+momentum:0.9+check:0", 1, NULL},
    {"topk:0.01+check:100", ADAM,
     "update:scale=auto+topk:0.01,warmup=64,ladder=64+momentum:0.6,dampening=0.6+check:"
     "100",
     0, NULL},
    {"gtopk:0.01,putback=own", SGD(.momentum = 0.9),
     "gtopk:0.01,putback=own,warmup=64,ladder=64+momentum:0.9", 1, NULL},
    {"drop:0.99", SGD(.momentum = 0.5, .dampening = 0.1),
     "drop:0.99,warmup=64,ladder=64+momentum:0.5,dampening=0.1", 1, NULL},
    /* Lists that go to all would make the ladder dear; merges do not. */
    {"topk:0.01", MANY, "topk:0.01,warmup=64+momentum:0.9", 1, NULL},
    {"gtopk:0.01", MANY, "gtopk:0.01,warmup=64,ladder=64,putback=keep+momentum:0.9", 1,
     NULL},
    {"topk:0.01", SGD(.momentum = 0), NULL, 0, NULL},
    {"topk:0.01+momentum:0.8", SGD(.momentum = 0), NULL, 0, NULL},
    {"topk:0.01+momentum:0.8", SGD(.momentum = 0.9), NULL, 0, "both have momentum"},
    {"topk:1", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"topk:0.01,residual=off", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"demo", SGD(.momentum = 0), NULL, 0, NULL},
    {"demo", SGD(.momentum = 0.9, .nesterov = 1), NULL, 0, "momentum of its own"},
    {"distro", ADAM, NULL, 0, "results are signs"},
    {"demo:update=mean", ADAM, NULL, 0, NULL},
    {"topk:0.01", ADAM, "update:scale=auto+topk:0.01,warmup=64,ladder=64" MOVED, 0,
     NULL},
    {"topk:0.01", ADAPTIVE(.beta1 = 0.75),
     "update:scale=auto+topk:0.01,warmup=64,ladder=64+momentum:0.5,dampening=0.5", 0,
     NULL},
    {"topk:0.01", RMSPROP, "update:scale=auto+topk:0.01,warmup=64,ladder=64", 0, NULL},
    {"drop:0.99+check:0", RMSPROP,
     "update:scale=auto+drop:0.99,warmup=64,ladder=64+check:0", 0, NULL},
    {"topk:0.01,warmup=100", ADAM, "update:scale=auto+topk:0.01,warmup=100" MOVED, 0,
     NULL},
    {"topk:0.01,ladder=8", ADAM, "update:scale=auto+topk:0.01,ladder=8" MOVED, 0, NULL},
    {"gtopk:0.01+bf16", ADAM,
     "update:scale=auto+gtopk:0.01,warmup=64,ladder=64+bf16" MOVED, 0, NULL},
    {"gtopk:0.001", ADAM, "update:scale=auto+gtopk:0.001,warmup=64,ladder=64" MOVED, 0,
     "so low a density"},
    {"gtopk:0.001", SGD(.momentum = 0.9),
     "gtopk:0.001,warmup=64,ladder=64,putback=keep+momentum:0.9", 1,
     "so low a density"},
    {"a2sgd", SGD(.momentum = 0.9), NULL, 0, "diverge with momentum"},
    {"a2sgd:resync=8", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"randk:0.01", SGD(.momentum = 0.9), NULL, 0, "diverged"},
    {"randk:0.01", SGD(.momentum = 0), NULL, 0, NULL},
    {"randk:1", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"randk:0.01+ef21", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"randk:0.01,residual=off", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"lowrank:4", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"sign", SGD(.momentum = 0.9), NULL, 0, "signs of gradients"},
    {"sign:2048,residual=off", ADAM, NULL, 0, "signs of gradients"},
    {"sign", SGD(.momentum = 0), NULL, 0, NULL},
    {"qsgd:2,norm=l2", SGD(.momentum = 0.9), NULL, 0, "this coarse"},
    {"qsgd:3,norm=l2,code=entropy", ADAM, NULL, 0, "this coarse"},
    {"qsgd:2", SGD(.momentum = 0.9), NULL, 0, "this coarse"},
    {"qsgd:2", SGD(.momentum = 0), NULL, 0, NULL},
    {"qsgd:3", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"qsgd:4,norm=l2", ADAM, NULL, 0, NULL},
    {"pqasgd:2,4", ADAM, NULL, 0, NULL},
    {"local:4+randk:0.01", SGD(.momentum = 0.9), NULL, 0, NULL},
    /* Known to lose more than a point. */
    {"topk:0.0039+ef21", SGD(.momentum = 0.9), NULL, 0, "without '+ef21'"},
    {"topk:0.01+ef21", ADAM, NULL, 0, "without '+ef21'"},
    {"topk:0.01+ef21", SGD(.momentum = 0), NULL, 0, "without '+ef21'"},
    {"topk:0.1+ef21", SGD(.momentum = 0.9), NULL, 0, NULL},
    {"lowrank:1", SGD(.momentum = 0.9), NULL, 0, "take 'topk:0.01'"},
    {"lowrank:1", ADAM, NULL, 0, "take 'topk:0.01'"},
    {"lowrank:1", SGD(.momentum = 0), NULL, 0, NULL},
    {"local:100", SGD(.momentum = 0.9), NULL, 0, "so long a period"},
    {"local:30", SGD(.momentum = 0), NULL, 0, "so long a period"},
    {"local:29", ADAM, NULL, 0, NULL},
    {"local:grow", ADAM_OF_8, NULL, 0, NULL},
    {"local:8", ADAM_OF_8, NULL, 0, "take 'local:3'"},
    {"local:7", ADAM_OF_8, NULL, 0, NULL},
    {"local:8", MANY, NULL, 0, NULL},
    {"diloco:30", ADAM, NULL, 0, "add start=N,"},
    {"diloco:30", ADAPTIVE(.steps = 600), NULL, 0, "add start=60,"},
    {"diloco:30", SGD(.momentum = 0.9), NULL, 0, "add start=N,"},
    {"diloco:30,fragments=2", ADAM, NULL, 0, "add start=N,"},
    {"diloco:30,start=60", ADAM, NULL, 0, NULL},
    {"diloco:30,start=0", ADAM, NULL, 0, NULL},
    {"diloco:30", SGD(.momentum = 0), NULL, 0, NULL},
    {"diloco:9", ADAM, NULL, 0, NULL},
    {"sparseloco:30", ADAM, NULL, 0, NULL},
    /* Momentum moves all the same; changes of the model cannot be late. */
    {"topk:0.01,delay=1", SGD(.momentum = 0.9),
     "topk:0.01,delay=1,warmup=64,ladder=64+momentum:0.9", 1, "leave out delay=1"},
    {"gtopk:0.001,delay=1", ADAM, NULL, 0, "take the same without delay"},
    {"topk:0.01,delay=1", RMSPROP, NULL, 0, "take the same without delay"},
    {"topk:0.01,delay=1", SGD(.momentum = 0), NULL, 0, NULL},
    {"topk:0.01,delay=1+momentum:0.6,dampening=0.6", ADAM, NULL, 0, NULL},
    {"dense:delay=1", SGD(.momentum = 0.9), NULL, 0, "leave out delay=1"},
    {"dense:delay=1", ADAM, NULL, 0, NULL},
    /* Runs that end before the density is reached. */
    {"topk:0.01", SGD(.momentum = 0.9, .steps = 256),
     "topk:0.01,warmup=64,ladder=64+momentum:0.9", 1, "the first 256 steps"},
    {"topk:0.01", SGD(.momentum = 0.9, .steps = 257),
     "topk:0.01,warmup=64,ladder=64+momentum:0.9", 1, NULL},
    {"gtopk:0.001,warmup=9", ADAPTIVE(.beta1 = 0, .steps = 9),
     "update:scale=auto+gtopk:0.001,warmup=9", 0, "so low a density"},
    {"gtopk:0.01,warmup=9", ADAPTIVE(.beta1 = 0, .steps = 9),
     "update:scale=auto+gtopk:0.01,warmup=9", 0, "the first 9 steps"},
    {"topk:0.01", SGD(.momentum = 0, .steps = 1), NULL, 0, NULL},
    {"dense", SGD(.momentum = 0.9, .steps = 1), NULL, 0, NULL},
};

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const advised *t = &table[i];
        gw_advice a = {.struct_size = sizeof a};
        assert_run_ok(gw_spec_advise(t->asked, &t->optimizer, &a));
        assert_string_equal(a.spec, t->spec != NULL ? t->spec : t->asked);
        assert_int_equal(a.takes_momentum, t->takes_momentum);
        assert_int_equal(a.reason[0] != '\0',
                         t->spec != NULL && strcmp(t->spec, t->asked) != 0);
        if (t->warning == NULL)
            assert_string_equal(a.warning, "");
        else if (strstr(a.warning, t->warning) == NULL)
            fail_msg("%s: '%s' lacks '%s'", t->asked, a.warning, t->warning);
        assert_run_ok(gw_spec_check(a.spec, NULL, 0));
    }
}

/* Advice is taken once: what it gives needs none. */
static void test_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        gw_optimizer_info optimizer = table[i].optimizer;
        gw_advice first = {.struct_size = sizeof first}, second = first;
        assert_run_ok(gw_spec_advise(table[i].asked, &optimizer, &first));
        optimizer.momentum = first.takes_momentum ? 0 : optimizer.momentum;
        assert_run_ok(gw_spec_advise(first.spec, &optimizer, &second));
        assert_string_equal(first.spec, second.spec);
        assert_string_equal(second.reason, "");
    }
}

/* ---- what is measured ---------------------------------------------------------- */

/* Workers make changes of length 1 that have nothing in common, or that are the same:
 * the scale goes to the root of their number, or stays at 1. */
typedef struct noise {
    bool common;
    double scale;
} noise;

static gw_status noise_body(gw_comm *c, void *arg)
{
    const noise *job = arg;
    float x[MODEL_FLOATS] = {0}, g[MODEL_FLOATS] = {0};
    gw_sync *s;

    PASS_ON(model_sync(&s, c, "update:scale=auto", GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 0; t < 64; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        /* More than the root of the number of workers is never measured. */
        REQUIRE(gw_sync_scale(s) >= 1 && gw_sync_scale(s) <= 2, "a scale of %g",
                gw_sync_scale(s));
        x[job->common ? 0 : gw_comm_rank(c)] += 1;
        PASS_ON(gw_sync_model(s, x));
    }
    PASS_ON(gw_sync_gradient(s, g));
    double scale = gw_sync_scale(s);
    PASS_ON(gw_sync_model(s, x));
    gw_sync_free(s);
    REQUIRE(fabs(scale - job->scale) < 1e-3, "a scale of %g, not %g", scale,
            job->scale);
    return GW_OK;
}

static void test_measured(void **state)
{
    noise jobs[] = {{true, 1}, {false, 2}};

    (void)state;
    for (size_t i = 0; i < 2; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 4, noise_body, &jobs[i]));
}

/* ---- momentum of changes ------------------------------------------------------- */

typedef struct moving {
    const char *spec;
    int start;
    double momentum;
} moving;

static gw_status moving_body(gw_comm *c, void *arg)
{
    const moving *job = arg;
    float x[MODEL_FLOATS] = {0}, g[MODEL_FLOATS] = {1};
    gw_sync *s;

    PASS_ON(model_sync(&s, c, job->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 4; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        double momentum = gw_sync_momentum(s);
        REQUIRE(momentum == (t > job->start ? job->momentum : 0), "%s, step %d: %g",
                job->spec, t, momentum);
        PASS_ON(gw_sync_model(s, x));
    }
    gw_sync_free(s);
    return GW_OK;
}

/* An optimizer lends momentum only while changes are exchanged, not to gradients. */
static void test_momentum(void **state)
{
    moving jobs[] = {{"update:2+topk:0.5+momentum:0.6", 2, 0.6},
                     {"update+topk:0.5,warmup=2+momentum:0.6", 0, 0.6},
                     {"update+topk:0.5", 0, 0},
                     {"topk:0.5+momentum:0.6", 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        assert_run_ok(ranks_run(RANKS_THREADS, 2, moving_body, &jobs[i]));
}

/* ---- what becomes of a worker's own step -------------------------------------- */

enum { N = MODEL_FLOATS };

typedef struct scaled {
    const char *spec;
    int start; /* gradients are averaged in so many steps */
    double scale;
} scaled;

static const scaled changes[] = {
    {"update:start=3,scale=2", 3, 2},
    {"update:start=0,scale=1.5+topk:0.5", 0, 1.5},
    {"update:start=2,scale=0.25", 2, 0.25},
    {"update:start=2", 2, 1},
    {"update:start=2,scale=auto", 2, 1},
    {"local:2", 0, 1},
    {"dense", 0, 1},
};

/* All workers subtract the same from all parameters, which is applied `scale` times,
 * wherever it is. Their changes do not cancel, so that a measured scale is 1. */
static gw_status watch_scale(gw_comm *c, gw_sync *s, const scaled *job, float *x)
{
    float g[N] = {0};
    double applied = 0, sum = 0;

    PASS_ON(gw_sync_start(s, x));
    for (size_t i = 0; i < N; i++)
        sum += (double)x[i];
    for (int t = 1; t <= 8; t++) {
        PASS_ON(gw_sync_gradient(s, g));
        double scale = gw_sync_scale(s);
        REQUIRE(scale == (t > job->start ? job->scale : 1), "%s, step %d: %g",
                job->spec, t, scale);
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.5f;
        applied += 0.5 * scale * N;
        PASS_ON(gw_sync_model(s, x));
    }
    for (size_t i = 0; i < N; i++)
        sum -= (double)x[i];
    /* What topk has not sent yet is half of a step or two. */
    double late = strstr(job->spec, "topk") != NULL ? job->scale * N : 0;
    REQUIRE(sum <= applied + 1e-2 && sum >= applied - late - 1e-2,
            "%s: %g went off, not %g", job->spec, sum, applied);
    (void)c;
    return GW_OK;
}

static gw_status scale_body(gw_comm *c, void *arg)
{
    const scaled *job = arg;
    float x[N] = {0};
    gw_sync *s;

    PASS_ON(model_sync(&s, c, job->spec, GW_NONFINITE_STOP));
    gw_status st = watch_scale(c, s, job, x);
    gw_sync_free(s);
    return st;
}

static void test_scale(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        scaled job = changes[i];
        assert_run_ok(ranks_run(RANKS_THREADS, 2, scale_body, &job));
    }
}

/* A caller that was built before `steps` was added gives a shorter struct. */
static void test_shorter(void **state)
{
    gw_optimizer_info sgd = SGD(.momentum = 0.9, .steps = 1);
    gw_advice a = {.struct_size = sizeof a};

    (void)state;
    sgd.struct_size = offsetof(gw_optimizer_info, steps);
    assert_run_ok(gw_spec_advise("topk:0.01", &sgd, &a));
    assert_int_equal(a.takes_momentum, 1);
    assert_string_equal(a.warning, "");
    sgd.struct_size--;
    assert_int_equal(gw_spec_advise("topk:0.01", &sgd, &a), GW_ERR_ARG);
    sgd.struct_size = sizeof sgd + 1;
    assert_int_equal(gw_spec_advise("topk:0.01", &sgd, &a), GW_ERR_ARG);
}

static void test_mistakes(void **state)
{
    gw_optimizer_info sgd = SGD(.momentum = 0.9);
    gw_advice a = {.struct_size = sizeof a};

    (void)state;
    assert_int_equal(gw_spec_advise("topk", &sgd, &a), GW_ERR_SPEC);
    assert_int_equal(gw_spec_advise("topk:0.1", NULL, &a), GW_ERR_ARG);
    assert_int_equal(gw_spec_advise("topk:0.1", &sgd, NULL), GW_ERR_ARG);
    sgd.momentum = 1;
    assert_int_equal(gw_spec_advise("topk:0.1", &sgd, &a), GW_ERR_ARG);
    sgd.momentum = 0;
    sgd.workers = 0;
    assert_int_equal(gw_spec_advise("topk:0.1", &sgd, &a), GW_ERR_ARG);
    sgd.workers = 4;
    sgd.beta1 = 1;
    assert_int_equal(gw_spec_advise("topk:0.1", &sgd, &a), GW_ERR_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),    cmocka_unit_test(test_again),
        cmocka_unit_test(test_scale),    cmocka_unit_test(test_measured),
        cmocka_unit_test(test_momentum), cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_shorter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
