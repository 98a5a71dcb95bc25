/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_pairs.c - gTop-k in pairs: the k largest of all workers' k largest, in half
 * the rounds of a tree (exchange_tree.c).
 *
 *     W = own k largest of residual + v, taken out of the residual
 *     Q = the largest power of two that is not above P
 *     workers from Q on send W to rank - Q, which merges it, and wait for the result
 *     for d = 1, 2, 4, ... < Q:   swap W with rank ^ d;
 *                                 W = the k largest of W + R that are not 0
 *     workers from Q on get the result;  v = W / P
 *
 * Before round d, a group of d workers (and those past Q that belong to them) has one
 * W:
 *
 *     0   1   2   3        each brings its own
 *     0 = 1   2 = 3        d = 1: two groups, two lists
 *     0 = 1 = 2 = 3        d = 2: one
 *
 * All of a group merge the same two lists, the lower group's first, so they have the
 * same bits. The first of them stands for the group: it alone remembers what a merge
 * has rejected and what coding has taken, so that both are kept once. These are the
 * merges of the tree: with a power of two of workers, and floats as they are, results
 * and residuals have the same bits as well.
 *
 * Coding. A group codes its W with the random numbers of its first worker, and goes on
 * with W as the other group reads it. Otherwise the two would merge different lists.
 * The result is coded once more if there are workers past Q, who must have the same
 * bits: all code it, and go on with what those read. */
#include "kernels/merge.h"
#include "sync/measure.h"
#include "sync/merging.h"
#include "sync/notes.h"
#include "sync/selection.h"

/* The largest power of two that is not above the number of workers. */
static int power_below(int workers)
{
    int q = 1;

    while (q <= workers / 2)
        q *= 2;
    return q;
}

static gw_status pairs_init(gw_sync *s)
{
    int rank = s->comm->rank, q = power_below(s->comm->workers), merges = 0,
        codings = 0;

    for (int d = 1; d < q && rank < q; d *= 2) {
        merges += rank % (2 * d) == 0;
        codings += rank % d == 0;
    }
    merges += rank + q < s->comm->workers;
    return gwi_merging_init(s, merges, rank < q ? codings : 1);
}

/* ---- messages ------------------------------------------------------------------ */

/* What is written, and for whom: the first worker of the group, whose random numbers
 * are used, and how many times it has coded in this step. */
typedef struct turn {
    int first, number;
    bool last; /* nobody merges it any more */
} turn;

/* Writes W, which becomes what others will read. */
static gw_status write_list(gw_sync *s, turn t, size_t *len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context at = {.step = s->step,
                              .key = gwi_group_key(s, t.first, t.number)};
    bool exact = gwi_coder_of(&s->spec)->exact;

    if (exact)
        gwi_list_copy(&x->others, &s->list);
    GWI_TRY(gwi_coding_put_list(&s->coding, &s->list, s->layout->floats, &at, x->out,
                                x->cap, len));
    if (exact) {
        gwi_list_copy(&s->list, &x->others);
        return GW_OK;
    }
    /* Everybody applies the result, so its error is kept at all positions. */
    if (t.first == s->comm->rank && t.last)
        gwi_keep(s, &s->list);
    else if (t.first == s->comm->rank)
        gwi_merging_lost_in_code(s, &s->list);
    return gwi_merging_read(s, s->comm->rank, x->out, *len, &s->list);
}

static gw_status write_message(gw_sync *s, gwi_note note, turn t, size_t *len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gw_status st = GW_OK;

    gwi_encodes(s);
    if (note == 0)
        st = write_list(s, t, len);
    else
        *len = gwi_put_note(s, x->out, note);
    gwi_decodes(s);
    return st;
}

/* Values that coding has made 0 are nothing to merge; what they were is in the error.
 */
static void drop_zeros(gwi_list *list)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        list->index[n] = list->index[i];
        list->value[n] = list->value[i];
        n += list->value[i] != 0;
    }
    list->n = n;
}

/* ---- merges ---------------------------------------------------------------------- */

/* W = the k largest of both that are not 0. */
static void merge(gw_sync *s, int from, bool first, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_list *w = &s->list;
    bool lower = s->comm->rank < from;

    if (!gwi_coder_of(&s->spec)->exact) {
        drop_zeros(w);
        drop_zeros(&x->theirs);
    }
    gwi_merge_largest(lower ? w : &x->theirs, lower ? &x->theirs : w, gwi_wanted(s), w,
                      &x->others);
    if (first)
        gwi_merging_rejected(s);
    *note = gwi_drop_overflow(s, w);
}

/* Takes in what another group's worker sent. If one of the two groups has a note, both
 * have it then, and the first worker of both (`first`) keeps the lists. */
static gw_status take_in(gw_sync *s, int from, size_t len, bool first, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_note theirs;

    GWI_TRY(gwi_get_note(s, from, x->in, len, &theirs));
    x->theirs.n = 0;
    if (theirs == 0)
        GWI_TRY(gwi_merging_read(s, from, x->in, len, &x->theirs));
    if (*note == 0 && theirs == 0) {
        merge(s, from, first, note);
        x->theirs.n = 0;
    }
    *note = gwi_lesser_note(*note, theirs);
    if (*note == 0)
        return GW_OK;
    if (first) {
        gwi_keep(s, &s->list);
        gwi_keep(s, &x->theirs);
    }
    s->list.n = 0;
    return GW_OK;
}

/* ---- rounds ------------------------------------------------------------------------
 */

static gw_status receive(gw_sync *s, int from, size_t *len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gwi_op *op = &s->comm->ops[0];

    GWI_TRY(gwi_recv(s->comm, op, from, x->in, x->cap));
    GWI_TRY(gwi_wait(s->comm, op));
    *len = op->len;
    return GW_OK;
}

static gw_status send(gw_sync *s, int to, size_t len)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);

    GWI_TRY(gwi_send(s->comm, &s->comm->ops[1], to, x->out, len));
    return gwi_wait(s->comm, &s->comm->ops[1]);
}

/* The message of this worker is still on its way while the other's is merged. */
static gw_status swap(gw_sync *s, int d, int number, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    gw_comm *c = s->comm;
    int peer = c->rank ^ d;
    size_t len;

    GWI_TRY(write_message(s, *note, (turn){c->rank & ~(d - 1), number, false}, &len));
    GWI_TRY(gwi_recv(c, &c->ops[0], peer, x->in, x->cap));
    GWI_TRY(gwi_send(c, &c->ops[1], peer, x->out, len));
    GWI_TRY(gwi_wait(c, &c->ops[0]));
    GWI_TRY(take_in(s, peer, c->ops[0].len, c->rank % (2 * d) == 0, note));
    return gwi_wait(c, &c->ops[1]);
}

/* Hands the result to the worker past Q, if this one has such. A worker that is alone
 * sees what coding does, too. */
static gw_status hand_on(gw_sync *s, int q, int number, gwi_note note)
{
    gw_comm *c = s->comm;
    bool owes = c->rank + q < c->workers, exact = gwi_coder_of(&s->spec)->exact;
    size_t len;

    if ((q == c->workers && q > 1) || (exact && !owes))
        return GW_OK;
    GWI_TRY(write_message(s, note, (turn){0, number + 1, true}, &len));
    return owes ? send(s, c->rank + q, len) : GW_OK;
}

static gw_status lead(gw_sync *s, int q, gwi_note *note)
{
    gw_comm *c = s->comm;
    int number = 0;
    size_t len;

    if (c->rank + q < c->workers) {
        GWI_TRY(receive(s, c->rank + q, &len));
        GWI_TRY(take_in(s, c->rank + q, len, true, note));
    }
    for (int d = 1; d < q; d *= 2)
        GWI_TRY(swap(s, d, number++, note));
    return hand_on(s, q, number, *note);
}

/* What a worker past Q does. */
static gw_status follow(gw_sync *s, int partner, gwi_note *note)
{
    gwi_merging *x = gwi_state(s, GWI_EXCHANGE);
    size_t len;

    GWI_TRY(write_message(s, *note, (turn){s->comm->rank, 0, false}, &len));
    GWI_TRY(send(s, partner, len));
    GWI_TRY(receive(s, partner, &len));
    GWI_TRY(gwi_get_note(s, partner, x->in, len, note));
    return *note != 0 ? GW_OK : gwi_merging_read(s, partner, x->in, len, &s->list);
}

static gw_status pairs_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    int rank = s->comm->rank, q = power_below(s->comm->workers);

    gwi_merging_begin(s, at, note);
    gwi_decodes(s);
    GWI_TRY(rank < q ? lead(s, q, note) : follow(s, rank - q, note));
    gwi_merging_end(s, at, *note);
    return GW_OK;
}

/* Worker 0 sends a list in each round. It waits for one more, from beyond Q, if there
 * is anybody. */
static gwi_path pairs_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    double sent = 0, more = power_below(workers) < workers;

    (void)spec, (void)layout;
    for (int d = 1; d < workers; d *= 2)
        sent++;
    sent = (sent + more) / sent;
    return (gwi_path){sent * (double)t->messages_sent, sent * (double)t->bytes_sent};
}

/* ---- the part ----------------------------------------------------------------------
 */

/* With a coding, auto is the tree, in which a worker's own list is merged uncoded. Two
 * lists that are both coded can cancel where the entries do not: these wait for ever,
 * and coders with a mean give all others too large a magnitude meanwhile. */
static const gwi_exchange *pairs_instead(gwi_spec *spec, int workers)
{
    const gwi_merging_options *opt = gwi_options_of(spec, GWI_EXCHANGE);
    bool by_tree = opt->via == GWI_VIA_AUTO ? !gwi_coder_of(spec)->exact
                                            : opt->via == GWI_VIA_TREE;

    (void)workers;
    return by_tree ? &gwi_exchange_tree : &gwi_exchange_pairs;
}

const gwi_exchange gwi_exchange_pairs = {
    .part = {.name = "pairs",
             .keys = gwi_merging_keys,
             .off = gwi_merging_off,
             .state_size = sizeof(gwi_merging),
             .init = pairs_init,
             .fini = gwi_merging_fini},
    .run = pairs_run,
    .path = pairs_path,
    .instead = pairs_instead,
    .lossy = true,
    .of_lists = true,
};

const gwi_stage gwi_stage_gtopk = {
    .name = "gtopk",
    .summary =
        "the largest entries of all gradients, in log2 P rounds (Shi et al. 2019)",
    .example = "gtopk:0.001",
    .cost = "at most density n entries to a partner in each of log2 P rounds",
    .expect = "bytes grow with log2 P only; a merge costs time in each round",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_EXCHANGE] = &gwi_exchange_pairs.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density putback via residual warmup ladder dense_below delay lead",
};
