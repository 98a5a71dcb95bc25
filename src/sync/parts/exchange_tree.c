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
 * What becomes of entries that lose, by `putback`:
 *
 *     own    index not in the final W: whoever brought an entry takes it back, whole.
 *            Index in it: what a merge on another branch rejected stays with the worker
 *            that merged. Nothing is lost, and no residual gathers what others brought.
 *     keep   they stay with the worker that merged. Nothing is lost, but the residuals
 *            of low ranks fill with the entries of others. Training suffers, unless
 *            all workers have one velocity (docs/methods.md).
 *     paper  as published, `own` without its second half. An entry that lost in an
 *            inner merge, while its index won elsewhere, is lost for good.
 *
 * A worker remembers what its merges rejected until the final W is known; what `paper`
 * loses is counted by it. */
#include <math.h>
#include <string.h>

#include "kernels/merge.h"
#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/selection.h"

/* Merges of one worker in one exchange: log2 of the workers, at most. */
enum { MERGES_MAX = 31 };

typedef struct tree {
    gwi_list theirs, others;       /* k and 2k entries */
    gwi_list own;                  /* unless putback=keep: what this worker brought; */
    gwi_list error;                /* what coding took from the list that it sent; */
    gwi_list rejected[MERGES_MAX]; /* and what each of its merges rejected */
    int merges;                    /* in this exchange */
    uint8_t *out, *in;             /* messages */
    size_t cap;
    void *memory;
} tree;

enum { PUTBACK_OWN, PUTBACK_KEEP, PUTBACK_PAPER };

typedef struct options {
    int putback;
} options;

static const gwi_key keys[] = {
    {.name = "putback",
     .meaning =
         "who keeps entries that lose: who brought or merged them; paper loses some",
     .fallback = "own",
     .words = "own|keep|paper",
     .at = offsetof(options, putback),
     .value = GWI_WORD},
    {.name = NULL},
};

static int putback_of(const gw_sync *s)
{
    return ((const options *)gwi_options_of(&s->spec, GWI_EXCHANGE))->putback;
}

static bool tree_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec);
}

/* Whether entries are put back once the final list is known. */
static bool puts_back(const gw_sync *s)
{
    return putback_of(s) != PUTBACK_KEEP && s->kept[GWI_RESIDUAL] != NULL;
}

/* How many merges this worker does in an exchange. */
static int count_merges(const gw_comm *c)
{
    int merges = 0;

    for (int d = 1; d < c->workers && c->rank % (2 * d) == 0; d *= 2)
        merges += c->rank + d < c->workers;
    return merges;
}

/* Carves a list of cap entries out of *memory. */
static gwi_list carve(uint8_t **memory, size_t cap)
{
    gwi_list list = gwi_list_in(*memory, cap);

    *memory += 8 * cap;
    return list;
}

static gw_status tree_init(gw_sync *s)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats, k = s->list.cap, merges;

    GWI_TRY(gwi_coding_init(&s->coding, &s->spec, s->layout, gwi_looks(s), k));
    x->cap = (gwi_coding_list_bound(&s->coding, n, k) + 63) & ~(size_t)63;
    merges = puts_back(s) ? (size_t)count_merges(s->comm) : 0;
    x->memory = gwi_calloc(1, 2 * x->cap + (puts_back(s) ? 5 + merges : 3) * k * 8);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for lists of %zu entries", k);
    x->out = x->memory;
    x->in = x->out + x->cap;
    uint8_t *rest = x->in + x->cap;
    x->theirs = carve(&rest, k);
    x->others = carve(&rest, 2 * k);
    if (!puts_back(s))
        return GW_OK;
    x->own = carve(&rest, k);
    x->error = carve(&rest, k);
    for (size_t i = 0; i < merges; i++)
        x->rejected[i] = carve(&rest, k);
    return GW_OK;
}

static void tree_fini(gw_sync *s)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->memory);
}

/* Writes what was selected; the error of the coding goes into the residual of the
 * worker that writes, by the published rule once it is known whether those who brought
 * the entries take them back whole. With a note, the note goes out and the whole list
 * goes back. */
static gw_status write_list(gw_sync *s, bool second, size_t *len)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context at = {.step = s->step, .key = gwi_sync_key(s, second)};

    GWI_TRY(gwi_coding_put_list(&s->coding, &s->list, s->layout->floats, &at, x->out,
                                x->cap, len));
    if (gwi_coder_of(&s->spec)->exact)
        return GW_OK;
    if (puts_back(s) && !second)
        gwi_list_copy(&x->error, &s->list);
    else
        gwi_keep(s, &s->list);
    return GW_OK;
}

static gw_status write_message(gw_sync *s, gwi_note note, bool second, size_t *len)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
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

static gw_status read_message(gw_sync *s, int from, const uint8_t *msg, size_t len,
                              gwi_list *list)
{
    return gwi_blame(
        s, from,
        gwi_coding_get_list(&s->coding, msg, len, s->layout->floats, s->step, list));
}

/* W = the k largest of W + R that are not 0. */
static gw_status merge(gw_sync *s, int from, size_t len, gwi_note *note)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
    gwi_list *w = &s->list;

    GWI_TRY(read_message(s, from, x->in, len, &x->theirs));
    gwi_merge_largest(w, &x->theirs, gwi_wanted(s), w, &x->others);
    if (puts_back(s))
        gwi_list_copy(&x->rejected[x->merges++], &x->others);
    else
        gwi_keep(s, &x->others);
    *note = gwi_drop_overflow(s, w);
    return GW_OK;
}

static gw_status receive_child(gw_sync *s, int from, gwi_note *note)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
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
    GWI_TRY(read_message(s, from, x->in, op->len, &x->theirs));
    gwi_keep(s, &x->theirs);
    return GW_OK;
}

static gw_status climb(gw_sync *s, gwi_note *note)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
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

/* Own entries whose index did not make it return, whole. So coding's errors, and what
 * merges rejected, stay only where the entry is applied. */
static void put_back(gw_sync *s, const gwi_list *final)
{
    const tree *x = gwi_state(s, GWI_EXCHANGE);

    gwi_keep_if(s, &x->own, final, false);
    gwi_keep_if(s, &x->error, final, true);
    for (int i = 0; putback_of(s) == PUTBACK_OWN && i < x->merges; i++)
        gwi_keep_if(s, &x->rejected[i], final, true);
}

/* The magnitudes of those entries whose index is in the final list, too. */
static double mass_in(const gwi_list *list, const gwi_list *final)
{
    double mass = 0;
    size_t at = 0;

    for (size_t i = 0; i < list->n; i++)
        if (gwi_list_has(final, &at, list->index[i]))
            mass += (double)fabsf(list->value[i]);
    return mass;
}

static void count_mass(gw_sync *s, const gwi_list *final)
{
    const tree *x = gwi_state(s, GWI_EXCHANGE);
    gw_stats *stats = &s->whole->stats;

    for (int i = 0; i < x->merges; i++)
        stats->lost_mass += mass_in(&x->rejected[i], final);
    stats->applied_mass += mass_in(final, final);
}

/* A step that is skipped loses nothing, by no rule. */
static void keep_rejected(gw_sync *s)
{
    const tree *x = gwi_state(s, GWI_EXCHANGE);

    for (int i = 0; i < x->merges; i++)
        gwi_keep(s, &x->rejected[i]);
    gwi_keep(s, &x->error);
}

/* Worker 0 writes what it has, everybody reads the same bytes. */
static gw_status descend(gw_sync *s, gwi_note *note)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
    size_t len = 0;

    if (s->comm->rank == 0)
        GWI_TRY(write_message(s, *note, true, &len));
    GWI_TRY(gwi_broadcast_message(s->comm, x->out, x->cap, &len));
    GWI_TRY(gwi_get_note(s, 0, x->out, len, note));
    return *note != 0 ? GW_OK : read_message(s, 0, x->out, len, &s->list);
}

static gw_status tree_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    tree *x = gwi_state(s, GWI_EXCHANGE);
    const gwi_list *list = &s->list;

    x->merges = 0;
    x->error.n = 0;
    if (*note == 0) {
        gwi_choose(s, at);
        *note = gwi_look_at_selected(s);
    }
    if (*note != 0)
        s->list.n = 0;
    if (puts_back(s))
        gwi_list_copy(&x->own, list);
    GWI_TRY(climb(s, note));
    GWI_TRY(descend(s, note));
    if (*note != 0) {
        keep_rejected(s);
        return GW_OK;
    }
    if (puts_back(s))
        put_back(s, list);
    if (puts_back(s) && putback_of(s) == PUTBACK_PAPER)
        count_mass(s, list);
    gwi_result_clear(s, at);
    gwi_divide(list->value, (float)s->comm->workers, list->n);
    gwi_result_add(s, at, list);
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
             .keys = keys,
             .off = tree_off,
             .state_size = sizeof(tree),
             .init = tree_init,
             .fini = tree_fini},
    .run = tree_run,
    .path = tree_path,
    .lossy = true,
    .of_lists = true,
};

const gwi_stage gwi_stage_gtopk = {
    .name = "gtopk",
    .summary = "the largest entries of all gradients, by a tree (Shi et al. 2019)",
    .example = "gtopk:0.001",
    .cost = "at most density n entries up a tree, and as many down it",
    .expect =
        "bytes grow with log2 P only; a merge costs time in each round of the tree",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_EXCHANGE] = &gwi_exchange_tree.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density putback residual warmup ladder dense_below delay lead",
};
