/* SPDX-License-Identifier: Apache-2.0
 *
 * test_corruption.c - one bit of one message is turned over on its way, for every spec
 * and every collective: somebody fails, or the result is what it should be. Never does
 * a run end well with another model. */
#define _GNU_SOURCE
#include "comm.h"
#include "support_conform.h"
#include "support_model.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 3, STEPS = 5, FLIPS = 5, N = MODEL_FLOATS };

/* ---- a transport that turns a bit over ---------------------------------- */

/* Around another comm's transport. What a request is for is kept in its last words,
 * which the local transport does not use. */
typedef struct flipper {
    gw_comm *inner;
    uint64_t victim; /* number of the message received that is to be damaged */
    uint64_t seen;   /* messages received so far that are not empty */
    uint64_t random; /* which bit */
    int *damaged;    /* set when it has happened */
} flipper;

static gw_status flip_send(void *ctx, int to, const void *buf, size_t len,
                           gw_request *req)
{
    flipper *f = ctx;

    return f->inner->table.send(f->inner->ctx, to, buf, len, req);
}

typedef struct flip_post {
    gw_request *request;
    uint8_t *buf;
} flip_post;

static _Thread_local flip_post posts[GWI_MAX_OPS];

static flip_post *post_of(const gw_request *req)
{
    size_t i = 0;

    while (posts[i].request != req && posts[i].request != NULL)
        i++;
    return &posts[i];
}

static gw_status flip_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    flipper *f = ctx;

    *post_of(req) = (flip_post){req, buf};
    return f->inner->table.recv(f->inner->ctx, from, buf, cap, req);
}

static gw_status flip_test(void *ctx, gw_request *req, size_t *len)
{
    flipper *f = ctx;
    flip_post *p = post_of(req);
    gw_status st = f->inner->table.test(f->inner->ctx, req, len);

    if (st != GW_OK || p->request == NULL)
        return st;
    uint8_t *buf = p->buf;
    if (*len > 0 && buf != NULL && ++f->seen == f->victim) {
        size_t bit = f->random % (8 * *len);
        buf[bit / 8] ^= (uint8_t)(1u << bit % 8);
        *f->damaged = 1;
    }
    p->buf = NULL; /* the next use of this request may be a send */
    return st;
}

static gw_status flip_wait(void *ctx, double seconds)
{
    flipper *f = ctx;

    return f->inner->table.wait(f->inner->ctx, seconds);
}

static void flip_abort(void *ctx, const char *reason)
{
    flipper *f = ctx;

    f->inner->table.abort(f->inner->ctx, reason);
}

static int flip_lost(void *ctx)
{
    flipper *f = ctx;

    return f->inner->table.lost(f->inner->ctx);
}

static const gw_transport flip_table = {.struct_size = sizeof(gw_transport),
                                        .name = "flipping",
                                        .send = flip_send,
                                        .recv = flip_recv,
                                        .test = flip_test,
                                        .wait = flip_wait,
                                        .lost = flip_lost,
                                        .abort = flip_abort};

/* ---- a training --------------------------------------------------------- */

typedef struct scene {
    const char *spec; /* NULL: collectives alone */
    int victim_rank;
    uint64_t victim, random;
    int damaged;
    uint64_t seen[WORKERS];    /* messages that each worker received */
    uint64_t digests[WORKERS]; /* of the models in the end */
} scene;

static gw_status train(gw_comm *c, const char *spec, float *x, float *g)
{
    gw_sync *s;

    PASS_ON(model_sync(&s, c, spec, GW_NONFINITE_STOP));
    gw_status st = gw_sync_start(s, x);
    for (int t = 1; st == GW_OK && t <= STEPS; t++) {
        model_gradient(g, x, gw_comm_rank(c), t);
        st = gw_sync_gradient(s, g);
        for (size_t i = 0; st == GW_OK && i < N; i++)
            x[i] -= 0.1f * g[i];
        if (st == GW_OK)
            st = gw_sync_model(s, x);
    }
    if (st == GW_OK)
        st = gw_sync_finish(s, x);
    gw_sync_free(s);
    return st;
}

/* The collectives that callers have for themselves; x holds a digest afterwards. */
static gw_status collect(gw_comm *c, float *x)
{
    enum { LONG = 60000, CAP = 3000 };
    static _Thread_local float v[LONG];
    static _Thread_local uint8_t slots[WORKERS * CAP];
    size_t lens[WORKERS];

    for (size_t i = 0; i < LONG; i++)
        v[i] = test_float((uint64_t)gw_comm_rank(c), i);
    PASS_ON(gw_allreduce(c, v, LONG));
    memcpy(x, v, 1000 * sizeof *x);
    PASS_ON(gw_broadcast(c, v, sizeof v, 1));
    memcpy(x + 1000, v + LONG - 500, 500 * sizeof *x);
    PASS_ON(gw_allgather(c, v, CAP, slots, CAP, lens));
    memcpy(x + 1500, slots, 2000);
    PASS_ON(gw_transfer(c, 2, v, 0, x + 2000, 1600));
    return gw_reduce_scatter(c, v, LONG);
}

static gw_status scene_body(gw_comm *inner, void *arg)
{
    scene *s = arg;
    int rank = gw_comm_rank(inner);
    flipper f = {.inner = inner,
                 .victim = rank == s->victim_rank ? s->victim : 0,
                 .random = s->random,
                 .damaged = &s->damaged};
    float *x = calloc(2 * N, sizeof *x);
    gw_comm *c;

    memset(posts, 0, sizeof posts);
    PASS_ON(gw_comm_new(&c, &flip_table, &f, rank, gw_comm_workers(inner), NULL));
    gw_status st = s->spec != NULL ? train(c, s->spec, x, x + N) : collect(c, x);
    if (st == GW_OK)
        st = gw_barrier(c);
    s->seen[rank] = f.seen;
    s->digests[rank] = model_digest(x);
    gw_comm_free(c);
    free(x);
    return st;
}

/* ---- tests -------------------------------------------------------------- */

static void flip_once(const scene *clean, uint64_t random)
{
    scene s = {.spec = clean->spec, .victim_rank = (int)(random % WORKERS)};

    s.victim = 1 + test_random(random, 1) % clean->seen[s.victim_rank];
    s.random = test_random(random, 2);
    gw_status st = ranks_run(RANKS_THREADS, WORKERS, scene_body, &s);
    if (!s.damaged)
        fail_msg("%s: message %llu never came", s.spec != NULL ? s.spec : "collectives",
                 (unsigned long long)s.victim);
    if (st == GW_OK && memcmp(s.digests, clean->digests, sizeof s.digests) != 0)
        fail_msg("%s: bit %llu of message %llu of worker %d makes another model, and "
                 "nobody says so",
                 s.spec != NULL ? s.spec : "collectives", (unsigned long long)s.random,
                 (unsigned long long)s.victim, s.victim_rank);
}

static void test_a_bit_turned_over(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i <= conform_spec_count; i++) {
        scene clean = {.victim_rank = -1};
        clean.spec = i < conform_spec_count ? conform_specs[i] : NULL;
        assert_run_ok(ranks_run(RANKS_THREADS, WORKERS, scene_body, &clean));
        for (uint64_t t = 0; clean.seen[0] > 0 && t < FLIPS; t++)
            flip_once(&clean, test_random(seed, 1000 * i + t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_bit_turned_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
