/* SPDX-License-Identifier: Apache-2.0
 *
 * segments.c - cutting a layout, and one gw_sync for each segment. */
#include "sync/segments.h"

#include <string.h>

#include "sync/beside/stream.h"
#include "sync/state/memories.h"

/* ---- where to cut --------------------------------------------------------------- */

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The next piece: whole rows if the place is at the beginning of one that fits. */
static gw_tensor piece_of(const gw_layout *l, const gwi_cut *at)
{
    const gw_tensor *t = &l->tensors[at->tensor];
    size_t begin = t->offset + at->inside, column = at->inside % t->cols;
    size_t left = lesser(t->offset + t->rows * t->cols, at->bound) - begin;
    size_t most = lesser(gwi_segment_floats, left);

    if (column == 0 && t->cols <= most)
        return (gw_tensor){t->name, begin, most / t->cols, t->cols};
    return (gw_tensor){t->name, begin, 1, lesser(most, t->cols - column)};
}

/* Moves a place, a tensor and so many floats into it, past a piece. */
static void pass(const gw_layout *l, const gw_tensor *piece, gwi_cut *cut)
{
    const gw_tensor *t = &l->tensors[cut->tensor];

    cut->inside += piece->rows * piece->cols;
    if (cut->inside == t->rows * t->cols) {
        cut->tensor++;
        cut->inside = 0;
    }
}

/* Moves on to the fragment of the float that comes next. */
static void enter_fragment(const gw_layout *l, gwi_cut *cut)
{
    if (cut->spec == NULL)
        cut->bound = l->floats;
    if (cut->end < cut->bound || cut->end == l->floats)
        return;
    cut->fragment += cut->end > 0;
    cut->bound = gwi_fragment_end(cut->spec, l, cut->fragment, cut->tensor);
}

bool gwi_cut_next(const gw_layout *l, gwi_cut *cut)
{
    enter_fragment(l, cut);
    cut->begin = cut->end;
    cut->pieces = 0;
    while (cut->end < cut->bound) {
        gw_tensor piece = piece_of(l, cut);
        size_t end = cut->end + piece.rows * piece.cols;
        if (end - cut->begin > gwi_segment_floats)
            break;
        cut->end = end;
        cut->pieces++;
        pass(l, &piece, cut);
    }
    return cut->end > cut->begin;
}

static size_t count_segments(const gw_layout *l, const gwi_spec *spec)
{
    gwi_cut cut = {.spec = spec};
    size_t count = 0;

    while (gwi_cut_next(l, &cut))
        count++;
    return count;
}

/* The layout of the segment that begins at `from` and has so many pieces. */
static gw_status make_layout(gw_layout **out, const gw_layout *l, gwi_cut from,
                             size_t pieces)
{
    gw_tensor *tensors = gwi_calloc(pieces, sizeof *tensors);
    size_t base = from.end;

    if (tensors == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a layout");
    for (size_t i = 0; i < pieces; i++) {
        tensors[i] = piece_of(l, &from);
        pass(l, &tensors[i], &from);
        tensors[i].offset -= base;
    }
    gw_status st = gw_layout_new(out, tensors, pieces);
    gwi_free(tensors);
    return st;
}

/* ---- making ------------------------------------------------------------------------
 */

/* What a segment has of the whole. */
static void inherit(gw_sync *segment, gw_sync *s, size_t number, size_t base)
{
    segment->whole = s;
    segment->number = number;
    segment->base = base;
    segment->comm = s->comm;
    segment->nonfinite = s->nonfinite;
    segment->seed = s->seed;
    memcpy(segment->text, s->text, sizeof s->text);
}

static gw_status make_all(gw_sync *s)
{
    gwi_cut cut = {.spec = &s->spec}, before = cut;

    for (size_t i = 0; gwi_cut_next(s->layout, &cut); i++, before = cut) {
        gw_sync *segment = gwi_sync_allocate(&s->spec);
        if (segment == NULL)
            return gw_fail(GW_ERR_NOMEM, "not enough memory for a sync");
        s->segments[i] = segment;
        s->segment_count++;
        inherit(segment, s, i, cut.begin);
        segment->fragment = cut.fragment;
        before.bound = cut.bound;
        GWI_TRY(make_layout(&segment->layout, s->layout, before, cut.pieces));
    }
    return GW_OK;
}

/* The whole of a stream goes on with its steps while a segment is exchanged, so that
 * they cannot be one. */
gw_status gwi_segments_new(gw_sync *s)
{
    size_t count;

    GWI_TRY(gwi_fragments_check(&s->spec, s->layout));
    if (s->layout->floats <= gwi_segment_floats && !gwi_streams(&s->spec))
        return GW_OK;
    count = count_segments(s->layout, &s->spec);
    s->segment_count = 0;
    s->segments = gwi_calloc(count, sizeof(gw_sync *));
    if (s->segments == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu segments", count);
    return make_all(s);
}

void gwi_segments_free(gw_sync *s)
{
    if (s->segments == &s->alone)
        return;
    for (size_t i = 0; i < s->segment_count; i++) {
        gw_layout_free(s->segments[i]->layout);
        gwi_free(s->segments[i]);
    }
    gwi_free(s->segments);
}

static void share_kept(gw_sync *s, const gwi_remembered *m)
{
    float *at = s->kept[m->tag];

    for (size_t i = 0; i < s->segment_count; i++) {
        s->segments[i]->kept[m->tag] = at;
        if (m->floats == NULL || m->by_layout)
            at += gwi_memory_floats(&s->spec, s->segments[i]->layout, m);
    }
}

void gwi_segments_share(gw_sync *s)
{
    gwi_memory_walk walk = {0};
    const gwi_remembered *m;

    while ((m = gwi_next_memory(&s->spec, &walk)) != NULL)
        share_kept(s, m);
}

/* ---- in a step ---------------------------------------------------------------------
 */

void gwi_segments_follow(gw_sync *s)
{
    for (size_t i = 0; i < s->segment_count; i++) {
        if (s->segments[i]->away)
            continue;
        s->segments[i]->step = s->step;
        s->segments[i]->now = s->now;
    }
}

gwi_run_of gwi_segments_of(const gw_sync *s, size_t fragment)
{
    gwi_run_of of = {0, s->segment_count};

    while (of.begin < of.end && s->segments[of.begin]->fragment < fragment)
        of.begin++;
    while (of.begin < of.end && s->segments[of.end - 1]->fragment > fragment)
        of.end--;
    return of;
}

gw_status gwi_segments_run(gw_sync *s, gwi_run_of of, float *v, gwi_note *note,
                           gwi_segment_run *run)
{
    gwi_note own = *note;

    for (size_t i = of.end; i-- > of.begin;) {
        gw_sync *segment = s->segments[i];
        gwi_note found = own;
        gw_status st = run(segment, v + segment->base, &found);
        segment->gave = found == 0;
        *note = gwi_lesser_note(*note, found);
        GWI_TRY(st);
    }
    return GW_OK;
}
