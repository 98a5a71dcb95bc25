/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.c - gradients that do not lie in one piece.
 *
 * Sparse methods need no vector: a piece is added to its place in the residual and
 * cleared while it is still in the cache, the selection looks at the residual alone,
 * and what came out is added to the pieces. Others work in a vector of the sync's own,
 * into which the pieces are copied and back. The bits are those of one vector. */
#include "sync/pieces.h"

#include <string.h>

#include "kernels/vector.h"
#include "sync/notes.h"
#include "sync/overlap.h"

/* Floats that are added and cleared in one go: 16 KiB of each vector, half of what a
 * first-level cache holds. */
enum { BLOCK = 4096 };

/* ---- in the pieces ------------------------------------------------------ */

static bool stays_in_pieces(const gw_sync *s)
{
    bool sparse = s->exchange->takes_pieces && s->residual != NULL &&
                  s->velocity == NULL && s->small.count == 0;

    return !s->now.gradient || (sparse && !s->now.dense);
}

size_t gwi_pieces_first_nonfinite(const gwi_pieces *p)
{
    size_t at = 0;

    for (size_t i = 0; i < p->count; i++) {
        size_t n = p->list[i].floats, bad = gwi_first_nonfinite(p->list[i].at, n);
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

void gwi_pieces_move(const gwi_pieces *p, float *to)
{
    for (size_t i = 0; i < p->count; i++) {
        move(to, p->list[i].at, p->list[i].floats);
        to += p->list[i].floats;
    }
}

/* The entries of a list ascend, and so do the pieces. */
static void add_to_pieces(const gwi_pieces *p, const gwi_list *list)
{
    size_t begin = 0, e = 0;

    for (size_t i = 0; i < p->count; i++) {
        const gw_piece *piece = &p->list[i];
        for (; e < list->n && list->index[e] - begin < piece->floats; e++)
            piece->at[list->index[e] - begin] += list->value[e];
        begin += piece->floats;
    }
}

void gwi_result_clear(const gw_sync *s, float *v)
{
    if (v != NULL)
        memset(v, 0, s->layout->floats * sizeof *v);
}

void gwi_result_add(const gw_sync *s, float *v, const gwi_list *list)
{
    if (v != NULL)
        gwi_vector()->scatter_add(v, list->index, list->value, list->n);
    else
        add_to_pieces(&s->pieces, list);
}

/* ---- in a vector -------------------------------------------------------- */

static gw_status get_gathered(gw_sync *s)
{
    size_t n = s->layout->floats;

    if (s->gathered == NULL)
        s->gathered = gwi_calloc(n, sizeof *s->gathered);
    return s->gathered != NULL
               ? GW_OK
               : gw_fail(GW_ERR_NOMEM, "no memory to gather %zu floats", n);
}

static gw_status by_copies(gw_sync *s, gwi_note *note)
{
    const gwi_pieces *p = &s->pieces;
    float *v = s->gathered;

    for (size_t i = 0; i < p->count; v += p->list[i++].floats)
        memcpy(v, p->list[i].at, p->list[i].floats * sizeof *v);
    GWI_TRY(gwi_sync_whole(s, s->gathered, note));
    v = s->gathered;
    for (size_t i = 0; i < p->count; v += p->list[i++].floats)
        memcpy(p->list[i].at, v, p->list[i].floats * sizeof *v);
    return GW_OK;
}

/* ---- the call ----------------------------------------------------------- */

static gw_status check_pieces(const gw_sync *s, const gw_piece *list, size_t count)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += list[i].floats;
    if (n != s->layout->floats)
        return gw_fail(GW_ERR_ARG, "the pieces have %zu floats, the model %zu", n,
                       s->layout->floats);
    if (gwi_overlap_pending(s))
        return gw_fail(GW_ERR_ARG, "a step that was fed in parts ends with the vector");
    return GW_OK;
}

gw_status gw_sync_gradient_pieces(gw_sync *s, const gw_piece *pieces, size_t count)
{
    gwi_note note = 0;
    gw_status st;

    GWI_TRY(check_pieces(s, pieces, count));
    if (count == 1)
        return gw_sync_gradient(s, pieces[0].at);
    gwi_sync_begin_step(s);
    s->pieces = (gwi_pieces){pieces, count};
    if (stays_in_pieces(s)) {
        st = gwi_sync_pieces(s, &note);
    } else {
        st = get_gathered(s);
        if (st == GW_OK)
            st = by_copies(s, &note);
    }
    s->pieces = (gwi_pieces){.count = 0};
    return gwi_sync_outcome(s, st, note);
}
