/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - the calls of a training step: what is handed to the exchange, and what is
 * checked and measured around it. */
#include "sync/sync.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/overlap.h"
#include "sync/pieces.h"

/* ---- measuring ---------------------------------------------------------- */

static gw_traffic enter(gw_sync *s)
{
    gw_traffic before = s->comm->traffic;

    s->entered = gwi_now();
    s->waited = before.wait_seconds;
    s->encoded = 0;
    gwi_trace_begin(s->comm, GW_ACTIVITY_ENCODE, s->entered);
    return before;
}

void gwi_sync_encoded(gw_sync *s)
{
    double waited = s->comm->traffic.wait_seconds - s->waited, now = gwi_now();

    s->encoded = now - s->entered - waited;
    gwi_trace_next(s->comm, GW_ACTIVITY_DECODE, now);
}

static void leave(gw_sync *s, const gw_traffic *before)
{
    const gw_traffic *now = &s->comm->traffic;
    double waited = now->wait_seconds - s->waited, end = gwi_now();

    s->stats.bytes_sent += now->bytes_sent - before->bytes_sent;
    s->stats.bytes_received += now->bytes_received - before->bytes_received;
    s->stats.messages_sent += now->messages_sent - before->messages_sent;
    s->stats.messages_received += now->messages_received - before->messages_received;
    s->stats.encode_seconds += s->encoded;
    s->stats.wait_seconds += waited;
    s->stats.decode_seconds += end - s->entered - waited - s->encoded;
    gwi_trace_end(s->comm, end);
}

/* ---- notes -------------------------------------------------------------- */

/* A note about a bad number: worker + 1 above, tensor below, so that the least note is
 * that of the first such worker. 0 if `bad` is past the end. */
static gwi_note note_of(const gw_sync *s, size_t bad)
{
    if (bad >= s->layout->floats)
        return 0;
    const gw_tensor *t = gwi_layout_find(s->layout, bad);
    return (uint64_t)(s->comm->rank + 1) << 32 | (uint64_t)(t - s->layout->tensors);
}

static gwi_note look_at(const gw_sync *s, const float *grad, size_t begin, size_t end)
{
    size_t bad;

    if (s->nonfinite == GW_NONFINITE_IGNORE)
        return 0;
    bad = begin + gwi_first_nonfinite(grad + begin, end - begin);
    return bad == end ? 0 : note_of(s, bad);
}

/* Whether the exchange of this step will look. */
static bool looks_later(const gw_sync *s)
{
    return s->nonfinite == GW_NONFINITE_END && s->spec.which == GWI_WHICH_TOPK &&
           s->exchange->takes_pieces && s->residual != NULL && s->velocity == NULL &&
           s->small.count == 0 && s->now.gradient && !s->now.dense;
}

gwi_note gwi_sync_look_later(gw_sync *s, const gwi_list *selected)
{
    size_t bad;

    if (!looks_later(s))
        return 0;
    bad = gwi_first_nonfinite(selected->value, selected->n);
    if (bad == selected->n)
        return 0;
    s->spoiled = true;
    return note_of(s, selected->index[bad]);
}

static gw_status act_on(gw_sync *s, gwi_note note)
{
    if (note == 0)
        return GW_OK;
    if (s->nonfinite == GW_NONFINITE_SKIP) {
        s->stats.skipped++;
        return GW_SKIPPED;
    }
    const gw_tensor *t = gw_layout_tensor(s->layout, note & UINT32_MAX);
    return gw_fail(
        GW_ERR_NUMBER,
        "the gradient of worker %d holds NaN or infinity in tensor '%s' (step "
        "%" PRIu64 ")",
        (int)(note >> 32) - 1, t != NULL ? t->name : "?", s->step);
}

/* Workers leave an exchange one after the other. One that stops at a bad number may
 * have told the others so before these are through; for them its end is GW_ERR_PEER,
 * but whoever knows of the number itself, as the one whose gradient it is does, stops
 * there like the first. */
gw_status gwi_sync_outcome(gw_sync *s, gw_status st, gwi_note note)
{
    bool stops = note != 0 && s->nonfinite != GW_NONFINITE_SKIP;

    return st == GW_OK || (st == GW_ERR_PEER && stops) ? act_on(s, note) : st;
}

size_t gwi_put_note(uint8_t *msg, gwi_note note)
{
    for (int i = 0; i < 8; i++)
        msg[i] = (uint8_t)(note >> 8 * i);
    return 8;
}

gwi_note gwi_get_note(const uint8_t *msg, size_t len)
{
    gwi_note note = 0;

    for (int i = 7; len == 8 && i >= 0; i--)
        note = note << 8 | msg[i];
    return note;
}

gwi_note gwi_least_note(const uint8_t *slots, size_t cap, const size_t *lens, size_t p)
{
    gwi_note least = 0;

    for (size_t r = 0; r < p; r++) {
        gwi_note note = gwi_get_note(slots + r * cap, lens[r]);
        if (note != 0 && (least == 0 || note < least))
            least = note;
    }
    return least;
}

/* ---- gradients ---------------------------------------------------------- */

/* Momentum in steps in which all is sent: ordinary momentum, on the average. */
static void apply_momentum(gw_sync *s, float *v)
{
    size_t n = s->layout->floats;

    if (s->velocity == NULL)
        return;
    gwi_scale(s->velocity, (float)s->spec.opt.momentum, n);
    gwi_add(s->velocity, v, n);
    memcpy(v, s->velocity, n * sizeof *v);
}

/* Hands v to the exchange, small tensors apart. */
static gw_status run_exchange(gw_sync *s, float *v, gwi_note *note)
{
    gwi_small_take(s, v);
    GWI_TRY(s->exchange->run(s, v, note));
    return *note != 0 ? GW_OK : gwi_small_give(s, v);
}

static gw_status exchange_gradient(gw_sync *s, float *grad, gwi_note *note)
{
    if (!s->now.dense)
        return run_exchange(s, grad, note);
    gwi_sync_encoded(s);
    GWI_TRY(gwi_average_dense(s, grad, note));
    if (*note == 0)
        apply_momentum(s, grad);
    return GW_OK;
}

void gwi_sync_begin_step(gw_sync *s)
{
    s->step++;
    s->stats.steps++;
    gwi_comm_set_step(s->comm, s->step);
    s->now = gwi_schedule(&s->spec, s->step, s->comm->workers, &s->phase);
}

gw_status gwi_sync_whole(gw_sync *s, float *grad, gwi_note *note)
{
    gw_traffic before = enter(s);
    gw_status st = GW_OK;

    *note = looks_later(s) ? 0 : look_at(s, grad, 0, s->layout->floats);
    if (s->now.gradient)
        st = exchange_gradient(s, grad, note);
    leave(s, &before);
    return st;
}

gw_status gwi_sync_pieces(gw_sync *s, gwi_note *note)
{
    gw_traffic before = enter(s);
    gw_status st = GW_OK;

    if (s->nonfinite != GW_NONFINITE_IGNORE && !looks_later(s))
        *note = note_of(s, gwi_pieces_first_nonfinite(&s->pieces));
    if (s->now.gradient) {
        if (*note == 0)
            gwi_pieces_move(&s->pieces, s->residual);
        st = s->exchange->run(s, NULL, note);
    }
    leave(s, &before);
    return st;
}

gw_status gwi_sync_bucket(gw_sync *s, const gwi_bucket *b, float *grad, gwi_note *note)
{
    gw_traffic before = enter(s);

    *note = look_at(s, grad, b->begin, b->end);
    gwi_sync_encoded(s);
    gw_status st = gwi_average_bucket(s, b, grad, note);
    leave(s, &before);
    return st;
}

gw_status gw_sync_gradient(gw_sync *s, float *grad)
{
    gwi_note note = 0;
    gw_status st;

    if (gwi_overlap_pending(s)) {
        st = gwi_overlap_finish(s, grad, &note);
    } else {
        gwi_sync_begin_step(s);
        st = gwi_sync_whole(s, grad, &note);
    }
    return gwi_sync_outcome(s, st, note);
}

/* ---- models ------------------------------------------------------------- */

static gw_status average(gw_sync *s, float *x, size_t n)
{
    return gwi_allreduce(s->comm, x, n, (float)s->comm->workers, NULL);
}

/* The rotating chunk of sparse parameter averaging. */
static gw_status average_chunk(gw_sync *s, float *x)
{
    size_t begin, end, chunks = s->spec.opt.chunks;

    gw_part(s->layout->floats, (int)chunks, (int)((s->step - 1) % chunks), &begin,
            &end);
    return average(s, x + begin, end - begin);
}

/* Every worker goes on from the last common model plus the average of what was sent
 * of the changes since. */
static gw_status exchange_change(gw_sync *s, float *x)
{
    size_t n = s->layout->floats;
    gwi_note note = 0;

    gwi_subtract(x, x, s->reference, n);
    GWI_TRY(run_exchange(s, x, &note));
    gwi_add(x, s->reference, n);
    memcpy(s->reference, x, n * sizeof *x);
    return GW_OK;
}

static gw_status exchange_model(gw_sync *s, float *x)
{
    if (s->spec.what == GWI_WHAT_CHANGE)
        return exchange_change(s, x);
    if (s->spec.which == GWI_WHICH_CHUNK)
        return average_chunk(s, x);
    return average(s, x, s->layout->floats);
}

/* The running mean of all models of this worker. */
static void add_to_mean(gw_sync *s, const float *x)
{
    if (s->mean == NULL)
        return;
    for (size_t i = 0; i < s->layout->floats; i++)
        s->mean[i] += (x[i] - s->mean[i]) / (float)s->step;
}

static gw_status check_started(const gw_sync *s)
{
    if (s->reference == NULL || s->started)
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "'%s' sends changes of the model: call gw_sync_start() first",
                   s->spec.stages[0]->name);
}

static bool repairs(const gw_sync *s)
{
    return s->spec.opt.resync > 0 && s->step % s->spec.opt.resync == 0;
}

/* Local steps begin after this one: changes of the model count from here. */
static bool refers(const gw_sync *s)
{
    return s->reference != NULL && s->step == s->spec.opt.start;
}

int gw_sync_model_due(const gw_sync *s)
{
    return s->now.model || repairs(s) || s->mean != NULL || refers(s);
}

gw_status gw_sync_model(gw_sync *s, float *params)
{
    gw_status st = GW_OK;

    GWI_TRY(check_started(s));
    if (!gw_sync_model_due(s))
        return GW_OK;
    if (refers(s))
        memcpy(s->reference, params, s->layout->floats * sizeof *params);
    if (!s->now.model && !repairs(s) && s->mean == NULL)
        return GW_OK;
    gw_traffic before = enter(s);
    add_to_mean(s, params);
    if (repairs(s))
        st = average(s, params, s->layout->floats);
    else if (s->now.model)
        st = exchange_model(s, params);
    leave(s, &before);
    return st;
}

gw_status gw_sync_start(gw_sync *s, float *params)
{
    size_t n = s->layout->floats;

    GWI_TRY(gw_broadcast(s->comm, params, n * sizeof *params, 0));
    if (s->reference != NULL)
        memcpy(s->reference, params, n * sizeof *params);
    s->started = true;
    return GW_OK;
}

gw_status gw_sync_finish(gw_sync *s, float *params)
{
    size_t n = s->layout->floats;
    bool averages = s->spec.what != GWI_WHAT_GRADIENT && s->spec.when != GWI_WHEN_NEVER;
    gw_traffic before = enter(s);
    gw_status st = GW_OK;

    if (s->mean != NULL)
        memcpy(params, s->mean, n * sizeof *params);
    if (averages || s->mean != NULL)
        st = average(s, params, n);
    leave(s, &before);
    return st;
}

/* ---- what there is to know ---------------------------------------------- */

int gw_sync_keeps_equal(const gw_sync *s)
{
    bool talks = s->spec.when == GWI_WHEN_EVERY && s->spec.what == GWI_WHAT_GRADIENT;

    return s->comm->workers == 1 || (talks && !s->exchange->differs);
}

const char *gw_sync_spec(const gw_sync *s)
{
    return s->text;
}

gw_stats gw_sync_stats(const gw_sync *s)
{
    return s->stats;
}

double gw_sync_residual_norm(const gw_sync *s)
{
    return s->residual != NULL ? sqrt(gwi_sumsq(s->residual, s->layout->floats)) : 0;
}
