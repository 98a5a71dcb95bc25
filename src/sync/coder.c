/* SPDX-License-Identifier: Apache-2.0
 *
 * coder.c - turns lists and vectors into messages and back, in every coding. */
#include "sync/coder.h"

#include <math.h>

#include "kernels/vector.h"

/* ---- making --------------------------------------------------------------- */

static bool by_position(const gwi_coding *c)
{
    return c->coder->by_position != NULL && c->coder->by_position(c->spec);
}

static size_t scales_for(const gwi_coding *c, size_t k)
{
    return c->coder->scales != NULL ? c->coder->scales(c, k) : 0;
}

/* Bytes of room for coding up to k values; 0 if they are not coded. */
static size_t room_for(const gwi_coding *c, size_t k)
{
    gwi_wire_form form = {.k = (uint32_t)k};

    if (c->coder->entropy == NULL || !c->coder->entropy(c->spec))
        return 0;
    c->coder->form(c->spec, &form);
    return gwi_wire_values_room(&form);
}

gw_status gwi_coding_init(gwi_coding *c, const gwi_spec *spec, const gw_layout *layout,
                          bool finite, size_t k)
{
    *c = (gwi_coding){.coder = gwi_coder_of(spec),
                      .spec = spec,
                      .layout = layout,
                      .finite = finite && !gwi_coder_of(spec)->finite};
    size_t own = c->coder->own != NULL ? (c->coder->own(c) + 7) & ~(size_t)7 : 0;
    c->scales_cap = scales_for(c, k);
    c->room_len = room_for(c, k);
    c->memory = gwi_calloc(1, own + c->scales_cap * sizeof *c->scales + c->room_len);
    if (c->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to code %zu values", k);
    c->own = c->memory;
    c->scales = (float *)(void *)((uint8_t *)c->memory + own);
    c->room = c->room_len > 0 ? (uint8_t *)(c->scales + c->scales_cap) : NULL;
    return GW_OK;
}

void gwi_coding_fini(gwi_coding *c)
{
    gwi_free(c->memory);
    c->memory = NULL;
}

/* ---- forms ---------------------------------------------------------------- */

static gwi_wire_form form_of(const gwi_coding *c, gwi_wire_kind kind, size_t n,
                             size_t k, uint64_t step)
{
    gwi_wire_form f = {
        .kind = kind, .n = (uint32_t)n, .k = (uint32_t)k, .step = (uint32_t)step};

    c->coder->form(c->spec, &f);
    f.entropy = c->room != NULL;
    return f;
}

size_t gwi_coding_list_bound(const gwi_coding *c, size_t n, size_t k)
{
    gwi_wire_form f = form_of(c, GWI_WIRE_SPARSE, n, k, 0);

    if (by_position(c))
        f.group = (uint32_t)scales_for(c, k);
    return gwi_wire_bound(&f);
}

size_t gwi_coding_vector_bound(const gwi_coding *c, size_t n)
{
    gwi_wire_form f = form_of(c, GWI_WIRE_DENSE, n, n, 0);

    return gwi_wire_bound(&f);
}

/* ---- values --------------------------------------------------------------- */

/* Writes the scales, and the values once more, if they become shorter. */
static void finish_values(gwi_coding *c, gwi_wire_writer *w)
{
    gwi_wire_put_f32(w->scales, c->scales, w->scale_count);
    if (c->room != NULL && w->form.k > 0)
        gwi_wire_shorten_values(w, c->room);
}

static void put_values(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                       const gwi_message_context *at)
{
    c->coder->put(c, w, v, k, at);
    finish_values(c, w);
}

/* Values that came coded are restored before anybody looks at them. */
static gw_status restore_values(gwi_coding *c, gwi_wire_view *view)
{
    if (view->form.entropy && gwi_wire_values_room(&view->form) > c->room_len)
        return gw_fail(GW_ERR_DATA, "a message has %u values, more than expected",
                       view->form.k);
    return gwi_wire_restore_values(view, c->room);
}

static void get_scales(gwi_coding *c, const gwi_wire_view *view)
{
    gwi_wire_get_f32(c->scales, view->scales, view->scale_count);
    c->scales_read = view->scale_count;
}

/* Nobody sends NaN or infinity where somebody looks for them: workers that have some
 * send a note. */
static gw_status check_finite(const gwi_coding *c, const float *v, size_t n)
{
    size_t bad = c->finite ? gwi_first_nonfinite(v, n) : n;

    return bad == n
               ? GW_OK
               : gw_fail(GW_ERR_DATA, "value %zu of %zu is NaN or infinite", bad, n);
}

float gwi_coding_peak(const gwi_coding *c)
{
    return c->coder->has_peaks ? gwi_absmax(c->scales, c->scales_read) : INFINITY;
}

/* ---- lists ---------------------------------------------------------------- */

gw_status gwi_coding_put_list(gwi_coding *c, gwi_list *list, size_t n,
                              const gwi_message_context *at, uint8_t *msg, size_t cap,
                              size_t *len)
{
    gwi_wire_form form = form_of(c, GWI_WIRE_SPARSE, n, list->n, at->step);
    gwi_wire_writer w;

    if (by_position(c))
        form.group = (uint32_t)c->coder->group(c, list);
    GWI_TRY(gwi_wire_begin(&w, &form, msg, cap));
    if (by_position(c)) {
        c->coder->put_list(c, &w, list);
        finish_values(c, &w);
    } else {
        put_values(c, &w, list->value, list->n, at);
    }
    GWI_TRY(gwi_wire_put_positions(&w, list->index));
    gwi_wire_seal(msg, w.len);
    *len = w.len;
    return GW_OK;
}

/* A message without values may have a centre or none, which is not looked at. */
static bool scales_fit(const gwi_coding *c, const gwi_wire_form *want,
                       const gwi_wire_view *view)
{
    if (view->scale_count > c->scales_cap)
        return false;
    if (view->form.coding != GWI_WIRE_CENTRES || view->form.k == 0)
        return true;
    return by_position(c) ? view->scale_count <= scales_for(c, view->form.k)
                          : view->scale_count == want->group;
}

static gw_status check_scales(const gwi_coding *c, const gwi_wire_form *want,
                              const gwi_wire_view *view)
{
    return scales_fit(c, want, view)
               ? GW_OK
               : gw_fail(GW_ERR_DATA, "a message has the wrong number of scales, %zu",
                         view->scale_count);
}

gw_status gwi_coding_get_list(gwi_coding *c, const uint8_t *msg, size_t len, size_t n,
                              uint64_t step, gwi_list *list)
{
    gwi_wire_form want = form_of(c, GWI_WIRE_SPARSE, n, list->cap, step);
    gwi_wire_view view;

    GWI_TRY(gwi_wire_open(&view, msg, len));
    GWI_TRY(gwi_wire_expect(&view, &want));
    GWI_TRY(check_scales(c, &want, &view));
    GWI_TRY(restore_values(c, &view));
    GWI_TRY(gwi_wire_get_positions(&view, list->index, list->cap));
    list->n = view.form.k;
    get_scales(c, &view);
    if (by_position(c))
        GWI_TRY(c->coder->get_list(c, &view, list));
    else
        c->coder->get(c, &view, list->value);
    return check_finite(c, list->value, list->n);
}

/* ---- vectors -------------------------------------------------------------- */

gw_status gwi_coding_put_vector(gwi_coding *c, float *v, size_t n,
                                const gwi_message_context *at, uint8_t *msg, size_t cap,
                                size_t *len)
{
    gwi_wire_form form = form_of(c, GWI_WIRE_DENSE, n, n, at->step);
    gwi_wire_writer w;

    GWI_TRY(gwi_wire_begin(&w, &form, msg, cap));
    put_values(c, &w, v, n, at);
    gwi_wire_seal(msg, w.len);
    *len = w.len;
    return GW_OK;
}

static gw_status open_vector(gwi_coding *c, const uint8_t *msg, size_t len,
                             uint64_t step, size_t n, gwi_wire_view *view)
{
    gwi_wire_form want = form_of(c, GWI_WIRE_DENSE, n, n, step);

    GWI_TRY(gwi_wire_open(view, msg, len));
    GWI_TRY(gwi_wire_expect(view, &want));
    GWI_TRY(check_scales(c, &want, view));
    GWI_TRY(restore_values(c, view));
    get_scales(c, view);
    return GW_OK;
}

gw_status gwi_coding_add_vector(gwi_coding *c, const uint8_t *msg, size_t len,
                                uint64_t step, float *acc, size_t n)
{
    gwi_wire_view view;

    GWI_TRY(open_vector(c, msg, len, step, n, &view));
    c->coder->add(c, &view, acc);
    return GW_OK;
}

gw_status gwi_coding_get_vector(gwi_coding *c, const uint8_t *msg, size_t len,
                                uint64_t step, float *out, size_t n)
{
    gwi_wire_view view;

    GWI_TRY(open_vector(c, msg, len, step, n, &view));
    c->coder->get(c, &view, out);
    return GW_OK;
}
