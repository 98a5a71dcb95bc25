/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.c - gradients in several pieces of memory.
 *
 * Sparse methods need no vector. Top-k adds the pieces to the residual in the pass that
 * selects; for others each piece is added to its place in the residual and cleared
 * while it is still in the cache, and the selection then reads only the residual. The
 * result is added to the pieces. Other methods copy the pieces into a vector of the
 * sync, and back. The bits are the same as with one vector. */
#include "sync/pieces.h"

#include <string.h>

#include "kernels/vector.h"
#include "sync/notes.h"
#include "sync/beside/late.h"
#include "sync/beside/overlap.h"
#include "sync/selection.h"

/* Floats that are added and cleared in one go: 16 KiB of each vector, half of what a
 * first-level cache holds. */
enum { BLOCK = 4096 };

/* ---- in the pieces ------------------------------------------------------ */

size_t gwi_pieces_first_nonfinite(const gwi_result *p)
{
    size_t at = 0;

    for (size_t i = 0; i < p->count; i++) {
        size_t n = p->pieces[i].floats, bad = gwi_first_nonfinite(p->pieces[i].at, n);
        at += bad;
        if (bad < n)
            return at;
    }
    return at;
}

static void move(float *to, float *from, size_t n)
{
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t len = n - i < BLOCK ? n - i : BLOCK;
        gwi_vector()->add(to + i, from + i, len);
        memset(from + i, 0, len * sizeof *from);
    }
}

void gwi_pieces_move(const gwi_result *p, float *to)
{
    for (size_t i = 0; i < p->count; i++) {
        move(to, p->pieces[i].at, p->pieces[i].floats);
        to += p->pieces[i].floats;
    }
}

/* ---- in a vector -------------------------------------------------------- */

static gw_status get_gathered(gw_sync *s)
{
    size_t n = s->layout->floats;

    if (s->gathered == NULL)
        s->gathered = gwi_calloc(n, sizeof *s->gathered);
    return s->gathered != NULL
               ? GW_OK
               : gw_fail(GW_ERR_NOMEM, "not enough memory to gather %zu floats", n);
}

static void gather(gw_sync *s, const gwi_result *p)
{
    float *v = s->gathered;

    for (size_t i = 0; i < p->count; v += p->pieces[i++].floats)
        memcpy(v, p->pieces[i].at, p->pieces[i].floats * sizeof *v);
}

static void scatter(gw_sync *s, const gwi_result *p)
{
    const float *v = s->gathered;

    for (size_t i = 0; i < p->count; v += p->pieces[i++].floats)
        memcpy(p->pieces[i].at, v, p->pieces[i].floats * sizeof *v);
}

static gw_status by_copies(gw_sync *s, const gwi_result *p, gwi_note *note)
{
    gather(s, p);
    GWI_TRY(gwi_sync_whole(s, s->gathered, note));
    scatter(s, p);
    return GW_OK;
}

/* A step that may be put back leaves the pieces alone if it fails. */
static gw_status by_one_call(gw_sync *s, const gwi_result *p)
{
    gw_status st;

    GWI_TRY(get_gathered(s));
    gather(s, p);
    st = gw_sync_gradient(s, s->gathered);
    if (st == GW_OK)
        scatter(s, p);
    return st;
}

/* ---- the call ----------------------------------------------------------- */

static gw_status check_pieces(const gw_sync *s, const gw_piece *list, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += list[i].floats;
    if (n != s->layout->floats)
        return gw_fail(GW_ERR_ARG, "the pieces have %zu floats, but the model has %zu",
                       n, s->layout->floats);
    if (gwi_overlap_pending(s))
        return gw_fail(GW_ERR_ARG, "tensors were fed with gw_sync_gradient_part(); end "
                                   "the step with gw_sync_gradient()");
    return GW_OK;
}

gw_status gw_sync_gradient_pieces(gw_sync *s, const gw_piece *pieces, size_t count)
{
    gwi_result at = {.pieces = pieces, .count = count};
    gwi_note note = 0;
    gw_status st;

    GWI_TRY(check_pieces(s, pieces, count));
    if (count == 1)
        return gw_sync_gradient(s, pieces[0].at);
    if (s->undo != NULL)
        return by_one_call(s, &at);
    if (s->late != NULL)
        return gwi_late_gradient(s, pieces, count);
    gwi_sync_begin_step(s);
    if (!s->now.gradient || gwi_goes_straight(s)) {
        st = gwi_sync_pieces(s, &at, &note);
    } else {
        st = get_gathered(s);
        if (st == GW_OK)
            st = by_copies(s, &at, &note);
    }
    return gwi_sync_outcome(s, st, note);
}
