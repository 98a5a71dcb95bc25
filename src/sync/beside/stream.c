/* SPDX-License-Identifier: Apache-2.0
 *
 * stream.c - changes of the model that are exchanged in fragments, beside further local
 * steps. */
#include "sync/beside/stream.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/beside/courier.h"
#include "sync/buckets.h"
#include "sync/guard.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/schedule.h"
#include "sync/segments.h"
#include "sync/state/agreement.h"
#include "sync/state/past_models.h"
#include "trace.h"

/* ---- the part -------------------------------------------------------------------- */

typedef struct options {
    uint64_t fragments, delay;
    double mix;
    int cut;
} options;

enum { CUT_EVEN, CUT_TENSORS };

static const options *options_of(const gwi_spec *spec)
{
    static const options none = {.fragments = 1};

    return spec->part[GWI_LATE] == &gwi_stream ? gwi_options_of(spec, GWI_LATE) : &none;
}

static const gwi_key keys[] = {
    {.name = "fragments",
     .meaning = "parts of the model that are exchanged in turns, each once in a period",
     .fallback = "1",
     .range = "a count from 1 to 1024",
     .least = 1,
     .most = 1024,
     .unsaid = true,
     .at = offsetof(options, fragments),
     .value = GWI_COUNT},
    {.name = "delay",
     .meaning =
         "steps that are computed while an exchange runs; then its result is used",
     .fallback = "0",
     .range = "a count of steps, fewer than those of a turn",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .unsaid = true,
     .at = offsetof(options, delay),
     .value = GWI_COUNT},
    {.name = "mix",
     .meaning = "how much of its own model a worker keeps; 0: it takes the common one",
     .fallback = "0",
     .range = "from 0 to 1",
     .least = 0,
     .most = 1,
     .unsaid = true,
     .at = offsetof(options, mix),
     .value = GWI_NUMBER},
    {.name = "cut",
     .meaning = "fragments are as even as they can be, or have whole tensors",
     .fallback = "even",
     .words = "even|tensors",
     .unsaid = true,
     .at = offsetof(options, cut),
     .value = GWI_WORD},
    {.name = NULL},
};

bool gwi_streams(const gwi_spec *spec)
{
    const options *opt = options_of(spec);

    return opt->fragments > 1 || opt->delay > 0 || opt->mix > 0;
}

uint64_t gwi_stream_delay(const gwi_spec *spec)
{
    return options_of(spec)->delay;
}

bool gwi_stream_meets(const gwi_spec *spec)
{
    const options *opt = options_of(spec);

    return opt->fragments == 1 && opt->mix == 0;
}

size_t gwi_fragments(const gwi_spec *spec)
{
    return (size_t)options_of(spec)->fragments;
}

static uint64_t period_of(const gwi_spec *spec)
{
    return gwi_schedule_of(spec)->period(spec, 0, 1);
}

static gw_status check_turns(const gwi_spec *spec, const gwi_stage *stage)
{
    const options *opt = options_of(spec);
    uint64_t every = period_of(spec);

    if (every < opt->fragments)
        return gw_fail(GW_ERR_SPEC,
                       "'%s' has periods of %" PRIu64 " steps, in which %" PRIu64
                       " fragments cannot have their turns",
                       stage->name, every, opt->fragments);
    if (opt->delay >= every / opt->fragments)
        return gw_fail(GW_ERR_SPEC,
                       "delay must be below %" PRIu64 ", the steps between exchanges "
                       "of '%s' with every=%" PRIu64 " and fragments=%" PRIu64,
                       every / opt->fragments, stage->name, every, opt->fragments);
    return GW_OK;
}

static gw_status stream_check(const gwi_spec *spec, const gwi_stage *stage)
{
    if (!gwi_streams(spec))
        return GW_OK;
    if (gwi_schedule_of(spec)->growth(spec) > 0)
        return gw_fail(GW_ERR_SPEC,
                       "fragments, delay and mix need periods of one length; write "
                       "'%s:30' instead of grow",
                       stage->name);
    if (gwi_memory_of(spec) == &gwi_memory_ef21)
        return gw_fail(GW_ERR_SPEC,
                       "'ef21' estimates whole changes; it does not fit fragments, "
                       "delay and mix");
    return check_turns(spec, stage);
}

/* The second is of no use here: the memory is like that of late gradients. */
enum { UNDER_WAY, NOTE = 2, WAITING = NOTE + GWI_NOTE_PARTS };

static size_t waiting_floats(const gwi_spec *spec, const gw_layout *layout)
{
    (void)spec, (void)layout;
    return WAITING;
}

static const gwi_remembered memories[] = {
    {.name = "pending",
     .what = "change under way",
     .tag = GWI_PENDING,
     .handing = GW_HANDING_COMMON,
     .wanted = gwi_streams},
    {.name = "waiting",
     .what = "note of the change under way",
     .tag = GWI_WAITING,
     .handing = GW_HANDING_COMMON,
     .wanted = gwi_streams,
     .floats = waiting_floats},
    {.name = NULL},
};

const gwi_part gwi_stream = {.name = "stream",
                             .keys = keys,
                             .options_size = sizeof(options),
                             .check = stream_check,
                             .memories = memories};

/* ---- turns and fragments ----------------------------------------------------------
 */

gwi_turn gwi_turn_at(const gwi_spec *spec, uint64_t local_step)
{
    uint64_t every = period_of(spec), count = options_of(spec)->fragments;
    uint64_t within = (local_step - 1) % every, before = local_step - 1 - within;
    uint64_t f = ((within + 1) * count + every - 1) / every - 1;

    return (gwi_turn){.begin = before + f * every / count,
                      .end = before + (f + 1) * every / count,
                      .fragment = (size_t)f};
}

bool gwi_turn_begins(const gwi_spec *spec, const gwi_turn *turn, uint64_t local_step)
{
    return local_step == turn->end - options_of(spec)->delay;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* Fragments end between rows if these are short: at least so many make a fragment. */
enum { ROWS_OF_A_FRAGMENT = 16 };

static size_t even_end(const gw_layout *l, size_t count, size_t f)
{
    size_t goal = (size_t)((f + 1) * (uint64_t)l->floats / count);
    const gw_tensor *t = gwi_layout_find(l, goal);
    size_t over = (goal - t->offset) % t->cols;

    if (t->cols > l->floats / count / ROWS_OF_A_FRAGMENT)
        return goal;
    return 2 * over > t->cols ? goal - over + t->cols : goal - over;
}

static size_t tensors_end(const gw_layout *l, size_t count, size_t f, size_t begin)
{
    size_t last = l->count - (count - 1 - f), best = begin + 1;
    uint64_t goal = (f + 1) * (uint64_t)l->floats;

    for (size_t t = best; t <= last; t++)
        if (distance(count * (uint64_t)l->tensors[t].offset, goal) <
            distance(count * (uint64_t)l->tensors[best].offset, goal))
            best = t;
    return l->tensors[best].offset;
}

size_t gwi_fragment_end(const gwi_spec *spec, const gw_layout *l, size_t f,
                        size_t begin)
{
    size_t count = gwi_fragments(spec);

    if (f == count - 1)
        return l->floats;
    return options_of(spec)->cut == CUT_EVEN ? even_end(l, count, f)
                                             : tensors_end(l, count, f, begin);
}

gw_status gwi_fragments_check(const gwi_spec *spec, const gw_layout *l)
{
    bool even = options_of(spec)->cut == CUT_EVEN;
    size_t count = gwi_fragments(spec), there = even ? l->floats : l->count;

    if (there >= count)
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "%zu fragments need as many %s, but the model has only %zu", count,
                   even ? "parameters" : "tensors with cut=tensors", there);
}

/* ---- what there is ----------------------------------------------------------------
 */

struct gwi_stream {
    gwi_courier *courier; /* NULL: there is no delay */
    gwi_run_of turn;      /* segments of the fragment whose turn it is */
    bool away;
    gw_status status; /* of what did not go away */
    gw_stats shown;   /* what there was when it went away */
};

gw_status gwi_stream_init(gw_sync *s)
{
    if (!gwi_streams(&s->spec))
        return GW_OK;
    s->stream = gwi_calloc(1, sizeof *s->stream);
    if (s->stream == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for exchanges in fragments");
    return gwi_streams_late(&s->spec) ? gwi_courier_new(&s->stream->courier, s) : GW_OK;
}

void gwi_stream_free(gw_sync *s)
{
    if (s->stream == NULL)
        return;
    gwi_courier_free(s->stream->courier);
    gwi_free(s->stream);
    s->stream = NULL;
}

bool gwi_stream_is_away(const gw_sync *s)
{
    return s->stream != NULL && s->stream->away;
}

void gwi_stream_await(const gw_sync *s)
{
    if (gwi_stream_is_away(s))
        gwi_courier_await(s->stream->courier);
}

gw_status gwi_stream_outcome(const gw_sync *s)
{
    return gwi_stream_is_away(s) ? gwi_courier_outcome(s->stream->courier) : GW_OK;
}

/* Steps and skipped ones are the caller's own; the rest may change at any time. */
gw_stats gwi_stream_stats(const gw_sync *s)
{
    if (!gwi_stream_is_away(s))
        return s->stats;
    gw_stats shown = s->stream->shown;
    shown.steps = s->stats.steps;
    shown.skipped = s->stats.skipped;
    return shown;
}

/* Where the fragment whose turn it is lies in the vector. */
static gwi_common floats_of_turn(const gw_sync *s)
{
    gwi_run_of turn = s->stream->turn;
    const gw_sync *last = s->segments[turn.end - 1];

    return (gwi_common){.begin = s->segments[turn.begin]->base,
                        .end = last->base + last->layout->floats};
}

/* ---- the courier's side ---------------------------------------------------------- */

/* Each segment has a residual of its own to look after. */
static void guard(gw_sync *s, bool ends)
{
    for (size_t i = s->stream->turn.begin; i < s->stream->turn.end; i++) {
        gw_sync *segment = s->segments[i];
        gwi_result at = {.v = s->kept[GWI_PENDING] + segment->base};
        if (ends)
            gwi_guard_end(segment);
        else
            gwi_guard_begin(segment, &at);
    }
}

static gw_status average(gw_sync *s, gwi_note *note)
{
    gwi_run_of turn = s->stream->turn;
    float *v = s->kept[GWI_PENDING];

    if (s->segments[turn.begin]->now.dense) {
        gwi_decodes(s);
        return gwi_segments_run(s, turn, v, note, gwi_average_dense);
    }
    guard(s, false);
    GWI_TRY(gwi_sync_segments(s, turn, v, note));
    if (*note == 0)
        guard(s, true);
    return GW_OK;
}

/* Waiting beside the caller costs the caller nothing and does not count. */
static gw_status exchange(gw_sync *s)
{
    gwi_common at = floats_of_turn(s);
    double waited = s->stats.wait_seconds;

    gwi_measure_begin(s);
    gwi_note note = gwi_look_at(s, s->kept[GWI_PENDING], at.begin, at.end);
    gw_status st = average(s, &note);
    gwi_measure_end(s);
    if (s->stream->away)
        s->stats.wait_seconds = waited;
    if (note != 0)
        memset(s->kept[GWI_PENDING] + at.begin, 0, (at.end - at.begin) * sizeof(float));
    gwi_note_keep(s->kept[GWI_WAITING] + NOTE, note);
    return st;
}

/* ---- the caller's side ----------------------------------------------------------- */

static void set_away(gw_sync *s, bool away)
{
    s->stream->away = away;
    for (size_t i = s->stream->turn.begin; i < s->stream->turn.end; i++)
        s->segments[i]->away = away;
}

/* The guards of the segments know of rates, and the whole of what they found. */
static void tell_guards(gw_sync *s)
{
    for (size_t i = s->stream->turn.begin; i < s->stream->turn.end; i++) {
        s->segments[i]->guard.rate = s->guard.rate;
        s->segments[i]->guard.highest_rate = s->guard.highest_rate;
    }
}

static void ask_guards(gw_sync *s)
{
    for (size_t i = s->stream->turn.begin; i < s->stream->turn.end; i++) {
        const gw_health *found = &s->segments[i]->guard.health;
        if (found->step > 0 && !s->guard.health.runs_away)
            s->guard.health = *found;
    }
}

static void find_turn(gw_sync *s)
{
    uint64_t start = gwi_schedule_start(&s->spec);
    gwi_turn turn = gwi_turn_at(&s->spec, s->step - start);

    s->stream->turn = gwi_segments_of(s, turn.fragment);
}

/* Takes the change of the fragment, and sends the courier if there is one. */
static void begin(gw_sync *s, const float *x)
{
    gwi_common at = floats_of_turn(s);

    gwi_subtract(s->kept[GWI_PENDING] + at.begin, x + at.begin,
                 s->kept[GWI_REFERENCE] + at.begin, at.end - at.begin);
    tell_guards(s);
    s->kept[GWI_WAITING][UNDER_WAY] = 1;
    if (s->stream->courier == NULL) {
        s->stream->status = exchange(s);
        return;
    }
    s->stream->shown = s->stats;
    set_away(s, true);
    gwi_courier_send(s->stream->courier, exchange);
}

/* Waits for what is under way, and returns what became of it. Nothing is under way
 * then. A run that was resumed has had its result already. */
static gw_status collect(gw_sync *s)
{
    double began = gwi_now();
    gw_status st =
        s->stream->courier != NULL ? gwi_stream_outcome(s) : s->stream->status;
    double now = gwi_now();

    if (gwi_stream_is_away(s)) {
        set_away(s, false);
        s->stats.wait_seconds += now - began;
        gwi_trace_wait(s->comm, began, now);
    }
    ask_guards(s);
    st = gwi_model_outcome(s, st, gwi_note_kept(s->kept[GWI_WAITING] + NOTE));
    memset(s->kept[GWI_WAITING], 0, WAITING * sizeof(float));
    return st;
}

/* The outer step makes the next common state of the average; the worker goes on with
 * that and its own. */
static void apply(gw_sync *s, float *x)
{
    float *z = s->kept[GWI_PENDING];
    float own = (float)options_of(&s->spec)->mix, common = 1 - own;
    gwi_common at = floats_of_turn(s);

    for (size_t i = s->stream->turn.begin; i < s->stream->turn.end; i++)
        gwi_outer_of(&s->spec)->step(s->segments[i], z + s->segments[i]->base);
    for (size_t i = at.begin; i < at.end; i++)
        x[i] = own > 0 ? common * z[i] + own * x[i] : z[i];
}

/* Models have the same bits on all workers after dense steps, and common states always
 * have. */
static gw_status compare(gw_sync *s, float *x)
{
    if (!gwi_agreement_due(s))
        return GW_OK;
    gwi_measure_begin(s);
    gw_status st = gwi_agreement_check(s, s->now.gradient ? x : s->kept[GWI_REFERENCE]);
    gwi_measure_end(s);
    return st;
}

gw_status gwi_stream_model(gw_sync *s, float *x)
{
    gwi_see_model(s, x);
    if (s->now.begins || s->now.model)
        find_turn(s);
    if (s->now.begins)
        begin(s, x);
    if (s->now.model) {
        GWI_TRY(collect(s));
        apply(s, x);
        s->exchanged = s->step;
    }
    return compare(s, x);
}

gw_status gwi_stream_finish(gw_sync *s)
{
    if (s->stream == NULL || s->kept[GWI_WAITING][UNDER_WAY] == 0)
        return GW_OK;
    find_turn(s);
    return collect(s);
}
