/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_tree.c - gTop-k: the k largest of all workers' k largest, found along a
 * binomial tree (Shi et al. 2019), for any number of workers.
 *
 *     W = own k largest of residual + v, taken out of the residual
 *     for d = 1, 2, 4, ... < P:
 *         rank mod 2d == d:  send W to rank - d, and wait for the result
 *         rank mod 2d == 0:  receive R from rank + d (if there is one);
 *                            W = the k largest of W + R that are not 0;
 *                            the others go into this worker's residual
 *     worker 0 sends W to all;  v = W / P
 *
 * As published, the others are dropped, and each worker puts back those of its own
 * entries whose index is not in the final W (putback=paper). An entry that lost in
 * an inner merge while its index won elsewhere is then lost for good. Keeping the
 * others where they were merged loses nothing and costs no traffic.
 *
 * What is lost by the published rule is counted: a worker remembers what its merges
 * rejected until the final W is known. Those whose index is in it are lost, the
 * others are put back by those who brought them. */
#include "sync/selector.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/merge.h"
#include "kernels/vector.h"
#include "sync/notes.h"
#include "sync/pieces.h"

/* Merges of one worker in one exchange: log2 of the workers, at most. */
enum { MERGES_MAX = 31 };

typedef struct tree {
    gwi_selector selector;
    gwi_coder coder;
    gwi_list theirs, others; /* k and 2k entries */
    gwi_list own;            /* putback=paper: what this worker brought, k entries; */
    gwi_list error; /* what coding took from the list that it sent, likewise; */
    gwi_list rejected[MERGES_MAX]; /* and what each of its merges rejected */
    int merges;                    /* in this exchange */
    uint8_t *out, *in;             /* messages */
    size_t cap;
    void *memory;
} tree;

static bool tree_fits(const gwi_spec *spec)
{
    return spec->which == GWI_WHICH_TOPK && spec->combine == GWI_COMBINE_TREE;
}

/* Whether the published rule is in force: it is about residuals. */
static bool by_paper(const gw_sync *s)
{
    return s->spec.opt.putback == GWI_PUTBACK_PAPER && s->residual != NULL;
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
    gwi_list list = {(uint32_t *)(void *)*memory, (float *)(void *)*memory + cap, 0,
                     cap};

    *memory += 8 * cap;
    return list;
}

static gw_status tree_init(gw_sync *s)
{
    tree *x = s->state;
    size_t n = s->layout->floats, k, merges;

    GWI_TRY(gwi_selector_init(&x->selector, s));
    k = x->selector.list.cap;
    GWI_TRY(gwi_coder_init(&x->coder, &s->spec, s->layout, gwi_looks(s), k));
    x->cap = (gwi_coder_list_bound(&x->coder, n, k) + 63) & ~(size_t)63;
    merges = by_paper(s) ? (size_t)count_merges(s->comm) : 0;
    x->memory = gwi_calloc(1, 2 * x->cap + (5 + merges) * k * 8);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for lists of %zu entries", k);
    x->out = x->memory;
    x->in = x->out + x->cap;
    uint8_t *rest = x->in + x->cap;
    x->theirs = carve(&rest, k);
    x->others = carve(&rest, 2 * k);
    x->own = carve(&rest, k);
    x->error = carve(&rest, k);
    for (size_t i = 0; i < merges; i++)
        x->rejected[i] = carve(&rest, k);
    return GW_OK;
}

static void tree_fini(gw_sync *s)
{
    tree *x = s->state;

    gwi_selector_fini(&x->selector);
    gwi_coder_fini(&x->coder);
    gwi_free(x->memory);
}

static void copy_list(gwi_list *to, const gwi_list *from)
{
    assert(from->n <= to->cap);
    to->n = from->n;
    memcpy(to->index, from->index, from->n * sizeof *from->index);
    memcpy(to->value, from->value, from->n * sizeof *from->value);
}

/* Writes the selector's list; the error of the coding goes into the residual of the
 * worker that writes, by the published rule once it is known whether those who brought
 * the entries take them back whole. With a note, the note goes out and the whole list
 * goes back. */
static gw_status write_message(gw_sync *s, gwi_note note, bool second, size_t *len)
{
    tree *x = s->state;
    gwi_occasion at = {.step = s->step, .key = gwi_sync_key(s, second)};

    if (note != 0) {
        gwi_residual_add(s, &x->selector.list);
        *len = gwi_put_note(s, x->out, note);
        return GW_OK;
    }
    GWI_TRY(gwi_coder_put_list(&x->coder, &x->selector.list, s->layout->floats, &at,
                               x->out, x->cap, len));
    if (s->spec.how == GWI_HOW_F32)
        return GW_OK;
    if (by_paper(s) && !second)
        copy_list(&x->error, &x->selector.list);
    else
        gwi_residual_add(s, &x->selector.list);
    return GW_OK;
}

static gw_status read_message(gw_sync *s, int from, const uint8_t *msg, size_t len,
                              gwi_list *list)
{
    tree *x = s->state;

    return gwi_blame(
        s, from,
        gwi_coder_get_list(&x->coder, msg, len, s->layout->floats, s->step, list));
}

/* Finite entries may add up to more than a float holds. Such a sum is of no use to
 * anybody: it is dropped, and the note says where. */
static gwi_note drop_overflow(const gw_sync *s, const gwi_list *list)
{
    size_t bad = list->n;

    if (!gwi_looks(s))
        return 0;
    for (size_t i = list->n; i-- > 0;)
        if (!isfinite(list->value[i])) {
            list->value[i] = 0;
            bad = i;
        }
    return bad < list->n ? gwi_note_of_sum(s, list->index[bad]) : 0;
}

/* W = the k largest of W + R that are not 0. */
static gw_status merge(gw_sync *s, int from, size_t len, gwi_note *note)
{
    tree *x = s->state;
    gwi_list *w = &x->selector.list;

    GWI_TRY(read_message(s, from, x->in, len, &x->theirs));
    gwi_merge_largest(w, &x->theirs, gwi_selector_wanted(s), w, &x->others);
    if (s->spec.opt.putback == GWI_PUTBACK_KEEP)
        gwi_residual_add(s, &x->others);
    else if (by_paper(s))
        copy_list(&x->rejected[x->merges++], &x->others);
    *note = drop_overflow(s, w);
    return GW_OK;
}

static gw_status receive_child(gw_sync *s, int from, gwi_note *note)
{
    tree *x = s->state;
    gwi_op *op = &s->comm->ops[0];

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
    gwi_residual_add(s, &x->theirs);
    return GW_OK;
}

static gw_status climb(gw_sync *s, gwi_note *note)
{
    tree *x = s->state;
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

/* Whether the list, whose indices ascend, has this one. Asked for ascending indices,
 * from *at = 0 on. */
static bool has(const gwi_list *list, size_t *at, uint32_t index)
{
    while (*at < list->n && list->index[*at] < index)
        ++*at;
    return *at < list->n && list->index[*at] == index;
}

/* Adds to the residual those entries whose index is in the final list, or is not. */
static void keep_if(gw_sync *s, const gwi_list *list, const gwi_list *final, bool in)
{
    size_t at = 0;

    for (size_t i = 0; i < list->n; i++)
        if (has(final, &at, list->index[i]) == in)
            s->residual[list->index[i]] += list->value[i];
}

/* The published rule: own entries whose index did not make it return, whole. So
 * coding's errors stay only where the entry is applied. */
static void put_back(gw_sync *s, const gwi_list *final)
{
    const tree *x = s->state;

    keep_if(s, &x->own, final, false);
    keep_if(s, &x->error, final, true);
}

/* The magnitudes of those entries whose index is in the final list, too. */
static double mass_in(const gwi_list *list, const gwi_list *final)
{
    double mass = 0;
    size_t at = 0;

    for (size_t i = 0; i < list->n; i++)
        if (has(final, &at, list->index[i]))
            mass += (double)fabsf(list->value[i]);
    return mass;
}

static void count_mass(gw_sync *s, const gwi_list *final)
{
    const tree *x = s->state;

    for (int i = 0; i < x->merges; i++)
        s->stats.lost_mass += mass_in(&x->rejected[i], final);
    s->stats.applied_mass += mass_in(final, final);
}

/* A step that is skipped loses nothing, by no rule. */
static void keep_rejected(gw_sync *s)
{
    const tree *x = s->state;

    for (int i = 0; i < x->merges; i++)
        gwi_residual_add(s, &x->rejected[i]);
    gwi_residual_add(s, &x->error);
}

/* Worker 0 writes what it has, everybody reads the same bytes. */
static gw_status descend(gw_sync *s, gwi_note *note)
{
    tree *x = s->state;
    size_t len = 0;

    if (s->comm->rank == 0)
        GWI_TRY(write_message(s, *note, true, &len));
    GWI_TRY(gwi_broadcast_message(s->comm, x->out, x->cap, &len));
    GWI_TRY(gwi_get_note(s, 0, x->out, len, note));
    return *note != 0 ? GW_OK : read_message(s, 0, x->out, len, &x->selector.list);
}

static gw_status tree_run(gw_sync *s, float *v, gwi_note *note)
{
    tree *x = s->state;
    const gwi_list *list = &x->selector.list;

    x->merges = 0;
    x->error.n = 0;
    if (*note == 0) {
        gwi_selector_run(&x->selector, s, v);
        *note = gwi_sync_look_later(s, list);
    }
    if (*note != 0)
        x->selector.list.n = 0;
    if (by_paper(s))
        copy_list(&x->own, list);
    gwi_sync_encoded(s);
    GWI_TRY(climb(s, note));
    GWI_TRY(descend(s, note));
    if (*note != 0) {
        keep_rejected(s);
        return GW_OK;
    }
    if (by_paper(s)) {
        put_back(s, list);
        count_mass(s, list);
    }
    gwi_result_clear(s, v);
    gwi_divide(list->value, (float)s->comm->workers, list->n);
    gwi_result_add(s, v, list);
    return GW_OK;
}

const gwi_exchange gwi_exchange_tree = {
    .name = "tree",
    .fits = tree_fits,
    .state_size = sizeof(tree),
    .init = tree_init,
    .fini = tree_fini,
    .run = tree_run,
    .lossy = true,
    .takes_pieces = true,
};
