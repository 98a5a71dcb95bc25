/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_owner.c - a balanced sparse all-reduce after Ok-Topk (Li & Hoefler 2022):
 * each coordinate has an owner, who adds up what all workers have selected of it.
 *
 *     W = own k largest of residual + v, taken out of the residual
 *     every worker sends each entry of W to the owner of its index
 *     an owner adds up what it gets, and sends its k / P largest sums to all
 *     v = these sums / P;  what was selected and is not among them goes back
 *
 * A worker sends and receives at most 2k entries or so, whatever P is. The owner of an
 * index is drawn anew in each step, from the seed that all workers share. So owners get
 * about as many entries each, wherever the large ones lie, and no borders of regions
 * must be agreed on. Ok-Topk has regions with borders, and a threshold for sums, both
 * of which it measures in some steps and keeps for the others. */
#include "kernels/merge.h"
#include "kernels/random.h"
#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"
#include "sync/selection.h"

#include <string.h>

typedef struct owner {
    gwi_list own, error; /* what this worker brought, and what coding took from it */
    gwi_list part;       /* of one owner, or of one worker */
    uint32_t *place;     /* of the part's entries in `own` */
    gwi_list sum, merged, others; /* of all workers */
    uint8_t *out, *in;            /* P messages each */
    size_t cap;                   /* of one message */
    size_t *out_lens, *lens;
    void *memory;
} owner;

static bool owner_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec);
}

static gw_status owner_init(gw_sync *s)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats, k = s->list.cap, p = (size_t)s->comm->workers;
    size_t lists = 3 * 8 * k + 3 * 8 * p * k + 4 * k;

    GWI_TRY(gwi_coding_init(&s->coding, &s->spec, s->layout, gwi_looks(s), k));
    x->cap = (gwi_coding_list_bound(&s->coding, n, k) + 63) & ~(size_t)63;
    x->memory = gwi_calloc(1, p * (2 * x->cap + 2 * sizeof(size_t)) + lists);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu lists of %zu entries",
                       p, k);
    x->out = x->memory;
    x->in = x->out + p * x->cap;
    x->out_lens = (size_t *)(x->in + p * x->cap);
    x->lens = x->out_lens + p;
    uint8_t *rest = (uint8_t *)(x->lens + p);
    x->own = gwi_list_in(rest, k);
    x->error = gwi_list_in(rest + 8 * k, k);
    x->part = gwi_list_in(rest + 16 * k, k);
    rest += 24 * k;
    x->sum = gwi_list_in(rest, p * k);
    x->merged = gwi_list_in(rest + 8 * p * k, p * k);
    x->others = gwi_list_in(rest + 16 * p * k, p * k);
    x->place = (uint32_t *)(void *)(rest + 24 * p * k);
    return GW_OK;
}

static void owner_fini(gw_sync *s)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->memory);
}

static int owner_of(const gw_sync *s, uint64_t key, uint32_t index)
{
    uint64_t upper = gwi_random64(key, index) >> 32;

    return (int)(upper * (uint64_t)s->comm->workers >> 32);
}

/* The most sums that an owner sends on. */
static size_t quota(const gw_sync *s)
{
    size_t p = (size_t)s->comm->workers;

    return (gwi_wanted(s) + p - 1) / p;
}

/* ---- to owners --------------------------------------------------------------------
 */

/* Puts those entries of `own` that worker r owns into the part. */
static void take_part(gw_sync *s, int r)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    uint64_t key = gwi_common_key(s, 0);
    gwi_list *part = &x->part;

    part->n = 0;
    for (size_t i = 0; i < x->own.n; i++)
        if (owner_of(s, key, x->own.index[i]) == r) {
            x->place[part->n] = (uint32_t)i;
            part->index[part->n] = x->own.index[i];
            part->value[part->n++] = x->own.value[i];
        }
}

static gw_status write_part(gw_sync *s, int r)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context at = {.step = s->step, .key = gwi_sync_key(s, false)};

    take_part(s, r);
    GWI_TRY(gwi_coding_put_list(&s->coding, &x->part, s->layout->floats, &at,
                                x->out + (size_t)r * x->cap, x->cap, &x->out_lens[r]));
    for (size_t i = 0; !gwi_coder_of(&s->spec)->exact && i < x->part.n; i++)
        x->error.value[x->place[i]] = x->part.value[i];
    return GW_OK;
}

/* Writes what goes to each other worker: entries, or this worker's note. */
static gw_status write_parts(gw_sync *s, gwi_note note)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);

    gwi_list_copy(&x->own, &s->list);
    gwi_list_copy(&x->error, &s->list);
    memset(x->error.value, 0, x->error.n * sizeof *x->error.value);
    for (int r = 0; r < s->comm->workers; r++) {
        if (note != 0)
            x->out_lens[r] = gwi_put_note(s, x->out + (size_t)r * x->cap, note);
        else if (r != s->comm->rank)
            GWI_TRY(write_part(s, r));
    }
    return GW_OK;
}

static gw_status all_to_all(gw_sync *s)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);

    return gwi_all_to_all(s->comm, &(gwi_parcels){.out = x->out,
                                                  .out_lens = x->out_lens,
                                                  .out_step = x->cap,
                                                  .out_lens_step = 1,
                                                  .in = x->in,
                                                  .cap = x->cap,
                                                  .in_lens = x->lens});
}

/* ---- sums ----------------------------------------------------------------------- */

/* Reads the message of worker r into the part. All entries must be those of one
 * owner, and at most so many. */
static gw_status read_part(gw_sync *s, int r, int whose, size_t most)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    uint64_t key = gwi_common_key(s, 0);

    GWI_TRY(gwi_blame(s, r,
                      gwi_coding_get_list(&s->coding, x->in + (size_t)r * x->cap,
                                          x->lens[r], s->layout->floats, s->step,
                                          &x->part)));
    for (size_t i = 0; i < x->part.n; i++)
        if (owner_of(s, key, x->part.index[i]) != whose)
            return gwi_blame(s, r,
                             gw_fail(GW_ERR_DATA, "coordinate %u is not worker %d's",
                                     (unsigned)x->part.index[i], whose));
    if (x->part.n > most)
        return gwi_blame(s, r,
                         gw_fail(GW_ERR_DATA, "%zu entries, at most %zu were expected",
                                 x->part.n, most));
    return GW_OK;
}

/* sum += part */
static void add_part(gw_sync *s)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    gwi_list before = x->sum;

    gwi_merge_add(&before, &x->part, &x->merged);
    x->sum = x->merged;
    x->merged = before;
}

/* The sums that this worker owns, in the order of workers, its own entries as they
 * are. The largest stay in `sum`. */
static gw_status add_owned(gw_sync *s, gwi_note *note)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    int own = s->comm->rank;

    x->sum.n = 0;
    for (int r = 0; r < s->comm->workers; r++) {
        if (r == own)
            take_part(s, own);
        else
            GWI_TRY(read_part(s, r, own, x->part.cap));
        add_part(s);
    }
    *note = gwi_drop_overflow(s, &x->sum);
    gwi_keep_largest(&x->sum, quota(s), &x->sum, &x->others);
    return GW_OK;
}

/* Writes the sums, and puts the error of coding them into `others`; or a note. */
static gw_status write_sums(gw_sync *s, gwi_note note, size_t *len)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context at = {.step = s->step, .key = gwi_sync_key(s, true)};
    uint8_t *msg = x->in + (size_t)s->comm->rank * x->cap;

    if (note != 0) {
        *len = gwi_put_note(s, msg, note);
        return GW_OK;
    }
    GWI_TRY(gwi_coding_put_list(&s->coding, &x->sum, s->layout->floats, &at, msg,
                                x->cap, len));
    gwi_list_copy(&x->others, &x->sum);
    return GW_OK;
}

/* All sums of all owners, to `sum`. */
static gw_status read_sums(gw_sync *s)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);

    x->sum.n = 0;
    for (int r = 0; r < s->comm->workers; r++) {
        GWI_TRY(read_part(s, r, r, quota(s)));
        add_part(s);
    }
    return GW_OK;
}

/* ---- a step -----------------------------------------------------------------------
 */

/* The second half: sums, or the note that one overflows, to all. What was selected is
 * gone then, as it would overflow again. */
static gw_status hand_on(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    uint8_t *msg = x->in + (size_t)s->comm->rank * x->cap;
    size_t len;

    GWI_TRY(add_owned(s, note));
    GWI_TRY(write_sums(s, *note, &len));
    GWI_TRY(gwi_allgather(s->comm, msg, len, x->in, x->cap, x->lens));
    GWI_TRY(gwi_least_note(s, x->in, x->cap, x->lens, note));
    if (*note != 0)
        return GW_OK;
    GWI_TRY(read_sums(s));
    if (s->kept[GWI_RESIDUAL] != NULL) {
        gwi_keep_if(s, &x->own, &x->sum, false);
        gwi_keep_if(s, &x->error, &x->sum, true);
        if (!gwi_coder_of(&s->spec)->exact)
            gwi_keep(s, &x->others);
    }
    gwi_result_clear(s, at);
    gwi_divide(x->sum.value, (float)s->comm->workers, x->sum.n);
    gwi_result_add(s, at, &x->sum);
    return GW_OK;
}

static gw_status owner_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    owner *x = gwi_state(s, GWI_EXCHANGE);
    size_t own = (size_t)s->comm->rank;

    if (*note == 0) {
        gwi_choose(s, at);
        *note = gwi_look_at_selected(s);
    }
    if (*note != 0)
        s->list.n = 0;
    gwi_note mine = *note;
    GWI_TRY(write_parts(s, mine));
    gwi_decodes(s);
    GWI_TRY(all_to_all(s));
    x->lens[own] = mine == 0 ? 0 : gwi_put_note(s, x->in + own * x->cap, mine);
    GWI_TRY(gwi_least_note(s, x->in, x->cap, x->lens, note));
    if (*note == 0)
        return hand_on(s, at, note);
    gwi_keep(s, &x->own);
    return GW_OK;
}

const gwi_exchange gwi_exchange_owner = {
    .part = {.name = "owner",
             .off = owner_off,
             .state_size = sizeof(owner),
             .init = owner_init,
             .fini = owner_fini},
    .run = owner_run,
    .path = gwi_path_of_lists,
    .lossy = true,
    .of_lists = true,
};

const gwi_stage gwi_stage_oktopk = {
    .name = "oktopk",
    .summary = "the largest entries of all gradients, by owners (after Ok-Topk)",
    .example = "oktopk:0.001",
    .cost = "at most 2 density n entries, whatever P is: to owners, and from them",
    .expect = "bytes do not grow with workers; two messages to each of the P-1 others",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_EXCHANGE] = &gwi_exchange_owner.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density residual warmup ladder dense_below delay lead",
};
