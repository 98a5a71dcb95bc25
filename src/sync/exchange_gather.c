/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_gather.c - every worker sends the coordinates it selected to all, and all
 * add up what came: top-k with all-gather, gradient dropping (Aji & Heafield 2017).
 *
 *     residual += v;  list = selected out of the residual
 *     message = coded list;  residual += error of the coding
 *     v = sum over workers of their decoded lists, in the order of ranks, by P */
#include "sync/selector.h"

#include "kernels/vector.h"
#include "sync/notes.h"
#include "sync/pieces.h"

typedef struct gather {
    gwi_selector selector;
    gwi_coder coder;
    uint8_t *slots; /* a message of each worker */
    size_t cap;     /* of one */
    size_t *lens;
    void *memory;
} gather;

static bool gather_fits(const gwi_spec *spec)
{
    return (spec->which == GWI_WHICH_TOPK || spec->which == GWI_WHICH_ABOVE) &&
           spec->combine == GWI_COMBINE_GATHER;
}

static gw_status gather_init(gw_sync *s)
{
    gather *x = s->state;
    size_t n = s->layout->floats, p = (size_t)s->comm->workers;

    GWI_TRY(gwi_selector_init(&x->selector, s));
    GWI_TRY(gwi_coder_init(&x->coder, &s->spec, s->layout, gwi_looks(s),
                           x->selector.list.cap));
    x->cap =
        (gwi_coder_list_bound(&x->coder, n, x->selector.list.cap) + 63) & ~(size_t)63;
    x->memory = gwi_calloc(p, x->cap + sizeof(size_t));
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for %zu messages of %zu bytes", p,
                       x->cap);
    x->slots = x->memory;
    x->lens = (size_t *)(x->slots + p * x->cap);
    return GW_OK;
}

static void gather_fini(gw_sync *s)
{
    gather *x = s->state;

    gwi_selector_fini(&x->selector);
    gwi_coder_fini(&x->coder);
    gwi_free(x->memory);
}

/* Selects and writes the message; a note if what was selected is no good. */
static gw_status encode(gw_sync *s, float *v, uint8_t *msg, size_t *len, gwi_note *note)
{
    gather *x = s->state;
    gwi_occasion at = {.step = s->step, .key = gwi_sync_key(s, false)};

    gwi_selector_run(&x->selector, s, v);
    *note = gwi_sync_look_later(s, &x->selector.list);
    if (*note != 0) {
        *len = gwi_put_note(s, msg, *note);
        return GW_OK;
    }
    GWI_TRY(gwi_coder_put_list(&x->coder, &x->selector.list, s->layout->floats, &at,
                               msg, x->cap, len));
    if (s->spec.how != GWI_HOW_F32)
        gwi_residual_add(s, &x->selector.list);
    return GW_OK;
}

static gw_status decode(gw_sync *s, size_t rank)
{
    gather *x = s->state;

    return gwi_blame(s, (int)rank,
                     gwi_coder_get_list(&x->coder, x->slots + rank * x->cap,
                                        x->lens[rank], s->layout->floats, s->step,
                                        &x->selector.list));
}

static gw_status add_all(gw_sync *s, float *v)
{
    gather *x = s->state;
    const gwi_list *list = &x->selector.list;
    size_t p = (size_t)s->comm->workers;

    gwi_result_clear(s, v);
    for (size_t r = 0; r < p; r++) {
        GWI_TRY(decode(s, r));
        gwi_divide(list->value, (float)p, list->n);
        gwi_result_add(s, v, list);
    }
    return GW_OK;
}

static gw_status gather_run(gw_sync *s, float *v, gwi_note *note)
{
    gather *x = s->state;
    size_t own = (size_t)s->comm->rank, len;
    uint8_t *msg = x->slots + own * x->cap;

    if (*note == 0)
        GWI_TRY(encode(s, v, msg, &len, note));
    else
        len = gwi_put_note(s, msg, *note);
    bool good = *note == 0;
    gwi_sync_encoded(s);
    GWI_TRY(gwi_allgather(s->comm, msg, len, x->slots, x->cap, x->lens));
    GWI_TRY(gwi_least_note(s, x->slots, x->cap, x->lens, note));
    if (*note == 0)
        return add_all(s, v);
    if (good) {
        GWI_TRY(decode(s, own));
        gwi_residual_add(s, &x->selector.list);
    }
    return GW_OK;
}

const gwi_exchange gwi_exchange_gather = {
    .name = "gather",
    .fits = gather_fits,
    .state_size = sizeof(gather),
    .init = gather_init,
    .fini = gather_fini,
    .run = gather_run,
    .lossy = true,
    .takes_pieces = true,
};
