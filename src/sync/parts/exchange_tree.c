/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_tree.c - gTop-k: the k largest of all workers' k largest, found along a
 * binomial tree (Shi et al. 2019), for any number of workers.
 *
 *     W = own k largest of residual + v, taken out of the residual
 *     for d = 1, 2, 4, ... < P:
 *         rank mod 2d == d:  send W to rank - d, and wait for the result
 *         rank mod 2d == 0:  receive R from rank + d (if there is one);
 *                            W = the k largest of W + R that are not 0
 *     worker 0 sends W to all;  v = W / P
 *
 * merging.h says what becomes of entries that lose. exchange_pairs.c gets to the same W
 * in half the rounds. */
#include "kernels/merge.h"
#include "sync/measure.h"
#include "sync/merging.h"
#include "sync/notes.h"
#include "sync/selection.h"

/* How many merges this worker does in an exchange. */
static int count_merges(const gw_comm *c)
{
    int merges = 0;

    for (int d = 1; d < c->workers && c->rank % (2 * d) == 0; d *= 2)
        merges += c->rank + d < c->workers;
    return merges;
}

static gw_status tree_init(gw_sync *s)
{
    return gwi_merging_init(s, count_merges(s->comm), 1);
}

/* Writes what was selected; the error of the coding goes into the residual of the
 * worker that writes, by the published rule once it is known whether those who brought
 * the entries take them back whole. With a note, the note goes out and the whole list
 * goes back. */
static gw_status write_list(gw_sync *s, bool second, size_t *len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context at = {.step = s->step, .key = gwi_sync_key(s, second)};

    GWI_TRY(gwi_coding_put_list(&s->coding, &s->list, s->layout->floats, &at, x->out,
                                x->cap, len));
    if (!second)
        gwi_merging_lost_in_code(s, &s->list);
    else if (!gwi_coder_of(&s->spec)->exact)
        gwi_keep(s, &s->list);
    return GW_OK;
}

static gw_status write_message(gw_sync *s, gwi_note note, bool second, size_t *len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gw_status st = GW_OK;

    gwi_encodes(s);
    if (note == 0) {
        st = write_list(s, second, len);
    } else {
        gwi_keep(s, &s->list);
        *len = gwi_put_note(s, x->out, note);
    }
    gwi_decodes(s);
    return st;
}

/* W = the k largest of W + R that are not 0. */
static gw_status merge(gw_sync *s, int from, size_t len, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_list *w = &s->list;

    GWI_TRY(gwi_merging_read(s, from, x->in, len, &x->theirs));
    gwi_merge_largest(w, &x->theirs, gwi_wanted(s), w, &x->others);
    gwi_merging_rejected(s);
    *note = gwi_drop_overflow(s, w);
    return GW_OK;
}

static gw_status receive_child(gw_sync *s, int from, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_op *op = &s->comm->ops[0];

    gwi_decodes(s);
    GWI_TRY(gwi_recv(s->comm, op, from, x->in, x->cap));
    GWI_TRY(gwi_wait(s->comm, op));
    gwi_note theirs;
    GWI_TRY(gwi_get_note(s, from, x->in, op->len, &theirs));
    if (theirs != 0) {
        *note = gwi_lesser_note(*note, theirs);
        return GW_OK;
    }
    if (*note == 0)
        return merge(s, from, op->len, note);
    /* This worker gives up; what the other has given away stays here. */
    GWI_TRY(gwi_merging_read(s, from, x->in, op->len, &x->theirs));
    gwi_keep(s, &x->theirs);
    return GW_OK;
}

static gw_status climb(gw_sync *s, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gw_comm *c = s->comm;
    size_t len;

    for (int d = 1; d < c->workers; d *= 2) {
        if (c->rank % (2 * d) == d) {
            GWI_TRY(write_message(s, *note, false, &len));
            GWI_TRY(gwi_send(c, &c->ops[0], c->rank - d, x->out, len));
            return gwi_wait(c, &c->ops[0]);
        }
        if (c->rank + d < c->workers)
            GWI_TRY(receive_child(s, c->rank + d, note));
    }
    return GW_OK;
}

/* Worker 0 writes what it has, everybody reads the same bytes. */
static gw_status descend(gw_sync *s, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    size_t len = 0;

    if (s->comm->rank == 0)
        GWI_TRY(write_message(s, *note, true, &len));
    GWI_TRY(gwi_broadcast_message(s->comm, x->out, x->cap, &len));
    GWI_TRY(gwi_get_note(s, 0, x->out, len, note));
    return *note != 0 ? GW_OK : gwi_merging_read(s, 0, x->out, len, &s->list);
}

static gw_status tree_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_merging_begin(s, at, note);
    GWI_TRY(climb(s, note));
    GWI_TRY(descend(s, note));
    gwi_merging_end(s, at, *note);
    return GW_OK;
}

/* Worker 0 gets as many lists as it sends, one after the other. */
static gwi_path tree_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                          const gw_traffic *t)
{
    (void)spec, (void)layout, (void)workers;
    return (gwi_path){2.0 * (double)t->messages_sent, 2.0 * (double)t->bytes_sent};
}

const gwi_exchange gwi_exchange_tree = {
    .part = {.name = "tree",
             .off = gwi_merging_off,
             .state_size = sizeof(gwi_merging),
             .init = tree_init,
             .fini = gwi_merging_fini},
    .run = tree_run,
    .path = tree_path,
    .lossy = true,
    .of_lists = true,
};
