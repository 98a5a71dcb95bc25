/* SPDX-License-Identifier: Apache-2.0
 *
 * support_conform.c - what every sync promises, as bodies for any transport. */
#define _GNU_SOURCE
#include "support_conform.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_model.h"
#include "sync/beside/late.h"
#include "sync/beside/stream.h"
#include "sync/schedule.h"
#include "sync/sync.h"

const char *const conform_specs[] = {
    "dense",
    "none",
    "topk:0.02",
    "topk:0.02,residual=off",
    "topk:0.02,warmup=2",
    "topk:0.02,ladder=1",
    "topk:0.02,dense_below=100",
    "topk:0.02+bf16",
    "topk:0.02+q:4",
    "topk:0.02+1bit",
    "topk:0.02+2bit:centre=threshold",
    "topk:0.02+momentum:0.9,clip=1",
    "gtopk:0.02",
    "gtopk:0.02,putback=paper",
    "gtopk:0.02+q:4",
    "gtopk:0.02+2bit",
    "drop:0.95",
    "drop:0.95,threshold=tensor",
    "drop:0.95+1bit:centre=column",
    "drop:0.95+2bit",
    "qsgd:4",
    "qsgd:2,norm=l2,via=gather",
    "qsgd:8,norm=l2,residual=on",
    "qsgd:4,via=gather,residual=on",
    "qsgd:4,dense_below=100",
    "qsgd:8,residual=on,dense_below=100",
    "qsgd:4,via=gather,residual=on,dense_below=1000000",
    "topk:1,dense_below=100+q:4",
    "drop:0.95,threshold=tensor,dense_below=100",
    "dense+bf16",
    "a2sgd",
    "a2sgd:resync=2",
    "local:2",
    "local:grow,grow=4",
    "local:2,start=2",
    "local:1,average=polyak",
    "oneshot",
    "spa:3",
    "pqasgd:2,8",
    "local:2+topk:0.05",
    "local:2+gtopk:0.05+q:4",
    "local:2+drop:0.9+1bit",
    "randk:0.05",
    "randk:0.05,dense_below=100",
    "sign",
    "sign:64,via=gather,dense_below=100",
    "local:2+randk:0.1",
    "topk:0.02+momentum:0.9,velocity=local",
    "topk:0.02,dense_below=100+momentum:0.9,nesterov=on",
    "gtopk:0.02,putback=keep",
    "gtopk:0.02,warmup=2+momentum:0.9",
    "update:2+topk:0.05",
    "update:0,scale=1.5+gtopk:0.05+q:4",
    "topk:0.02+ef21",
    "topk:0.02,warmup=2,dense_below=100+ef21:0.5",
    "gtopk:0.02+q:4+ef21:0.3",
    "randk:0.05,dense_below=100+ef21",
    "dense+q:6+ef21",
    "local:2+topk:0.05+ef21",
    "sparta:0.05",
    "sparta:0.3,order=turns",
    "local:2+outer:0.7,0.9",
    "local:2,start=2+outer:0.7,0.9,nesterov=off",
    "local:1+outer:0.5,0",
    "local:2,average=polyak+outer:1.5,0.5",
    "local:2+topk:0.05+outer:0.7,0.9",
    "local:2+gtopk:0.05+q:4+outer:0.4,0",
    "diloco:2",
    "diloco:2,0.7,0.9+topk:0.05+2bit",
    "oktopk:0.02",
    "oktopk:0.02,dense_below=100+q:4",
    "oktopk:0.02+2bit+ef21",
    "local:2+oktopk:0.05+bf16",
    "lowrank:2",
    "lowrank:5,error=own,warmup=1",
    "lowrank:1,residual=off",
    "local:2+lowrank:1",
    "topk:0.02,tile=100",
    "topk:0.02,dense_below=100,tile=100+q:4",
    "topk:0.02,decay=0.9",
    "topk:0.1,combine=senders",
    "topk:0.05,tile=64+2bit:best",
    "sparseloco:2",
    "local:2+topk:0.05,tile=64,decay=0.9,combine=senders+1bit+outer",
    "demo",
    "demo:0.05,decay=0.9,chunk=5",
    "demo:0.1,update=mean,combine=all,dense_below=100",
    "distro:0.05",
    "distro:0.02,residual=off,update=mean",
    "topk:0.02,via=owner",
    "topk:0.05,tile=100,decay=0.9,via=auto+q:4",
    "update:scale=auto+topk:0.05,warmup=2+momentum:0.6,dampening=0.6",
    "update:2,scale=auto+gtopk:0.05,ladder=1+q:4",
    "local:2+topk:0.05,warmup=3",
    "adasum",
    "local:2+adasum",
    "dense:delay=1",
    "topk:0.02,delay=1,lead=0",
    "topk:0.02,warmup=2,delay=1+q:4+momentum:0.9",
    "drop:0.95,delay=1+ef21",
    "local:4,fragments=2",
    "local:3,fragments=2,mix=0.5",
    "diloco:4,fragments=2,delay=1",
    "local:4,fragments=2,delay=1,mix=0.5+outer:1.5,0",
    "local:3,delay=2+topk:0.05+q:4",
    "local:2,start=2,delay=1,mix=0.25+gtopk:0.05",
    "local:2,average=polyak,delay=1+topk:0.05,warmup=3",
    "sparseloco:3,fragments=3",
    "diloco:4,fragments=3,cut=tensors",
    "a2sgd:per=row",
    "a2sgd:resync=2,per=tensor,bucket=50",
    "gtopk:0.02,via=tree",
    "gtopk:0.02,via=pairs+q:4",
    "gtopk:0.02,putback=paper,via=pairs+2bit",
    "local:2+gtopk:0.05,putback=keep,via=pairs+q:4",
    "topk:0.02+2bit:centre=hivemind",
    "gtopk:0.05,via=pairs+2bit:centre=hivemind",
    "sparseloco:2,tile=256,centre=hivemind",
    "qsgd:2,norm=l2,code=entropy",
    "qsgd:4,residual=on,via=gather,code=entropy",
    "qsgd:8,residual=on,via=scatter,dense_below=100,code=entropy",
    "pqasgd:2,3,code=entropy",
    "topk:0.1+q:4,code=entropy",
    "gtopk:0.1+2bit:best,code=entropy",
    "gtopk:0.1,via=tree+q:3,code=entropy",
    "oktopk:0.2+q:3,code=entropy",
    "topk:0.2+1bit:centre=column,code=entropy",
    "sign:code=entropy",
    "sparseloco:2,0.1,tile=128,code=entropy",
    "sparta:0.05,resync=2",
    "sparta:0.05,order=turns,resync=3+outer:0.7,0.9",
    "adasum:delay=1",
    "demo:delay=1",
    "distro:0.05,update=mean,delay=1,lead=0",
};
const size_t conform_spec_count = sizeof conform_specs / sizeof *conform_specs;

/* Whether a spec of the list begins with the recipe. */
static bool is_listed(const char *recipe)
{
    size_t len = strlen(recipe);

    for (size_t i = 0; i < conform_spec_count; i++)
        if (strncmp(conform_specs[i], recipe, len) == 0 &&
            strcspn(conform_specs[i], ":+") == len)
            return true;
    return false;
}

const char *conform_spec(size_t i)
{
    size_t unlisted = conform_spec_count;
    const char *name;

    if (i < conform_spec_count)
        return conform_specs[i];
    for (size_t r = 0; (name = gw_recipe_name(r)) != NULL; r++)
        if (!is_listed(name) && unlisted++ == i)
            return gw_recipe_example(r);
    return NULL;
}

/* ---- a job that any sync can do ----------------------------------------- */

enum { N = MODEL_FLOATS };

typedef conform_job job;

static gw_status make_sync(gw_sync **sync, gw_comm *c, const job *j)
{
    return model_sync(sync, c, j->spec, j->nonfinite);
}

/* ---- conservation ------------------------------------------------------- */

/* Sums over the workers, of each coordinate, what went in and what came out. */
static gw_status check_conserved(gw_comm *c, const gw_sync *s, const float *before,
                                 const float *after)
{
    float *sums = malloc(2 * N * sizeof *sums);
    float *in = sums, *out = sums + N;
    gw_status st;

    memcpy(in, before, N * sizeof *in);
    for (size_t i = 0; i < N; i++)
        out[i] = s->kept[GWI_RESIDUAL][i] + after[i];
    st = gw_allreduce(c, sums, 2 * N);
    for (size_t i = 0; st == GW_OK && i < N; i++)
        if (fabsf(in[i] - out[i]) > 1e-4f * (1 + fabsf(in[i])))
            st =
                gw_fail(GW_ERR_DATA, "%s: %g went in and %g came out of coordinate %zu",
                        s->text, (double)in[i], (double)out[i], i);
    free(sums);
    return st;
}

/* In a step that is skipped; and in one that is not. */
static bool conserves_skipped(const gw_sync *s)
{
    bool momentum = s->spec.subject == GWI_GRADIENT && s->kept[GWI_VELOCITY] != NULL;

    return s->kept[GWI_RESIDUAL] != NULL && gwi_decay(&s->spec) == 1 && !momentum &&
           s->kept[GWI_ESTIMATE] == NULL && gwi_transform_of(&s->spec)->forward == NULL;
}

static bool conserves(const gw_sync *s)
{
    return conserves_skipped(s) && strstr(s->text, "putback=paper") == NULL &&
           strstr(s->text, "combine=senders") == NULL;
}

/* An estimate, which has the same bits on all workers, is the mean of what each worker
 * has of it: its last vector without its residual. */
static gw_status check_estimate(gw_comm *c, const gw_sync *s)
{
    const float *g = s->kept[GWI_ESTIMATE];
    float *mean = malloc(N * sizeof *mean), p = (float)gw_comm_workers(c);
    uint64_t own = model_digest(g), first = own;

    for (size_t i = 0; i < N; i++)
        mean[i] = (s->kept[GWI_LAST][i] - s->kept[GWI_RESIDUAL][i]) / p;
    gw_status st = gw_allreduce(c, mean, N);
    for (size_t i = 0; st == GW_OK && i < N; i++)
        if (fabsf(mean[i] - g[i]) > 1e-4f * (1 + fabsf(g[i])))
            st = gw_fail(GW_ERR_DATA, "%s: %g is not the mean %g in coordinate %zu",
                         s->text, (double)g[i], (double)mean[i], i);
    free(mean);
    PASS_ON(st);
    PASS_ON(gw_broadcast(c, &first, sizeof first, 0));
    REQUIRE(first == own, "%s: worker %d has other bits in its estimate", s->text,
            gw_comm_rank(c));
    return GW_OK;
}

/* ---- one step, with all that is checked in it --------------------------- */

/* Hands the gradient over in pieces of memory that lie apart, and takes it back. */
static gw_status by_pieces(gw_sync *s, float *g)
{
    size_t len[] = {1, N / 3, N - N / 3 - 1};
    float *apart[3], *at = g;
    gw_piece pieces[3];

    for (size_t i = 0; i < 3; at += len[i++]) {
        apart[i] = malloc(len[i] * sizeof *g);
        memcpy(apart[i], at, len[i] * sizeof *g);
        pieces[i] = (gw_piece){apart[i], len[i]};
    }
    gw_status st = gw_sync_gradient_pieces(s, pieces, 3);
    at = g;
    for (size_t i = 0; i < 3; at += len[i++]) {
        memcpy(at, apart[i], len[i] * sizeof *g);
        free(apart[i]);
    }
    return st;
}

static gw_status feed(gw_sync *s, float *g, const job *j)
{
    if (j->by_pieces)
        return by_pieces(s, g);
    for (size_t t = 3; j->by_parts && t-- > 0;)
        PASS_ON(gw_sync_gradient_part(s, g, t));
    return gw_sync_gradient(s, g);
}

/* A worker with a bad gradient leaves it out; nobody applies anything. One that found
 * the bad number only among what it had selected has taken the gradient in: but for the
 * bad number itself, which compares with nothing, that is in its residual. */
static gw_status check_skipped(gw_comm *c, const gw_sync *s, float *before,
                               const float *residual)
{
    float *nothing = calloc(N, sizeof *nothing);
    bool bad = gw_comm_rank(c) == gw_comm_workers(c) - 1 && !s->spoiled;
    gw_status st = check_conserved(c, s, bad ? residual : before, nothing);

    free(nothing);
    return st == GW_OK ? GW_SKIPPED : st;
}

/* What came of the exchange that began in this step. A late result is in the sync, and
 * its bad number will be told in the next step. */
static gw_status came_of(gw_sync *s, gw_status told, const float *g, float *out,
                         bool bad_step)
{
    bool late = s->late != NULL;

    if (late)
        PASS_ON(gwi_late_outcome(s));
    memcpy(out, late ? s->kept[GWI_PENDING] : g, N * sizeof *out);
    if (!late)
        return told;
    return bad_step ? GW_SKIPPED : GW_OK;
}

static gw_status exchange_checked(gw_comm *c, gw_sync *s, float *g, int t, const job *j)
{
    float *before = calloc(3 * N, sizeof *before), *residual = before + N;
    float *out = residual + N;
    bool gradient = s->spec.subject == GWI_GRADIENT;
    gw_status told, st;

    if (s->kept[GWI_RESIDUAL] != NULL)
        memcpy(residual, s->kept[GWI_RESIDUAL], N * sizeof *residual);
    for (size_t i = 0; i < N; i++)
        before[i] = g[i] + residual[i];
    told = feed(s, g, j);
    st = told == GW_OK || told == GW_SKIPPED
             ? came_of(s, told, g, out, t == j->bad_step)
             : told;
    if (st == GW_OK && gradient && conserves(s))
        st = check_conserved(c, s, before, out);
    /* Small tensors have no residual to wait in. */
    if (st == GW_SKIPPED && gradient && conserves_skipped(s) && s->small.count == 0)
        st = check_skipped(c, s, before, residual);
    free(before);
    return st == GW_OK || st == GW_SKIPPED ? told : st;
}

/* A number of the spec's outer step. */
static float outer_number(const gw_sync *s, const char *key, float otherwise)
{
    const char *at = gwi_steps_outside(&s->spec) ? strstr(s->text, key) : NULL;

    return at != NULL ? strtof(at + strlen(key), NULL) : otherwise;
}

/* What an outer step got: `was` is the reference before it, or the velocity. */
static void find_average(const gw_sync *s, const float *x, float *was)
{
    const float *velocity = gwi_steps_outside(&s->spec) ? s->kept[GWI_VELOCITY] : NULL;
    float momentum = outer_number(s, "momentum=", 0), lr = outer_number(s, "lr=", 1);

    for (size_t i = 0; i < N; i++)
        was[i] =
            velocity != NULL ? velocity[i] - momentum * was[i] : (x[i] - was[i]) / lr;
}

/* What goes into the exchange of the change x - reference: with momentum before the
 * selection, some of the velocity, too. */
static void find_change(const gw_sync *s, const float *x, float *v)
{
    float scale = (float)gw_sync_scale(s), momentum = (float)gw_sync_momentum(s);
    const char *dampening = momentum > 0 ? strstr(s->text, "dampening=") : NULL;
    bool first = s->step == gwi_schedule_start(&s->spec) + 1;

    if (dampening != NULL && !first)
        scale *= 1 - strtof(dampening + strlen("dampening="), NULL);
    for (size_t i = 0; i < N; i++) {
        v[i] = scale * (x[i] - s->kept[GWI_REFERENCE][i]) + s->kept[GWI_RESIDUAL][i];
        if (momentum > 0)
            v[i] += momentum * s->kept[GWI_VELOCITY][i];
    }
}

/* The same for methods that exchange models: residual + change goes in, and what the
 * outer step gets comes out. */
static gw_status model_checked(gw_comm *c, gw_sync *s, float *x)
{
    bool check = conserves(s) && s->kept[GWI_REFERENCE] != NULL && s->now.model &&
                 s->stream == NULL; /* test_stream.c looks at those */
    const float *velocity = gwi_steps_outside(&s->spec) ? s->kept[GWI_VELOCITY] : NULL;
    float *before, *was;
    gw_status st;

    if (!check)
        return gw_sync_model(s, gw_sync_model_due(s) ? x : NULL);
    before = malloc(2 * N * sizeof *before);
    was = before + N;
    memcpy(was, velocity != NULL ? velocity : s->kept[GWI_REFERENCE], N * sizeof *was);
    find_change(s, x, before);
    st = gw_sync_model(s, x);
    find_average(s, x, was);
    if (st == GW_OK)
        st = check_conserved(c, s, before, was);
    free(before);
    return st;
}

static bool is_something(const float *g)
{
    for (size_t i = 0; i < N; i++)
        if (g[i] != 0)
            return true;
    return false;
}

static gw_status step(gw_comm *c, gw_sync *s, float *x, float *g, int t, const job *j)
{
    bool bad = t == j->bad_step && gw_comm_rank(c) == gw_comm_workers(c) - 1;

    model_gradient(g, x, gw_comm_rank(c), t);
    if (bad)
        g[MODEL_ROWS * MODEL_COLS + 3] = NAN;
    gw_status st = exchange_checked(c, s, g, t, j);
    int late = s->late != NULL;
    if (st != GW_OK && st != GW_SKIPPED)
        return st;
    REQUIRE((st == GW_SKIPPED) == (j->bad_step > 0 && t == j->bad_step + late) ||
                !gw_sync_keeps_equal(s),
            "%s: step %d was skipped, or was not", j->spec, t);
    REQUIRE(st != GW_OK || is_something(g) == (t > late), "%s: what came of step %d?",
            j->spec, t);
    for (size_t i = 0; st == GW_OK && i < N; i++)
        x[i] -= 0.1f * g[i];
    PASS_ON(model_checked(c, s, x));
    return s->kept[GWI_ESTIMATE] != NULL ? check_estimate(c, s) : GW_OK;
}

/* ---- agreement ---------------------------------------------------------- */

static gw_status check_equal(gw_comm *c, const gw_sync *s, const float *x)
{
    uint64_t own = model_digest(x), first = own;

    PASS_ON(gw_broadcast(c, &first, sizeof first, 0));
    REQUIRE(!gw_sync_keeps_equal(s) || first == own, "%s: worker %d has other bits",
            s->text, gw_comm_rank(c));
    return GW_OK;
}

/* ---- saving and loading ------------------------------------------------- */

/* Replaces the sync by a new one that has loaded its state, through all workers. */
static gw_status save_and_load(gw_comm *c, gw_sync **s, const job *j)
{
    size_t len = gw_sync_state_len(*s), p = (size_t)gw_comm_workers(c), lens[16];
    uint8_t *all = malloc(p * len);
    const void *states[16];
    gw_status st = gw_sync_save(*s, all + (size_t)gw_comm_rank(c) * len, len);

    if (st == GW_OK)
        st = gw_allgather(c, all + (size_t)gw_comm_rank(c) * len, len, all, len, lens);
    gw_sync_free(*s);
    *s = NULL;
    if (st == GW_OK)
        st = make_sync(s, c, j);
    for (size_t r = 0; r < p; r++)
        states[r] = all + r * len;
    if (st == GW_OK)
        st = gw_sync_load(*s, states, lens, p);
    free(all);
    return st;
}

/* ---- the body ----------------------------------------------------------- */

/* An exchange that will end the run is under way: a worker that learns so in its next
 * call may leave while another one is still in a broadcast of this test, which would
 * then fail in place of the sync. */
static bool ends_next(const gw_sync *s, int t, const job *j)
{
    return s->late != NULL && t == j->bad_step && j->nonfinite != GW_NONFINITE_SKIP;
}

static gw_status run_steps(gw_comm *c, gw_sync **s, float *x, float *g, const job *j)
{
    for (int t = 1; t <= j->steps; t++) {
        PASS_ON(step(c, *s, x, g, t, j));
        if (!ends_next(*s, t, j))
            PASS_ON(check_equal(c, *s, x));
        if (t == j->break_at)
            PASS_ON(save_and_load(c, s, j));
    }
    if (gw_sync_pending(*s)) {
        PASS_ON(gw_sync_drain(*s, g));
        for (size_t i = 0; i < N; i++)
            x[i] -= 0.1f * g[i];
    }
    return gw_sync_finish(*s, x);
}

gw_status conform_body(gw_comm *c, void *arg)
{
    const job *j = arg;
    float *x = malloc(2 * N * sizeof *x);
    gw_sync *s = NULL;
    gw_status st = make_sync(&s, c, j);

    for (size_t i = 0; i < N; i++)
        x[i] = test_float(1 + (uint64_t)gw_comm_rank(c), i);
    if (st == GW_OK)
        st = gw_sync_start(s, x);
    if (st == GW_OK)
        st = run_steps(c, &s, x, x + N, j);
    if (st == GW_OK && j->digests != NULL)
        j->digests[gw_comm_rank(c)] = model_digest(x);
    gw_sync_free(s);
    free(x);
    return st;
}

/* ---- bytes: what is counted is what crossed ----------------------------- */

gw_status conform_bytes(gw_comm *c, void *arg)
{
    job j = {.spec = arg, .steps = 4};
    float *x = calloc(2 * N, sizeof *x);
    gw_sync *s;

    PASS_ON(make_sync(&s, c, &j));
    PASS_ON(gw_sync_start(s, x));
    gw_traffic before = gw_comm_traffic(c);
    /* The bytes of what is under way count when it has come. */
    for (int t = 1; t <= j.steps || gwi_stream_is_away(s); t++) {
        model_gradient(x + N, x, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(s, x + N));
        PASS_ON(gw_sync_model(s, x));
    }
    if (gw_sync_pending(s))
        PASS_ON(gw_sync_drain(s, x + N));
    gw_traffic after = gw_comm_traffic(c);
    gw_stats stats = gw_sync_stats(s);
    float totals[2] = {(float)stats.bytes_sent, (float)stats.bytes_received};
    gw_sync_free(s);
    free(x);
    REQUIRE(stats.bytes_sent == after.bytes_sent - before.bytes_sent &&
                stats.messages_sent == after.messages_sent - before.messages_sent &&
                stats.bytes_received == after.bytes_received - before.bytes_received,
            "the counters are not the comm's");
    PASS_ON(gw_allreduce(c, totals, 2));
    REQUIRE(totals[0] == totals[1], "%s: %g bytes sent, %g received", (const char *)arg,
            (double)totals[0], (double)totals[1]);
    return GW_OK;
}

/* ---- nothing allocates after the first step ----------------------------- */

gw_status conform_steady(gw_comm *c, void *arg)
{
    job j = {.spec = arg, .steps = 8};
    float *x = calloc(2 * N, sizeof *x);
    size_t steady = 0;
    gw_sync *s;

    PASS_ON(make_sync(&s, c, &j));
    PASS_ON(gw_sync_start(s, x));
    for (int t = 1; t <= j.steps; t++) {
        model_gradient(x + N, x, gw_comm_rank(c), t);
        PASS_ON(gw_sync_gradient(s, x + N));
        PASS_ON(gw_sync_model(s, x));
        if (t == 4) /* every kind of step of a period has been made */
            steady = gwi_alloc_count();
    }
    gw_sync_free(s);
    free(x);
    REQUIRE(gwi_alloc_count() == steady, "%s allocates in a later step",
            (const char *)arg);
    return GW_OK;
}

/* ---- workers that send nonsense ----------------------------------------- */

gw_status conform_nonsense(gw_comm *c, void *arg)
{
    job j = {.spec = arg, .steps = 3};
    float *x = calloc(2 * N, sizeof *x);
    static const uint8_t junk[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    gw_sync *s;
    gw_status st = GW_OK;

    PASS_ON(make_sync(&s, c, &j));
    PASS_ON(gw_sync_start(s, x));
    if (gw_comm_rank(c) == 1) {
        PASS_ON(gwi_send(c, &c->ops[0], 0, junk, 13 + gw_sync_stats(s).steps));
        PASS_ON(gwi_wait(c, &c->ops[0]));
    } else {
        for (int t = 1; st == GW_OK && t <= 3; t++) {
            st = gw_sync_gradient(s, x + N);
            if (st == GW_OK)
                st = gw_sync_model(s, x);
        }
        REQUIRE(st == GW_ERR_DATA || st == GW_ERR_PEER ||
                    gw_sync_stats(s).bytes_sent == 0,
                "%s: nonsense gives %s", (const char *)arg, gw_status_name(st));
    }
    gw_sync_free(s);
    free(x);
    return GW_OK;
}
