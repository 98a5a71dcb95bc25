/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_gather.c - every worker sends the coordinates it selected to all, and all
 * add up what came: top-k with all-gather, gradient dropping (Aji & Heafield 2017).
 *
 *     residual += v;  list = selected out of the residual
 *     message = coded list;  residual += error of the coding
 *     v = sum over workers of their decoded lists, in the order of ranks, by P
 *
 * Every worker receives P - 1 lists. With via=owner the exchange of exchange_owner.c
 * takes the place of this one, and with via=auto it does if that sends less.
 *
 * With combine=senders each coordinate of the sum is divided by the number of workers
 * that have sent it, as SparseLoCo and DeMo do. */
#include <string.h>

#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"
#include "sync/selection.h"

enum { COMBINE_ALL, COMBINE_SENDERS };
enum { VIA_GATHER, VIA_OWNER, VIA_AUTO };

/* The first is the choice of exchange_coded.c, which takes the place of this exchange
 * where everything is sent in few bits, and finds its options here. */
typedef struct options {
    int of_whole;
    int combine, via;
} options;

static const gwi_key keys[] = {
    {.name = "combine",
     .meaning = "mean of an entry over all workers, or over those that have sent it",
     .fallback = "all",
     .words = "all|senders",
     .unsaid = true,
     .at = offsetof(options, combine),
     .value = GWI_WORD},
    {.name = "via",
     .meaning =
         "lists to all, or entries to owners and sums back; auto: what sends less",
     .fallback = "gather",
     .words = "gather|owner|auto",
     .unsaid = true,
     .at = offsetof(options, via),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool by_senders(const gwi_spec *spec)
{
    const options *opt = gwi_options_of(spec, GWI_EXCHANGE);

    return opt->combine == COMBINE_SENDERS;
}

static gw_status gather_check(const gwi_spec *spec, const gwi_stage *stage)
{
    const options *opt = gwi_options_of(spec, GWI_EXCHANGE);

    if (opt->via == VIA_GATHER || !by_senders(spec))
        return GW_OK;
    return gw_fail(GW_ERR_SPEC,
                   "'%s' cannot have both combine=senders and another via than gather",
                   stage->name);
}

/* One list to each of P - 1 workers, or 2 (P - 1) / P of one in all: to owners, and
 * from them. With two workers it is the same, and gathering takes one message. A tree
 * sends 2 log2(P) lists one after the other, which is never less. */
static const gwi_exchange *gather_instead(gwi_spec *spec, int workers)
{
    options *opt = (void *)spec->options[GWI_EXCHANGE];

    if (opt->via == VIA_AUTO && workers > 0)
        opt->via = workers > 2 ? VIA_OWNER : VIA_GATHER;
    return opt->via == VIA_OWNER ? &gwi_exchange_owner : &gwi_exchange_gather;
}

typedef struct gather {
    uint8_t *slots; /* a message of each worker */
    size_t cap;     /* of one */
    size_t *lens;
    uint16_t *senders; /* of each coordinate; NULL: not counted */
    void *memory;
} gather;

static bool gather_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec);
}

static gw_status count_senders(gw_sync *s)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats;

    if (s->comm->workers > UINT16_MAX)
        return gw_fail(GW_ERR_SPEC, "combine=senders is for up to %d workers",
                       UINT16_MAX);
    x->senders = gwi_calloc(n, sizeof *x->senders);
    if (x->senders == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to count who sends what");
    return GW_OK;
}

static gw_status gather_init(gw_sync *s)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats, p = (size_t)s->comm->workers;

    GWI_TRY(
        gwi_coding_init(&s->coding, &s->spec, s->layout, gwi_looks(s), s->list.cap));
    x->cap = (gwi_coding_list_bound(&s->coding, n, s->list.cap) + 63) & ~(size_t)63;
    x->memory = gwi_calloc(p, x->cap + sizeof(size_t));
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu messages of %zu bytes",
                       p, x->cap);
    x->slots = x->memory;
    x->lens = (size_t *)(x->slots + p * x->cap);
    return by_senders(&s->spec) ? count_senders(s) : GW_OK;
}

static void gather_fini(gw_sync *s)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->senders);
    gwi_free(x->memory);
}

/* Selects and writes the message; a note if what was selected is no good. */
static gw_status encode(gw_sync *s, const gwi_result *at, uint8_t *msg, size_t *len,
                        gwi_note *note)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);
    gwi_message_context context = {.step = s->step, .key = gwi_sync_key(s, false)};

    gwi_choose(s, at);
    *note = gwi_look_at_selected(s);
    if (*note != 0) {
        *len = gwi_put_note(s, msg, *note);
        return GW_OK;
    }
    GWI_TRY(gwi_coding_put_list(&s->coding, &s->list, s->layout->floats, &context, msg,
                                x->cap, len));
    if (!gwi_coder_of(&s->spec)->exact)
        gwi_keep(s, &s->list);
    return GW_OK;
}

static gw_status decode(gw_sync *s, size_t rank)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);

    return gwi_blame(s, (int)rank,
                     gwi_coding_get_list(&s->coding, x->slots + rank * x->cap,
                                         x->lens[rank], s->layout->floats, s->step,
                                         &s->list));
}

/* v is the sum over all; it becomes the mean over those that sent. */
static gw_status add_of_senders(gw_sync *s, float *v)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = s->layout->floats, p = (size_t)s->comm->workers;
    const gwi_list *list = &s->list;

    memset(v, 0, n * sizeof *v);
    memset(x->senders, 0, n * sizeof *x->senders);
    for (size_t r = 0; r < p; r++) {
        GWI_TRY(decode(s, r));
        gwi_vector()->scatter_add(v, list->index, list->value, list->n);
        for (size_t i = 0; i < list->n; i++)
            x->senders[list->index[i]]++;
    }
    for (size_t i = 0; i < n; i++)
        if (x->senders[i] > 1)
            v[i] /= (float)x->senders[i];
    return GW_OK;
}

static gw_status add_all(gw_sync *s, const gwi_result *at)
{
    const gwi_list *list = &s->list;
    size_t p = (size_t)s->comm->workers;

    gwi_result_clear(s, at);
    for (size_t r = 0; r < p; r++) {
        GWI_TRY(decode(s, r));
        gwi_divide(list->value, (float)p, list->n);
        gwi_result_add(s, at, list);
    }
    return GW_OK;
}

static gw_status gather_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gather *x = gwi_state(s, GWI_EXCHANGE);
    size_t own = (size_t)s->comm->rank, len;
    uint8_t *msg = x->slots + own * x->cap;

    if (*note == 0)
        GWI_TRY(encode(s, at, msg, &len, note));
    else
        len = gwi_put_note(s, msg, *note);
    bool good = *note == 0;
    gwi_decodes(s);
    GWI_TRY(gwi_allgather(s->comm, msg, len, x->slots, x->cap, x->lens));
    GWI_TRY(gwi_least_note(s, x->slots, x->cap, x->lens, note));
    if (*note == 0)
        return by_senders(&s->spec) ? add_of_senders(s, at->v) : add_all(s, at);
    if (good) {
        GWI_TRY(decode(s, own));
        gwi_keep(s, &s->list);
    }
    return GW_OK;
}

static bool gather_gathers(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_EXCHANGE))->via == VIA_GATHER;
}

const gwi_exchange gwi_exchange_gather = {
    .part = {.name = "gather",
             .keys = keys,
             .check = gather_check,
             .off = gather_off,
             .state_size = sizeof(gather),
             .init = gather_init,
             .fini = gather_fini},
    .run = gather_run,
    .path = gwi_path_of_lists,
    .instead = gather_instead,
    .lossy = true,
    .of_lists = true,
    .gathers = gather_gathers,
    .by_entry = by_senders,
};
