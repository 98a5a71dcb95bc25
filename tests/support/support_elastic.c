/* SPDX-License-Identifier: Apache-2.0
 *
 * support_elastic.c - workers as threads that die, join and leave on purpose. */
#define _GNU_SOURCE
#include "support_elastic.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sync/elastic/undo.h"
#include "sync/sync.h"

enum { N = ELASTIC_FLOATS };

const char *const elastic_specs[] = {
    "dense",
    "gtopk:0.1+q:4",
    "topk:0.1",
    "topk:0.1+momentum:0.5",
    "topk:0.1+ef21",
    "oktopk:0.1",
    "lowrank:2",
    "topk:0.1,warmup=3",
    "local:3",
    "local:3+topk:0.1",
    "local:2,start=3+q:4",
    "diloco:3",
    "sparta:0.1",
    "update+topk:0.1",
    "demo:0.1",
    "distro:0.1",
    "randk:0.1",
    "topk:0.1,via=owner",
    "sparseloco:3",
    "qsgd:4",
    "sparta:0.1,resync=3+outer:0.7,0.9",
};
const int elastic_spec_count = sizeof elastic_specs / sizeof *elastic_specs;

/* ---- the room ------------------------------------------------------------------- */

typedef struct room {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lives[ELASTIC_MOST], waits[ELASTIC_MOST];
    uint64_t view;
    int count;
    gw_local_group *group;
    int rank[ELASTIC_MOST];
    gw_local_group *old[1024];
    int old_count;
} room;

typedef struct worker {
    const elastic_plan *plan;
    room *room;
    int number;
    pthread_t thread;
    elastic_result *out;
    gw_comm *comm;
    gw_sync *sync;
    gw_layout *layout;
    float params[N], slot[N], grad[N];
    bool pending; /* a gradient is there and was not applied */
    bool in_model;
    uint64_t steps;
    bool wants_to_leave;
    bool equal;         /* optimizers of all workers have the same state */
    int made_by;        /* workers that took part in the last exchange */
    elastic_deed tried; /* the last one of which it had the result */
} worker;

static bool all_wait(const room *r, const elastic_plan *plan)
{
    int living = 0;

    for (int i = 0; i < plan->workers + plan->spares; i++) {
        if (r->lives[i] && !r->waits[i])
            return false;
        living += r->lives[i];
    }
    return living > 0;
}

/* Spares come in with the second view. */
static void make_view(room *r, const elastic_plan *plan)
{
    gw_local_options opt = {
        .struct_size = sizeof opt, .spawn = GW_SPAWN_THREADS, .timeout_seconds = 60};
    int count = 0;

    for (int i = 0; i < plan->workers + plan->spares; i++) {
        bool in = r->lives[i] && (i < plan->workers || r->view > 0);
        r->rank[i] = in ? count++ : -1;
        r->waits[i] = r->lives[i] && !in;
    }
    opt.workers = count;
    r->count = count;
    if (gw_local_group_new(&r->group, &opt) != GW_OK)
        abort();
    r->old[r->old_count++] = r->group;
    r->view++;
    pthread_cond_broadcast(&r->changed);
}

static bool has_first(const room *r, const elastic_plan *plan)
{
    for (int i = 0; i < plan->workers; i++)
        if (r->rank[i] >= 0)
            return true;
    return false;
}

static void next_comm(worker *w)
{
    room *r = w->room;

    pthread_mutex_lock(&r->lock);
    r->waits[w->number] = true;
    if (all_wait(r, w->plan))
        make_view(r, w->plan);
    while (r->waits[w->number])
        pthread_cond_wait(&r->changed, &r->lock);
    if (gw_local_join(&w->comm, r->group, r->rank[w->number]) != GW_OK)
        abort();
    if (w->out->views == 0)
        w->out->late = !has_first(r, w->plan);
    pthread_mutex_unlock(&r->lock);
}

static void leave_room(worker *w)
{
    room *r = w->room;

    pthread_mutex_lock(&r->lock);
    r->lives[w->number] = r->waits[w->number] = false;
    if (all_wait(r, w->plan))
        make_view(r, w->plan);
    pthread_mutex_unlock(&r->lock);
}

/* ---- dying ---------------------------------------------------------------------- */

static _Thread_local gw_transport real;
static _Thread_local uint64_t posts, dies_at;
static _Thread_local bool dead;

static gw_status may_post(void)
{
    posts++;
    if (posts == dies_at)
        dead = true;
    return dead ? gw_fail(GW_ERR_STOPPED, "this worker is dead") : GW_OK;
}

/* What was posted before a death has left: the first send that follows finds nobody
 * alive to push it. Requests whose sends are over, until comm asks. */
enum { OVER = 64 };
static _Thread_local gw_request *over[OVER];

static gw_status send_or_die(void *ctx, int to, const void *buf, size_t len,
                             gw_request *req)
{
    gw_status st = may_post();
    size_t ignored;
    int i = 0;

    if (st == GW_OK)
        st = real.send(ctx, to, buf, len, req);
    while (i < OVER && over[i] != NULL)
        i++;
    if (st == GW_OK && i < OVER && real.test(ctx, req, &ignored) == GW_OK)
        over[i] = req;
    return st;
}

static gw_status test_or_die(void *ctx, gw_request *req, size_t *len)
{
    for (int i = 0; i < OVER; i++)
        if (over[i] == req) {
            over[i] = NULL;
            return GW_OK;
        }
    return real.test(ctx, req, len);
}

static gw_status recv_or_die(void *ctx, int from, void *buf, size_t cap,
                             gw_request *req)
{
    gw_status st = may_post();

    return st == GW_OK ? real.recv(ctx, from, buf, cap, req) : st;
}

/* The dead tell nobody why. */
static void abort_or_die(void *ctx, const char *reason)
{
    if (!dead)
        real.abort(ctx, reason);
}

static void make_mortal(gw_comm *comm)
{
    real = comm->table;
    comm->table.send = send_or_die;
    comm->table.recv = recv_or_die;
    comm->table.test = test_or_die;
    memset(over, 0, sizeof over);
    comm->table.abort = real.abort != NULL ? abort_or_die : NULL;
}

/* ---- training ------------------------------------------------------------------- */

static gw_status hand(void *arg, gw_comm *comm, const gw_entry *entry)
{
    worker *w = arg;

    /* Between exchanges of models, the source may be anywhere. */
    if (w->equal)
        PASS_ON(gw_entry_hand(comm, entry, w->slot, sizeof w->slot));
    return gw_entry_hand(comm, entry, w->out->applied, sizeof w->out->applied);
}

static gw_status enter_once(worker *w, gw_entry *entry)
{
    gw_enter_options opt = {
        .struct_size = sizeof opt, .leaves = w->wants_to_leave, .hand = hand, .arg = w};

    next_comm(w);
    make_mortal(w->comm);
    if (w->sync == NULL) {
        gw_spec_info info = {.struct_size = sizeof info};
        PASS_ON(gw_spec_describe(w->plan->spec, &info));
        PASS_ON(gw_sync_new(&w->sync, w->plan->spec, w->layout, w->comm, NULL));
        w->equal = (info.traits & GW_TRAIT_KEEPS_EQUAL) != 0;
    }
    entry->struct_size = sizeof *entry;
    return gw_sync_enter(&w->sync, w->comm, w->params, &opt, entry);
}

static void note_view(worker *w, const gw_entry *entry)
{
    elastic_result *out = w->out;

    if (entry->joined) {
        w->pending = w->in_model = false;
        w->steps = entry->step;
    }
    if (out->views == 0)
        out->first_step = w->steps;
    else if (out->views <= ELASTIC_MOST)
        out->changed_at[out->views - 1] = entry->step;
    out->views++;
    out->lost += entry->lost;
}

static gw_status enter(worker *w)
{
    gw_entry entry;
    gw_status st;

    do {
        gw_comm_free(w->comm);
        w->comm = NULL;
        st = enter_once(w, &entry);
        if (st == GW_OK)
            note_view(w, &entry);
        if (st == GW_OK && entry.left) {
            w->out->left = true;
            return GW_OK;
        }
    } while (!dead && (st == GW_ERR_PEER || (st == GW_OK && entry.leavers > 0)));
    return st;
}

/* A gradient that depends on the worker, the step and the model. */
static void compute(worker *w)
{
    uint64_t seed = 1000 * (uint64_t)(w->number + 1) + w->steps;

    for (size_t i = 0; i < N; i++)
        w->grad[i] = test_float(seed, i) + 0.1f * w->params[i];
    w->pending = true;
}

/* ---- what is fed and what waits --------------------------------------------------
 */

/* The part of the velocity that is fed with what the call brings. */
static float momentum_of(const gw_sync *s, gwi_call call)
{
    const char *at =
        s->kept[GWI_VELOCITY] != NULL ? strstr(s->text, "+momentum:") : NULL;

    if (call == GWI_MODEL_CALL)
        return (float)gw_sync_momentum(s);
    return at != NULL ? strtof(strchr(at, '=') + 1, NULL) : 0;
}

/* What went into a gradient's exchange, or into that of a change of the model, and what
 * came out. Memories of before are in the undo. */
static void note_floats(elastic_deed *d, const worker *w, gwi_call call, const float *v)
{
    const gw_sync *s = w->sync;
    const gwi_undo *u = s->undo;
    float *const *was = u->kept, *const *is = s->kept;
    float scale = (float)gw_sync_scale(s), momentum = momentum_of(s, call);

    for (size_t i = 0; i < N; i++)
        if (is[GWI_ESTIMATE] != NULL) {
            d->fed[i] = is[GWI_LAST][i] - is[GWI_RESIDUAL][i];
            d->result[i] = is[GWI_ESTIMATE][i];
        } else if (call == GWI_GRADIENT_CALL) {
            d->fed[i] = v[i];
            d->result[i] = u->prepared != GWI_NO_CALL ? u->vector[i] : w->grad[i];
        } else {
            d->fed[i] = scale * (v[i] - was[GWI_REFERENCE][i]);
            d->result[i] = is[GWI_REFERENCE][i] - was[GWI_REFERENCE][i];
        }
    for (size_t i = 0; momentum > 0 && i < N; i++)
        d->fed[i] += momentum * was[GWI_VELOCITY][i];
}

/* Notes the exchange of which the sync has just got the result, whether or not it
 * counts; v is what the call began with. */
static void note_result(worker *w, gwi_call call, const float *v)
{
    elastic_deed *d = &w->tried;

    if (w->sync->kept[GWI_RESIDUAL] == NULL)
        return;
    d->entry = w->sync->undo->next.entry;
    d->count = w->sync->undo->next.count;
    d->workers = w->made_by;
    memcpy(d->residual, w->sync->kept[GWI_RESIDUAL], sizeof d->residual);
    note_floats(d, w, call, v);
}

static void note_deed(worker *w)
{
    elastic_result *out = w->out;

    if (out->deed_count < ELASTIC_DEEDS)
        out->deeds[out->deed_count] = w->tried;
    out->deed_count++;
}

static bool is_same(const elastic_deed *a, const elastic_deed *b)
{
    return a->entry == b->entry && a->count == b->count;
}

/* A worker that dies may have a result of which it does not know whether it counts. */
static void note_last(worker *w)
{
    const elastic_result *out = w->out;

    if (w->tried.entry == 0 || out->deed_count > ELASTIC_DEEDS ||
        (out->deed_count > 0 && is_same(&out->deeds[out->deed_count - 1], &w->tried)))
        return;
    w->out->undecided = true;
    note_deed(w);
}

/* Makes a call of the sync. A result that it has kept from an exchange which failed,
 * and which counts after all, was noted then. */
static gw_status call_noted(worker *w, gwi_call call, float *v)
{
    const gwi_undo *u = w->sync->undo;
    bool kept = u->ready != GWI_NO_CALL;
    gwi_deed before = u->done;
    float input[N];

    memcpy(input, v, sizeof input);
    if (!kept)
        w->made_by = gw_comm_workers(w->comm);
    gw_status st = call == GWI_GRADIENT_CALL ? gw_sync_gradient(w->sync, v)
                                             : gw_sync_model(w->sync, v);
    if (st == GW_OK && !kept && u->done.count == before.count)
        return st; /* a local step */
    if (!kept && (st == GW_OK || u->prepared != GWI_NO_CALL))
        note_result(w, call, input);
    if (st == GW_OK && w->sync->kept[GWI_RESIDUAL] != NULL)
        note_deed(w);
    return st;
}

static void apply(worker *w)
{
    for (size_t i = 0; i < N; i++) {
        w->out->applied[i] += (double)w->made_by * w->grad[i];
        w->slot[i] = 0.5f * w->slot[i] + w->grad[i];
        w->params[i] -= 0.05f * w->slot[i];
    }
}

static gw_status make_step(worker *w)
{
    if (!w->in_model) {
        if (!w->pending)
            compute(w);
        float own[N];
        memcpy(own, w->grad, sizeof own);
        gw_status st = call_noted(w, GWI_GRADIENT_CALL, w->grad);
        if (st != GW_OK) {
            REQUIRE(memcmp(own, w->grad, sizeof own) == 0, "a gradient was changed");
            return st;
        }
        for (size_t i = 0; i < N; i++)
            w->out->fed[i] += own[i];
        apply(w);
        w->pending = false;
        w->in_model = true;
    }
    PASS_ON(call_noted(w, GWI_MODEL_CALL, w->params));
    w->in_model = false;
    w->steps++;
    return GW_OK;
}

static gw_status train(worker *w)
{
    const elastic_death *death = &w->plan->death[w->number];
    gw_status st = enter(w);

    while (st == GW_OK && !w->out->left && w->steps < w->plan->steps) {
        if (w->steps + 1 == death->step && !w->pending && !w->in_model) {
            dead = true;
            return GW_OK;
        }
        w->wants_to_leave = w->steps + 1 == death->leaves_at;
        st = w->wants_to_leave ? GW_ERR_PEER : make_step(w);
        if (st == GW_ERR_PEER && !dead)
            st = enter(w);
    }
    while (st == GW_OK && !w->out->left) {
        st = gw_sync_finish(w->sync, w->params);
        if (st == GW_OK)
            st = gw_barrier(w->comm);
        if (st != GW_ERR_PEER || dead)
            break;
        st = enter(w);
    }
    return st;
}

/* What decays, is applied by another weight than 1/P, or is chosen in another basis, is
 * not kept. */
static bool conserves(const gw_sync *s)
{
    return s->kept[GWI_RESIDUAL] != NULL && gwi_decay(&s->spec) == 1 &&
           s->kept[GWI_ESTIMATE] == NULL &&
           gwi_transform_of(&s->spec)->forward == NULL &&
           strstr(s->text, "putback=paper") == NULL &&
           strstr(s->text, "combine=senders") == NULL;
}

static void keep(worker *w)
{
    const gw_sync *s = w->sync;

    memcpy(w->out->params, w->params, sizeof w->params);
    memcpy(w->out->slot, w->slot, sizeof w->slot);
    if (s != NULL && s->kept[GWI_RESIDUAL] != NULL)
        memcpy(w->out->residual, s->kept[GWI_RESIDUAL], sizeof w->out->residual);
    if (s != NULL && s->kept[GWI_ESTIMATE] != NULL)
        memcpy(w->out->estimate, s->kept[GWI_ESTIMATE], sizeof w->out->estimate);
    w->out->conserves = s != NULL && conserves(s);
    if (dead)
        note_last(w);
}

static void *run_worker(void *arg)
{
    static const gw_tensor tensors[] = {{"a", 0, 10, 20}, {"b", 200, 1, 3}};
    worker *w = arg;
    gw_status st;

    posts = 0;
    dead = false;
    dies_at = w->plan->death[w->number].post;
    st = gw_layout_new(&w->layout, tensors, 2);
    for (size_t i = 0; i < N; i++)
        w->params[i] = test_float(7, i);
    if (st == GW_OK)
        st = train(w);
    w->out->died = dead;
    w->out->status = dead ? GW_OK : st;
    w->out->posts = posts;
    snprintf(w->out->message, sizeof w->out->message, "%s", gw_error_message());
    keep(w);
    gw_sync_free(w->sync);
    gw_comm_free(w->comm);
    gw_layout_free(w->layout);
    leave_room(w);
    return NULL;
}

void elastic_run(const elastic_plan *plan, elastic_result *results)
{
    int count = plan->workers + plan->spares;
    worker *workers = calloc((size_t)count, sizeof *workers);
    room *r = calloc(1, sizeof *r);

    if (workers == NULL || r == NULL)
        abort();
    memset(results, 0, (size_t)count * sizeof *results);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    for (int i = 0; i < count; i++)
        r->lives[i] = true;
    for (int i = 0; i < count; i++) {
        workers[i] = (worker){.plan = plan, .room = r, .number = i, .out = &results[i]};
        if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < r->old_count; i++)
        gw_local_group_free(r->old[i]);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->changed);
    free(r);
    free(workers);
}
