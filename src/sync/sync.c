/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - the calls of a training step: what is handed to the exchange, and what is
 * checked and measured around it. */
#include "sync/sync.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/agreement.h"
#include "sync/notes.h"
#include "sync/overlap.h"
#include "sync/pieces.h"
#include "sync/small.h"

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

/* ---- looking for bad numbers --------------------------------------------- */

/* Whether the exchange of this step will look. */
static bool looks_later(const gw_sync *s)
{
    return s->nonfinite == GW_NONFINITE_END && s->spec.which == GWI_WHICH_TOPK &&
           s->exchange->takes_pieces && s->residual != NULL && s->velocity == NULL &&
           s->small.count == 0 && s->now.gradient && !s->now.dense;
}

/* A finite gradient was more than the residual could take in: what overflowed is
 * dropped, the rest goes back. */
static void keep_finite(gw_sync *s, const gwi_list *selected)
{
    for (size_t i = 0; s->residual != NULL && i < selected->n; i++)
        if (isfinite(selected->value[i]))
            s->residual[selected->index[i]] += selected->value[i];
}

gwi_note gwi_sync_look_later(gw_sync *s, const gwi_list *selected)
{
    size_t bad;

    if (!gwi_looks(s))
        return 0;
    bad = gwi_first_nonfinite(selected->value, selected->n);
    if (bad == selected->n)
        return 0;
    if (looks_later(s))
        s->spoiled = true;
    else
        keep_finite(s, selected);
    return gwi_note_at(s, selected->index[bad]);
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

/* Runs an exchange of all coordinates without those of small tensors. The residual is
 * back in its places whatever happens. */
static gw_status run_closed_up(gw_sync *s, float *v, gwi_note *note)
{
    gwi_small_close_up(s, v);
    gwi_small_close_up(s, s->residual);
    gw_status st = s->exchange->run(s, v, note);
    gwi_small_open_up(s, v);
    gwi_small_open_up(s, s->residual);
    return st;
}

/* Hands v to the exchange, small tensors apart. */
static gw_status run_exchange(gw_sync *s, float *v, gwi_note *note)
{
    gwi_small_take(s, v);
    if (s->exchange->closes_up)
        GWI_TRY(run_closed_up(s, v, note));
    else
        GWI_TRY(s->exchange->run(s, v, note));
    return *note != 0 ? GW_OK : gwi_small_give(s, v, note);
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

    *note = looks_later(s) ? 0 : gwi_look_at(s, grad, 0, s->layout->floats);
    if (s->now.gradient)
        st = exchange_gradient(s, grad, note);
    leave(s, &before);
    return st;
}

gw_status gwi_sync_pieces(gw_sync *s, gwi_note *note)
{
    gw_traffic before = enter(s);
    gw_status st = GW_OK;

    if (gwi_looks(s) && !looks_later(s)) {
        size_t bad = gwi_pieces_first_nonfinite(&s->pieces);
        *note = bad < s->layout->floats ? gwi_note_at(s, bad) : 0;
    }
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

    *note = gwi_look_at(s, grad, b->begin, b->end);
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

/* The average of x[begin, end) over the workers. */
static gw_status average(gw_sync *s, float *x, size_t begin, size_t end, gwi_note *note)
{
    *note = gwi_look_at(s, x, begin, end);
    return gwi_average(s, x + begin, end - begin, begin, note);
}

static gw_status average_all(gw_sync *s, float *x, gwi_note *note)
{
    return average(s, x, 0, s->layout->floats, note);
}

/* The rotating chunk of sparse parameter averaging. */
static gw_status average_chunk(gw_sync *s, float *x, gwi_note *note)
{
    size_t begin, end, chunks = s->spec.opt.chunks;

    gw_part(s->layout->floats, (int)chunks, (int)((s->step - 1) % chunks), &begin,
            &end);
    return average(s, x, begin, end, note);
}

/* Every worker goes on from the last common model plus the average of what was sent
 * of the changes since. */
static gw_status exchange_change(gw_sync *s, float *x, gwi_note *note)
{
    size_t n = s->layout->floats;

    *note = gwi_look_at(s, x, 0, n);
    gwi_subtract(x, x, s->reference, n);
    GWI_TRY(run_exchange(s, x, note));
    if (*note != 0)
        return GW_OK;
    gwi_add(x, s->reference, n);
    memcpy(s->reference, x, n * sizeof *x);
    return GW_OK;
}

static gw_status exchange_model(gw_sync *s, float *x, gwi_note *note)
{
    if (s->spec.what == GWI_WHAT_CHANGE)
        return exchange_change(s, x, note);
    if (s->spec.which == GWI_WHICH_CHUNK)
        return average_chunk(s, x, note);
    return average_all(s, x, note);
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

/* Local steps begin after this one: changes of the model count from here. */
static bool refers(const gw_sync *s)
{
    return s->reference != NULL && s->step == s->spec.opt.start;
}

int gw_sync_model_due(const gw_sync *s)
{
    return s->now.model || gwi_repairs(s) || s->mean != NULL || refers(s) ||
           gwi_agreement_due(s);
}

/* What a step does with the models, in order. */
static gw_status model_step(gw_sync *s, float *params)
{
    gwi_note note = 0;
    gw_status st = GW_OK;

    add_to_mean(s, params);
    if (gwi_repairs(s))
        st = average_all(s, params, &note);
    else if (s->now.model)
        st = exchange_model(s, params, &note);
    GWI_TRY(gwi_model_outcome(s, st, note));
    return gwi_agreement_due(s) ? gwi_agreement_check(s, params) : GW_OK;
}

gw_status gw_sync_model(gw_sync *s, float *params)
{
    GWI_TRY(check_started(s));
    if (!gw_sync_model_due(s))
        return GW_OK;
    if (refers(s))
        memcpy(s->reference, params, s->layout->floats * sizeof *params);
    gw_traffic before = enter(s);
    gw_status st = model_step(s, params);
    if (st == GW_OK && s->now.model)
        s->exchanged = s->step;
    leave(s, &before);
    return st;
}

gw_status gw_sync_start(gw_sync *s, float *params)
{
    size_t n = s->layout->floats;

    GWI_TRY(gw_broadcast(s->comm, params, n * sizeof *params, 0));
    size_t bad = gwi_looks(s) ? gwi_first_nonfinite(params, n) : n;
    if (bad < n)
        return gwi_model_outcome(s, GW_OK, gwi_note_about(s, 0, bad));
    if (s->reference != NULL)
        memcpy(s->reference, params, n * sizeof *params);
    s->started = true;
    return GW_OK;
}

/* Whether the last step has left the same model, or mean of models, on all workers:
 * another average would only round it. The same on all of them, and in a run that was
 * resumed: it follows from the step and the schedule. */
static bool leaves_equal(const gw_sync *s)
{
    if (s->step == 0 || s->spec.which == GWI_WHICH_CHUNK)
        return false;
    if (s->step <= s->spec.opt.start)
        return s->started; /* dense steps from equal models */
    return s->mean == NULL && s->step == s->phase.end && s->step == s->exchanged;
}

gw_status gw_sync_finish(gw_sync *s, float *params)
{
    size_t n = s->layout->floats;
    bool meets = s->spec.what != GWI_WHAT_GRADIENT && s->spec.when != GWI_WHEN_NEVER;
    bool averages = meets && !leaves_equal(s);
    gw_traffic before = enter(s);
    gwi_note note = 0;
    gw_status st = GW_OK;

    if (s->mean != NULL)
        memcpy(params, s->mean, n * sizeof *params);
    if (averages)
        st = average_all(s, params, &note);
    leave(s, &before);
    GWI_TRY(gwi_model_outcome(s, st, note));
    return gwi_agreement_ends(s, averages) ? gwi_agreement_check(s, params) : GW_OK;
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
