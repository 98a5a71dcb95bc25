/* SPDX-License-Identifier: Apache-2.0
 *
 * sync.c - the calls of a training step: they pass vectors to the exchange, and check
 * and measure around it. */
#include "sync/sync.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/elastic/undo.h"
#include "sync/state/agreement.h"
#include "sync/state/past_models.h"
#include "sync/buckets.h"
#include "sync/guard.h"
#include "sync/measure.h"
#include "sync/momentum.h"
#include "sync/notes.h"
#include "sync/beside/late.h"
#include "sync/beside/overlap.h"
#include "sync/beside/stream.h"
#include "sync/pieces.h"
#include "sync/schedule.h"
#include "sync/segments.h"
#include "sync/selection.h"
#include "sync/small.h"

/* ---- handing over ------------------------------------------------------------ */

/* Runs an exchange of all coordinates without those of small tensors. The residual is
 * back in its places whatever happens. */
static gw_status run_closed_up(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_small_close_up(s, at->v);
    gwi_small_close_up(s, s->kept[GWI_RESIDUAL]);
    gw_status st = gwi_exchange_of(&s->spec)->run(s, at, note);
    gwi_small_open_up(s, at->v);
    gwi_small_open_up(s, s->kept[GWI_RESIDUAL]);
    return st;
}

/* Sets small tensors apart, and goes over to the basis of the exchange. */
static void make_ready(gw_sync *s, float *v)
{
    const gwi_transform *transform = gwi_transform_of(&s->spec);

    gwi_small_take(s, v);
    if (transform->forward != NULL)
        transform->forward(s, v);
}

/* A step that is skipped loses nothing: what an exchange gave, which is the average of
 * what P workers have sent and the same on all of them, goes back to each as its
 * share. */
static void take_back(gw_sync *s, float *v)
{
    if (s->kept[GWI_RESIDUAL] == NULL)
        return;
    make_ready(s, v);
    gwi_add(s->kept[GWI_RESIDUAL], v, s->layout->floats);
}

/* Leaves the basis of the exchange. Finite coordinates may have a result that is not;
 * all workers see the same of it. */
static gwi_note go_back(gw_sync *s, float *v)
{
    size_t n = s->layout->floats, bad;

    gwi_transform_of(&s->spec)->back(s, v);
    bad = gwi_looks(s) ? gwi_first_nonfinite(v, n) : n;
    return bad < n ? gwi_note_of_sum(s, bad) : 0;
}

/* Hands v, which is ready, to the exchange, and then averages the small tensors. */
static gw_status run_exchange(gw_sync *s, float *v, gwi_note *note)
{
    const gwi_exchange *exchange = gwi_exchange_of(&s->spec);
    const gwi_transform *transform = gwi_transform_of(&s->spec);
    gwi_result at = {.v = v};

    gwi_encodes(s);
    GWI_TRY(exchange->closes_up ? run_closed_up(s, &at, note)
                                : exchange->run(s, &at, note));
    if (*note == 0 && transform->back != NULL)
        *note = go_back(s, v);
    if (*note != 0)
        return GW_OK;
    GWI_TRY(gwi_small_give(s, v, note));
    if (*note != 0)
        take_back(s, v);
    return GW_OK;
}

/* The memory may change what is sent of v, and what is made of the average. */
static void enter_memory(gw_sync *s, float *v, gwi_note note)
{
    if (gwi_estimates(&s->spec) && note == 0)
        gwi_memory_of(&s->spec)->enter(s, v);
}

static void leave_memory(gw_sync *s, float *v, gwi_note note)
{
    if (gwi_estimates(&s->spec) && note == 0)
        gwi_memory_of(&s->spec)->leave(s, v);
    else if (gwi_estimates(&s->spec))
        gwi_memory_of(&s->spec)->skip(s);
}

gw_status gwi_sync_segments(gw_sync *s, gwi_run_of of, float *v, gwi_note *note)
{
    for (size_t i = of.begin; i < of.end; i++)
        make_ready(s->segments[i], v + s->segments[i]->base);
    GWI_TRY(gwi_segments_run(s, of, v, note, run_exchange));
    for (size_t i = of.begin; *note != 0 && i < of.end; i++)
        if (s->segments[i]->gave)
            take_back(s->segments[i], v + s->segments[i]->base);
    return GW_OK;
}

static gw_status exchange_all(gw_sync *s, float *v, gwi_note *note)
{
    gwi_guard_begin(s, &(gwi_result){.v = v});
    enter_memory(s, v, *note);
    GWI_TRY(gwi_sync_segments(s, gwi_all_segments(s), v, note));
    leave_memory(s, v, *note);
    if (*note == 0)
        gwi_guard_end(s);
    return GW_OK;
}

/* ---- gradients ----------------------------------------------------------------- */

/* Memories of changes of models know nothing of the gradients before. */
static gw_status exchange_whole(gw_sync *s, float *v, gwi_note *note)
{
    bool remembered = s->now.gradient == (s->spec.subject == GWI_GRADIENT);

    if (remembered)
        enter_memory(s, v, *note);
    gwi_decodes(s);
    GWI_TRY(gwi_segments_run(s, gwi_all_segments(s), v, note, gwi_average_dense));
    if (remembered)
        leave_memory(s, v, *note);
    if (remembered && *note == 0)
        gwi_momentum_whole(s, v);
    return GW_OK;
}

void gwi_sync_step_outside(gw_sync *s, float *grad)
{
    const gwi_outer *outer = gwi_outer_of(&s->spec);

    for (size_t i = 0; outer->gradient != NULL && i < s->segment_count; i++)
        outer->gradient(s->segments[i], grad + s->segments[i]->base);
}

/* A gradient, or a change of the model. What is made of an average that is handed back
 * late is made of it then. */
static gw_status exchange_vector(gw_sync *s, float *v, gwi_note *note)
{
    if (s->now.dense)
        return exchange_whole(s, v, note);
    if (*note == 0)
        gwi_momentum_enter(s, v);
    GWI_TRY(exchange_all(s, v, note));
    if (*note != 0) {
        gwi_momentum_skip(s);
        return GW_OK;
    }
    gwi_momentum_leave(s, v);
    if (s->now.gradient && s->late == NULL)
        gwi_sync_step_outside(s, v);
    return GW_OK;
}

void gwi_sync_begin_step(gw_sync *s)
{
    s->step++;
    s->stats.steps++;
    if (!gwi_stream_is_away(s))
        gwi_comm_set_step(s->comm, s->step);
    s->now = gwi_schedule_at(&s->spec, s->step, s->comm->workers, &s->phase);
    gwi_segments_follow(s);
}

gw_status gwi_sync_whole(gw_sync *s, float *grad, gwi_note *note)
{
    gw_status st = GW_OK;

    /* The clock, like the comm, belongs to what is under way. */
    if (gwi_stream_is_away(s)) {
        *note = gwi_look_at(s, grad, 0, s->layout->floats);
        return GW_OK;
    }
    gwi_measure_begin(s);
    *note = gwi_looks_later(s) || gwi_looks_along(s)
                ? 0
                : gwi_look_at(s, grad, 0, s->layout->floats);
    if (s->now.gradient)
        st = exchange_vector(s, grad, note);
    gwi_measure_end(s);
    return st;
}

/* Whether the selection can add the pieces to the residual in its own pass. */
static bool selects_pieces(const gw_sync *s)
{
    const gwi_selector *selector = gwi_selector_of(&s->spec);

    return s->segment_count == 1 && selector->run_pieces != NULL &&
           selector->largest(&s->spec);
}

/* A step that one worker skips leaves no gradient in the pieces, which are in the
 * residual by then. */
static gw_status exchange_fresh(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_result fresh = *at;
    bool chosen = *note == 0;

    fresh.fresh = true;
    gwi_guard_begin(s, at);
    gwi_encodes(s);
    GWI_TRY(gwi_exchange_of(&s->spec)->run(s->segments[0], &fresh, note));
    if (*note == 0)
        gwi_guard_end(s);
    else if (chosen)
        gwi_result_clear(s, &fresh);
    return GW_OK;
}

/* Pieces that are in the residual hold nothing but what segments gave. */
static gw_status exchange_pieces(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_note own = *note;
    bool gave = false;

    if (selects_pieces(s))
        return exchange_fresh(s, at, note);
    gwi_guard_begin(s, at);
    if (own == 0)
        gwi_pieces_move(at, s->kept[GWI_RESIDUAL]);
    for (size_t i = s->segment_count; i-- > 0;) {
        gwi_note found = own;
        gwi_encodes(s);
        gw_status st = gwi_exchange_of(&s->spec)->run(s->segments[i], at, &found);
        gave = gave || found == 0;
        *note = gwi_lesser_note(*note, found);
        GWI_TRY(st);
    }
    if (*note != 0 && gave)
        gwi_pieces_move(at, s->kept[GWI_RESIDUAL]);
    if (*note == 0)
        gwi_guard_end(s);
    return GW_OK;
}

static gwi_note look_at_pieces(const gw_sync *s, const gwi_result *at)
{
    if (!gwi_looks(s) || gwi_looks_later(s))
        return 0;
    size_t bad = gwi_pieces_first_nonfinite(at);
    return bad < s->layout->floats ? gwi_note_at(s, bad) : 0;
}

gw_status gwi_sync_pieces(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gw_status st = GW_OK;

    *note = look_at_pieces(s, at);
    if (gwi_stream_is_away(s))
        return GW_OK;
    gwi_measure_begin(s);
    if (s->now.gradient)
        st = exchange_pieces(s, at, note);
    gwi_measure_end(s);
    return st;
}

gw_status gwi_sync_bucket(gw_sync *s, const gwi_bucket *b, float *grad, gwi_note *note)
{
    gwi_measure_begin(s);
    gwi_decodes(s);
    gw_status st = gwi_average_bucket(s, b, grad, note);
    gwi_measure_end(s);
    return st;
}

/* Whether the next step exchanges gradients. */
static bool gradients_due(const gw_sync *s)
{
    gwi_phase phase = s->phase;

    return gwi_schedule_at(&s->spec, s->step + 1, s->comm->workers, &phase).gradient;
}

static gw_status gradient_step(gw_sync *s, float *grad)
{
    gwi_note note = 0;
    gw_status st;

    if (s->late != NULL)
        return gwi_overlap_late(s, grad);
    if (gwi_overlap_pending(s)) {
        st = gwi_overlap_finish(s, grad, &note);
    } else {
        gwi_sync_begin_step(s);
        st = gwi_sync_whole(s, grad, &note);
    }
    return gwi_sync_outcome(s, st, note);
}

gw_status gw_sync_gradient(gw_sync *s, float *grad)
{
    gw_status st;

    if (gwi_undo_answers(s, grad, GWI_GRADIENT_CALL, &st))
        return st;
    if (gradients_due(s))
        gwi_undo_begin(s, grad);
    return gwi_undo_end(s, grad, GWI_GRADIENT_CALL, gradient_step(s, grad));
}

/* ---- models ------------------------------------------------------------- */

double gw_sync_scale(const gw_sync *s)
{
    const gwi_schedule *schedule = gwi_schedule_of(&s->spec);

    return s->now.model && schedule->scale != NULL ? schedule->scale(s) : 1;
}

static gw_status average_segment(gw_sync *s, float *x, gwi_note *note)
{
    gwi_decodes(s);
    return gwi_average_looking(s, x, s->layout->floats, 0, note);
}

static gw_status average_models(gw_sync *s, float *x, gwi_note *note)
{
    return gwi_segments_run(s, gwi_all_segments(s), x, note, average_segment);
}

/* The average change of the models becomes the model to go on from. */
static void step_from_last(gw_sync *s, float *x)
{
    for (size_t i = 0; i < s->segment_count; i++)
        gwi_outer_of(&s->spec)->step(s->segments[i], x + s->segments[i]->base);
}

/* Models that were averaged in part, or not at all, are averaged as a whole. */
static gw_status repair_models(gw_sync *s, float *x, gwi_note *note)
{
    GWI_TRY(average_models(s, x, note));
    if (*note != 0 || !gwi_steps_outside(&s->spec))
        return GW_OK;
    gwi_subtract(x, x, s->kept[GWI_REFERENCE], s->layout->floats);
    step_from_last(s, x);
    return GW_OK;
}

/* Every worker goes on from what the outer step makes of the last common model and the
 * average of what was sent of the changes since. */
static gw_status exchange_change(gw_sync *s, float *x, gwi_note *note)
{
    const gwi_schedule *schedule = gwi_schedule_of(&s->spec);
    double scale = gw_sync_scale(s);
    size_t n = s->layout->floats;

    *note = gwi_look_at(s, x, 0, n);
    gwi_subtract(x, x, s->kept[GWI_REFERENCE], n);
    if (schedule->measure != NULL)
        GWI_TRY(schedule->measure(s, x, note));
    if (scale != 1)
        gwi_scale(x, (float)scale, n);
    GWI_TRY(exchange_vector(s, x, note));
    if (*note == 0)
        step_from_last(s, x);
    return GW_OK;
}

static gw_status exchange_segment(gw_sync *s, float *x, gwi_note *note)
{
    gwi_result at = {.v = x};

    gwi_encodes(s);
    return gwi_exchange_of(&s->spec)->run(s, &at, note);
}

static gw_status exchange_model(gw_sync *s, float *x, gwi_note *note)
{
    if (s->spec.subject == GWI_CHANGE)
        return exchange_change(s, x, note);
    return gwi_segments_run(s, gwi_all_segments(s), x, note, exchange_segment);
}

static gw_status check_started(const gw_sync *s)
{
    if (s->kept[GWI_REFERENCE] == NULL || s->started)
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "'%s' sends changes of the model; call gw_sync_start() first",
                   s->spec.stages[0]->name);
}

/* Local steps begin after this one: changes of the model count from here. */
static bool refers(const gw_sync *s)
{
    return s->kept[GWI_REFERENCE] != NULL && s->step == gwi_schedule_start(&s->spec);
}

int gw_sync_model_due(const gw_sync *s)
{
    return s->now.model || s->now.begins || gwi_repairs(s) ||
           gwi_sees_models(&s->spec) || refers(s) || gwi_agreement_due(s);
}

/* What a step does with the models, in order. */
static gw_status model_step(gw_sync *s, float *params)
{
    gwi_note note = 0;
    gw_status st = GW_OK;

    gwi_see_model(s, params);
    if (gwi_repairs(s))
        st = repair_models(s, params, &note);
    else if (s->now.model)
        st = exchange_model(s, params, &note);
    GWI_TRY(gwi_model_outcome(s, st, note));
    return gwi_agreement_due(s) ? gwi_agreement_check(s, params) : GW_OK;
}

/* Nothing but a comparison can fail where models are not exchanged. */
static gw_status end_model_step(gw_sync *s, float *params, gw_status st)
{
    bool exchanges = s->now.model || gwi_repairs(s);

    if (!exchanges && st < 0)
        gwi_undo_settle(s, GWI_MODEL_CALL, GW_OK);
    st = gwi_undo_end(s, params, GWI_MODEL_CALL, st);
    if (st == GW_OK && exchanges)
        gwi_undo_common(s, params);
    return st;
}

gw_status gw_sync_model(gw_sync *s, float *params)
{
    gw_status st;

    if (gwi_undo_answers(s, params, GWI_MODEL_CALL, &st))
        return st;
    GWI_TRY(check_started(s));
    if (s->step == gwi_schedule_start(&s->spec))
        gwi_undo_common(s, params);
    if (!gw_sync_model_due(s))
        return GW_OK;
    if (refers(s))
        memcpy(s->kept[GWI_REFERENCE], params, s->layout->floats * sizeof *params);
    if (s->stream != NULL)
        return gwi_stream_model(s, params);
    GWI_TRY(gwi_late_outcome(s));
    if (s->now.model || gwi_repairs(s))
        gwi_undo_begin(s, params);
    gwi_measure_begin(s);
    st = model_step(s, params);
    if (st == GW_OK && s->now.model)
        s->exchanged = s->step;
    gwi_measure_end(s);
    gwi_late_show(s);
    return end_model_step(s, params, st);
}

gw_status gw_sync_start(gw_sync *s, float *params)
{
    size_t n = s->layout->floats;

    GWI_TRY(gw_broadcast(s->comm, params, n * sizeof *params, 0));
    size_t bad = gwi_looks(s) ? gwi_first_nonfinite(params, n) : n;
    if (bad < n)
        return gwi_model_outcome(s, GW_OK, gwi_note_about(s, 0, bad));
    if (s->kept[GWI_REFERENCE] != NULL)
        memcpy(s->kept[GWI_REFERENCE], params, n * sizeof *params);
    s->started = true;
    return GW_OK;
}

/* Whether the last step has left the same model, or mean of models, on all workers:
 * another average would only round it. The same on all of them, and in a run that was
 * resumed: it follows from the step and the schedule. */
static bool leaves_equal(const gw_sync *s)
{
    if (s->step == 0)
        return false;
    if (gwi_selector_of(&s->spec)->of_models)
        return gwi_repairs(s);
    if (s->step <= gwi_schedule_start(&s->spec))
        return s->started; /* dense steps from equal models */
    return !gwi_sees_models(&s->spec) && gwi_stream_meets(&s->spec) &&
           s->step == s->phase.end && s->step == s->exchanged;
}

/* Ends a training whose workers may come and go. Those that come later take the model
 * as it is then. There is no comparison, which those that have it behind them would not
 * take part in again; every entry has one. */
static gw_status finish_elastic(gw_sync *s, float *params, bool averages)
{
    gwi_note note = 0;
    gw_status st;

    if (gwi_undo_answers(s, params, GWI_MODEL_CALL, &st))
        return st;
    if (!averages || s->undo->finished == s->step)
        return GW_OK;
    gwi_undo_begin(s, params);
    gwi_end_models(s, params);
    gwi_measure_begin(s);
    st = average_models(s, params, &note);
    gwi_measure_end(s);
    st = gwi_model_outcome(s, st, note);
    if (st == GW_OK)
        gwi_undo_finish(s, params);
    st = gwi_undo_end(s, params, GWI_MODEL_CALL, st);
    if (st == GW_OK)
        gwi_undo_common(s, params);
    return st;
}

gw_status gw_sync_finish(gw_sync *s, float *params)
{
    bool meets = s->spec.subject != GWI_GRADIENT;
    bool averages = meets && !leaves_equal(s);
    gwi_note note = 0;
    gw_status st = GW_OK;

    if (s->undo != NULL)
        return finish_elastic(s, params, averages);
    GWI_TRY(gwi_late_finish(s));
    gwi_end_models(s, params);
    if (averages) {
        gwi_measure_begin(s);
        st = average_models(s, params, &note);
        gwi_measure_end(s);
    }
    gwi_late_show(s);
    GWI_TRY(gwi_model_outcome(s, st, note));
    return gwi_agreement_ends(s, averages) ? gwi_agreement_check(s, params) : GW_OK;
}

/* ---- what there is to know ---------------------------------------------- */

int gw_sync_keeps_equal(const gw_sync *s)
{
    bool always = gwi_schedule_of(&s->spec)->talks && s->spec.subject == GWI_GRADIENT;

    return s->comm->workers == 1 || (always && !gwi_exchange_of(&s->spec)->differs);
}

const char *gw_sync_spec(const gw_sync *s)
{
    return s->text;
}

gw_stats gw_sync_stats(const gw_sync *s)
{
    return gwi_late_stats(s);
}

double gw_sync_residual_norm(const gw_sync *s)
{
    const float *r = s->kept[GWI_RESIDUAL];

    gwi_late_await(s);
    return r != NULL ? sqrt(gwi_sumsq(r, s->layout->floats)) : 0;
}
