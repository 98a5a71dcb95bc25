/* SPDX-License-Identifier: Apache-2.0
 *
 * test_state.c - saved state on another number of workers, and damaged. That a run
 * resumed is the run not stopped is in test_conformance.c. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support_model.h"
#include "sync/state/memories.h"
#include "sync/sync.h"

enum { N = MODEL_FLOATS };

static gw_status step(gw_comm *c, gw_sync *s, float *x, float *g, int t)
{
    model_gradient(g, x, gw_comm_rank(c), t);
    PASS_ON(gw_sync_gradient(s, g));
    for (size_t i = 0; i < N; i++)
        x[i] -= 0.1f * g[i];
    return gw_sync_model(s, x);
}

/* ---- another number of workers ------------------------------------------ */

typedef struct move {
    const char *spec;
    int saved;       /* workers that saved */
    uint8_t *states; /* theirs */
    size_t len;
    double mass; /* sum of all residuals, then */
} move;

static gw_status sum_residuals(gw_comm *c, const gw_sync *s, double *mass)
{
    float sum = 0;

    /* An estimate is the mean of what workers have of it, and it does not change. */
    bool estimates = s->kept[GWI_ESTIMATE] != NULL;
    for (size_t i = 0; s->kept[GWI_RESIDUAL] != NULL && i < N; i++)
        sum += estimates ? (s->kept[GWI_LAST][i] - s->kept[GWI_RESIDUAL][i]) /
                               (float)gw_comm_workers(c)
                         : s->kept[GWI_RESIDUAL][i];
    PASS_ON(gw_allreduce(c, &sum, 1));
    *mass = (double)sum;
    return GW_OK;
}

static gw_status save_body(gw_comm *c, void *arg)
{
    move *m = arg;
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;
    double mass;

    PASS_ON(model_sync(&s, c, m->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= 3; t++)
        PASS_ON(step(c, s, x, x + N, t));
    PASS_ON(gw_sync_save(s, m->states + (size_t)gw_comm_rank(c) * m->len, m->len));
    PASS_ON(sum_residuals(c, s, &mass));
    if (gw_comm_rank(c) == 0)
        m->mass = mass;
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

/* States that come one after the other lead to the same as all at once. */
static gw_status same_one_by_one(gw_comm *c, const gw_sync *all, const move *m)
{
    uint8_t *states = malloc(2 * m->len);
    gw_sync *s;

    PASS_ON(model_sync(&s, c, m->spec, GW_NONFINITE_STOP));
    for (int r = 0; r < m->saved; r++) {
        int own = m->saved != gw_comm_workers(c) || r == gw_comm_rank(c);
        PASS_ON(gw_sync_load_one(s, own ? m->states + (size_t)r * m->len : NULL, m->len,
                                 (size_t)r, (size_t)m->saved));
    }
    REQUIRE(gw_sync_load_one(s, m->states, m->len, 4, 4) == GW_ERR_ARG, "state 4 of 4");
    PASS_ON(gw_sync_save(all, states, m->len));
    PASS_ON(gw_sync_save(s, states + m->len, m->len));
    REQUIRE(memcmp(states, states + m->len, m->len) == 0, "%s: differs", m->spec);
    gw_sync_free(s);
    free(states);
    return GW_OK;
}

/* What workers have in common is the same on all. */
static gw_status same_on_all(gw_comm *c, const gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *memory;

    while ((memory = gwi_next_memory(&s->spec, &walk)) != NULL) {
        size_t len = gwi_kept_floats(s, memory) * sizeof(float);
        if (memory->handing != GW_HANDING_COMMON)
            continue;
        float *first = malloc(len);
        memcpy(first, s->kept[memory->tag], len);
        PASS_ON(gw_broadcast(c, first, len, 0));
        REQUIRE(memcmp(first, s->kept[memory->tag], len) == 0, "%s differs",
                memory->name);
        free(first);
    }
    return GW_OK;
}

static gw_status load_body(gw_comm *c, void *arg)
{
    move *m = arg;
    float *x = calloc(2 * N, sizeof *x);
    const void *states[16];
    size_t lens[16];
    gw_sync *s;
    double mass;

    for (int r = 0; r < m->saved; r++) {
        states[r] = m->states + (size_t)r * m->len;
        lens[r] = m->len;
    }
    PASS_ON(model_sync(&s, c, m->spec, GW_NONFINITE_STOP));
    PASS_ON(gw_sync_load(s, states, lens, (size_t)m->saved));
    PASS_ON(sum_residuals(c, s, &mass));
    REQUIRE(fabs(mass - m->mass) < 1e-3 * (1 + fabs(m->mass)), "%s: %g became %g",
            m->spec, m->mass, mass);
    PASS_ON(same_one_by_one(c, s, m));
    PASS_ON(same_on_all(c, s));
    for (int t = 4; t <= 6; t++)
        PASS_ON(step(c, s, x, x + N, t));
    /* Compares the models. */
    PASS_ON(gw_sync_finish(s, x));
    gw_sync_free(s);
    free(x);
    return GW_OK;
}

static gw_status state_len_body(gw_comm *c, void *arg)
{
    move *m = arg;
    gw_sync *s;

    PASS_ON(model_sync(&s, c, m->spec, GW_NONFINITE_STOP));
    m->len = gw_sync_state_len(s);
    gw_sync_free(s);
    return GW_OK;
}

static void test_another_number_of_workers(void **state)
{
    static const char *const with[] = {
        "topk:0.02",
        "gtopk:0.02+q:4",
        "drop:0.95+1bit",
        "local:2+topk:0.05",
        "oktopk:0.02",
        "randk:0.05",
        "lowrank:1",
        "demo:0.02",
        "distro:0.02",
        "sparseloco:2,density=0.02",
        "sparta:0.05,resync=3+outer:0.7,0.9",
        "topk:0.02+momentum:0.9",
        "topk:0.02+q:4+ef21:0.5",
        "update:scale=auto+topk:0.05,warmup=2+momentum:0.6,dampening=0.6"};

    (void)state;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        move m = {.spec = with[i], .saved = 4};
        assert_run_ok(ranks_run(RANKS_THREADS, 1, state_len_body, &m));
        m.states = malloc(4 * m.len);
        assert_run_ok(ranks_run(RANKS_THREADS, 4, save_body, &m));
        for (int workers = 1; workers <= 8; workers++)
            assert_run_ok(ranks_run(RANKS_THREADS, workers, load_body, &m));
        free(m.states);
    }
}

/* ---- damaged states ----------------------------------------------------- */

/* A state changed on purpose is good again once it is sealed. */
static gw_status sealed(gw_sync *s, uint8_t *state, size_t len)
{
    const void *states[1] = {state};
    uint64_t step = state[24];

    state[24]++;
    REQUIRE(gw_sync_load(s, states, &len, 1) == GW_ERR_DATA, "loaded without a seal");
    PASS_ON(gw_state_seal(state, len));
    PASS_ON(gw_sync_load(s, states, &len, 1));
    REQUIRE(s->step == step + 1, "not the step that was written");
    REQUIRE(gw_state_seal(state, 16) == GW_ERR_DATA, "sealed what is too short");
    state[0] ^= 1;
    REQUIRE(gw_state_seal(state, len) == GW_ERR_DATA, "sealed what is no state");
    return GW_OK;
}

static gw_status damaged_body(gw_comm *c, void *arg)
{
    gw_sync *s, *t;

    (void)arg;
    PASS_ON(model_sync(&s, c, "topk:0.02", GW_NONFINITE_STOP));
    PASS_ON(model_sync(&t, c, "topk:0.03", GW_NONFINITE_STOP));
    size_t len = gw_sync_state_len(s);
    uint8_t *state = malloc(len);
    const void *states[1] = {state};
    REQUIRE(gw_sync_save(s, state, len - 1) == GW_ERR_SPACE, "saved into too little");
    PASS_ON(gw_sync_save(s, state, len));
    REQUIRE(gw_sync_load(t, states, &len, 1) == GW_ERR_DATA, "loaded another spec");
    for (size_t cut = 0; cut < len; cut += 97)
        REQUIRE(gw_sync_load(s, states, &cut, 1) == GW_ERR_DATA, "loaded %zu bytes",
                cut);
    for (size_t at = 0; at < len; at += 131) {
        state[at] ^= 4;
        REQUIRE(gw_sync_load(s, states, &len, 1) == GW_ERR_DATA, "loaded a flip at %zu",
                at);
        state[at] ^= 4;
    }
    PASS_ON(gw_sync_load(s, states, &len, 1));
    PASS_ON(sealed(s, state, len));
    free(state);
    gw_sync_free(s);
    gw_sync_free(t);
    return GW_OK;
}

static void test_damaged_states(void **state)
{
    (void)state;
    assert_run_ok(ranks_run(RANKS_THREADS, 1, damaged_body, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_number_of_workers),
        cmocka_unit_test(test_damaged_states),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
