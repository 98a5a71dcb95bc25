/* SPDX-License-Identifier: Apache-2.0
 *
 * notes.c - makes notes, sends them, and acts on them. */
#include "sync/notes.h"

#include <inttypes.h>

#include "kernels/vector.h"

/* ---- making ------------------------------------------------------------- */

gwi_note gwi_note_about(const gw_sync *s, int worker, size_t index)
{
    const gw_layout *l = s->whole->layout;
    const gw_tensor *t = gwi_layout_find(l, s->base + index);

    return (uint64_t)(worker + 1) << 32 | (uint64_t)(t - l->tensors);
}

gwi_note gwi_note_at(const gw_sync *s, size_t index)
{
    return gwi_note_about(s, s->comm->rank, index);
}

gwi_note gwi_note_of_sum(const gw_sync *s, size_t index)
{
    return gwi_note_about(s, s->comm->workers, index);
}

gwi_note gwi_look_at(const gw_sync *s, const float *v, size_t begin, size_t end)
{
    size_t bad;

    if (!gwi_looks(s))
        return 0;
    bad = begin + gwi_first_nonfinite(v + begin, end - begin);
    return bad == end ? 0 : gwi_note_at(s, bad);
}

/* A reduction knows indices, not tensors. */
static gwi_note settle(const gw_sync *s, gwi_note note, size_t n, size_t base)
{
    size_t index = note & UINT32_MAX;

    if ((note & GWI_NOTE_SUM) != GWI_NOTE_SUM || index >= n)
        return note;
    return gwi_note_of_sum(s, base + index);
}

gw_status gwi_average(gw_sync *s, float *x, size_t n, size_t base, gwi_note *note)
{
    float workers = (float)s->comm->workers;

    if (!gwi_looks(s))
        return gwi_allreduce(s->comm, x, n, workers, NULL);
    GWI_TRY(gwi_allreduce(s->comm, x, n, workers, note));
    *note = settle(s, *note, n, base);
    return GW_OK;
}

/* A part of the layout's vector. */
typedef struct part {
    const gw_sync *sync;
    size_t base;
} part;

static gwi_note note_in_part(void *arg, int worker, size_t index)
{
    const part *at = arg;

    return gwi_note_about(at->sync, worker, at->base + index);
}

gw_status gwi_average_looking(gw_sync *s, float *x, size_t n, size_t base,
                              gwi_note *note)
{
    part at = {s, base};
    gwi_looker look = {note_in_part, &at};

    if (!gwi_looks(s))
        return gwi_average(s, x, n, base, note);
    GWI_TRY(gwi_allreduce_looking(s->comm, x, n, (float)s->comm->workers, note, &look));
    *note = settle(s, *note, n, base);
    return GW_OK;
}

gw_status gwi_combine(gw_sync *s, float *x, gwi_combine_run *combine, void *arg,
                      gwi_note *note)
{
    size_t n = s->layout->floats;

    if (!gwi_looks(s))
        return gwi_combine_doubling(s->comm, x, n, combine, arg, NULL);
    GWI_TRY(gwi_combine_doubling(s->comm, x, n, combine, arg, note));
    *note = settle(s, *note, n, 0);
    return GW_OK;
}

/* ---- sending ------------------------------------------------------------ */

size_t gwi_put_note(const gw_sync *s, uint8_t *msg, gwi_note note)
{
    gwi_wire_put_note(msg, (uint32_t)s->layout->floats, (uint32_t)s->step,
                      (gwi_wire_trouble){.worker = (uint32_t)(note >> 32) - 1,
                                         .tensor = (uint32_t)note});
    return GWI_WIRE_NOTE_LEN;
}

gw_status gwi_blame(gw_sync *s, int from, gw_status st)
{
    if (st != GW_ERR_DATA)
        return st;
    gw_fail(st, "worker %d on host %s sent a message that cannot be used: %s", from,
            gw_comm_host(s->comm, from) != NULL ? gw_comm_host(s->comm, from) : "?",
            gw_error_message());
    return gwi_comm_break(s->comm, st);
}

static gw_status check_note(const gw_sync *s, gwi_note note)
{
    /* A message that names worker 2^32 - 1 makes a note that wraps to 0. */
    uint64_t worker = (uint32_t)((note >> 32) - 1), tensor = note & UINT32_MAX;
    size_t tensors = s->whole->layout->count;

    if (worker > (uint64_t)s->comm->workers || tensor >= tensors)
        return gw_fail(GW_ERR_DATA,
                       "a note about NaN names tensor %" PRIu64 " of worker %" PRIu64
                       ", but there are %zu tensors and %d workers",
                       tensor, worker, tensors, s->comm->workers);
    if (!gwi_looks(s))
        return gw_fail(
            GW_ERR_DATA,
            "unexpected note about NaN, which this worker does not check for");
    return GW_OK;
}

static gw_status read_note(const gw_sync *s, const uint8_t *msg, size_t len,
                           gwi_note *note)
{
    gwi_wire_form want = {.kind = GWI_WIRE_NOTE,
                          .n = (uint32_t)s->layout->floats,
                          .step = (uint32_t)s->step};
    gwi_wire_view view;

    GWI_TRY(gwi_wire_open(&view, msg, len));
    GWI_TRY(gwi_wire_expect(&view, &want));
    gwi_wire_trouble said = gwi_wire_get_note(&view);
    *note = ((uint64_t)said.worker + 1) << 32 | said.tensor;
    return check_note(s, *note);
}

gw_status gwi_get_note(gw_sync *s, int from, const uint8_t *msg, size_t len,
                       gwi_note *note)
{
    *note = 0;
    if (!gwi_wire_looks_like_note(msg, len))
        return GW_OK;
    return gwi_blame(s, from, read_note(s, msg, len, note));
}

gw_status gwi_least_note(gw_sync *s, const uint8_t *slots, size_t cap,
                         const size_t *lens, gwi_note *note)
{
    *note = 0;
    for (int r = 0; r < s->comm->workers; r++) {
        gwi_note theirs;
        GWI_TRY(gwi_get_note(s, r, slots + (size_t)r * cap, lens[r], &theirs));
        *note = gwi_lesser_note(*note, theirs);
    }
    return GW_OK;
}

/* ---- keeping ------------------------------------------------------------ */

void gwi_note_keep(float *parts, gwi_note note)
{
    for (int i = 0; i < GWI_NOTE_PARTS; i++)
        parts[i] = (float)(note >> (16 * i) & 0xffff);
}

gwi_note gwi_note_kept(const float *parts)
{
    gwi_note note = 0;

    for (int i = 0; i < GWI_NOTE_PARTS; i++)
        if (parts[i] >= 0 && parts[i] < 65536)
            note |= (gwi_note)parts[i] << (16 * i);
    return note;
}

/* ---- acting ------------------------------------------------------------- */

static gw_status fail_number(gw_sync *s, gwi_note note, const char *what)
{
    int worker = (int)(note >> 32) - 1;
    const char *tensor = s->layout->tensors[note & UINT32_MAX].name;

    if (worker == s->comm->workers)
        return gw_fail(GW_ERR_NUMBER,
                       "the sum of the workers' %ss is NaN or infinite in tensor '%s' "
                       "(step %" PRIu64 "), though every %s is finite",
                       what, tensor, s->step, what);
    return gw_fail(GW_ERR_NUMBER,
                   "the %s of worker %d holds NaN or infinity in tensor '%s' (step "
                   "%" PRIu64 ")",
                   what, worker, tensor, s->step);
}

/* Workers leave an exchange one after the other. One that stops at a bad number may
 * have told the others so before these are through; for them its end is GW_ERR_PEER,
 * but whoever knows of the number itself, as the one whose gradient it is does, stops
 * there like the first. */
static gw_status outcome(gw_sync *s, gw_status st, gwi_note note, bool skips,
                         const char *what)
{
    if (note != 0 && (st == GW_OK || (st == GW_ERR_PEER && !skips))) {
        gw_status good = check_note(s, note);
        if (good != GW_OK)
            return gwi_comm_break(s->comm, good);
        if (!skips)
            return fail_number(s, note, what);
        s->stats.skipped++;
        return GW_SKIPPED;
    }
    return st;
}

gw_status gwi_sync_outcome(gw_sync *s, gw_status st, gwi_note note)
{
    return outcome(s, st, note, s->nonfinite == GW_NONFINITE_SKIP, "gradient");
}

gw_status gwi_model_outcome(gw_sync *s, gw_status st, gwi_note note)
{
    return outcome(s, st, note, false, "model");
}
