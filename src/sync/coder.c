/* SPDX-License-Identifier: Apache-2.0
 *
 * coder.c - lists and vectors to messages and back, in any of the codings. */
#include "sync/coder.h"

#include <math.h>
#include <string.h>

#include "kernels/bf16.h"
#include "kernels/centres.h"
#include "kernels/vector.h"

/* ---- making -------------------------------------------------------------------------
 */

static bool by_column(const gwi_coder *c)
{
    return c->how == GWI_HOW_CENTRE1 && c->centre == GWI_CENTRE_COLUMN;
}

static size_t widest(const gw_layout *l, size_t *all)
{
    size_t most = 0;

    *all = 0;
    for (size_t i = 0; i < l->count; i++) {
        *all += l->tensors[i].cols;
        most = l->tensors[i].cols > most ? l->tensors[i].cols : most;
    }
    return most;
}

/* The scales that a message of k values may have. */
static size_t scales_for(const gwi_coder *c, size_t k)
{
    size_t columns;

    if (c->how == GWI_HOW_LEVELS)
        return gwi_levels_buckets(&c->levels, k);
    if (!by_column(c))
        return 2;
    widest(c->layout, &columns);
    return columns < k ? columns : k;
}

gw_status gwi_coder_init(gwi_coder *c, const gwi_spec *spec, const gw_layout *layout,
                         bool finite, size_t k)
{
    size_t all, width = widest(layout, &all);

    *c = (gwi_coder){.how = spec->how,
                     .centre = spec->opt.centre,
                     .layout = layout,
                     .finite = finite};
    c->levels = (gwi_levels_format){.bits = (unsigned)spec->opt.bits,
                                    .bucket = (uint32_t)spec->opt.bucket,
                                    .norm = (gwi_levels_norm)spec->opt.norm};
    if (!by_column(c))
        width = 0;
    c->scales_cap = scales_for(c, k);
    c->memory =
        gwi_calloc(1, width * sizeof(gwi_column_sum) + c->scales_cap * sizeof(float) +
                          width * sizeof(uint32_t));
    if (c->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory to code %zu values", k);
    c->sums = c->memory;
    c->scales = (float *)(c->sums + width);
    c->slots = (uint32_t *)(c->scales + c->scales_cap);
    return GW_OK;
}

void gwi_coder_fini(gwi_coder *c)
{
    gwi_free(c->memory);
    c->memory = NULL;
}

/* ---- forms -------------------------------------------------------------- */

static gwi_wire_form form_of(const gwi_coder *c, gwi_wire_kind kind, size_t n, size_t k,
                             uint64_t step)
{
    gwi_wire_form f = {
        .kind = kind, .n = (uint32_t)n, .k = (uint32_t)k, .step = (uint32_t)step};

    switch (c->how) {
    case GWI_HOW_BF16:
        f.coding = GWI_WIRE_BF16;
        break;
    case GWI_HOW_LEVELS:
        f.coding = GWI_WIRE_LEVELS;
        f.bits = c->levels.bits;
        f.group = c->levels.bucket;
        break;
    case GWI_HOW_CENTRE1:
    case GWI_HOW_CENTRE2:
        f.coding = GWI_WIRE_CENTRES;
        f.bits = c->how == GWI_HOW_CENTRE1 ? 1 : 2;
        f.group = f.bits;
        break;
    default:
        f.coding = GWI_WIRE_F32;
    }
    return f;
}

size_t gwi_coder_list_bound(const gwi_coder *c, size_t n, size_t k)
{
    gwi_wire_form f = form_of(c, GWI_WIRE_SPARSE, n, k, 0);

    if (by_column(c))
        f.group = (uint32_t)scales_for(c, k);
    return gwi_wire_bound(&f);
}

size_t gwi_coder_vector_bound(const gwi_coder *c, size_t n)
{
    gwi_wire_form f = form_of(c, GWI_WIRE_DENSE, n, n, 0);

    return gwi_wire_bound(&f);
}

/* ---- columns: one centre for each column of each tensor ----------------- */

/* The entries of list that lie in tensor t, from *at on; moves *at past them. */
static gwi_list entries_in(const gwi_list *list, const gw_tensor *t, size_t *at)
{
    size_t begin = *at, end = t->offset + t->rows * t->cols;

    while (*at < list->n && list->index[*at] < end)
        ++*at;
    return (gwi_list){list->index + begin, list->value + begin, *at - begin,
                      *at - begin};
}

static gwi_columns columns_of(const gw_tensor *t)
{
    return (gwi_columns){.first = (uint32_t)t->offset, .cols = (uint32_t)t->cols};
}

static size_t count_columns(gwi_coder *c, const gwi_list *list)
{
    size_t at = 0, present = 0;

    for (size_t i = 0; i < c->layout->count; i++) {
        gwi_columns cols = columns_of(&c->layout->tensors[i]);
        gwi_list part = entries_in(list, &c->layout->tensors[i], &at);
        if (part.n > 0)
            present += gwi_columns_map(&cols, part.index, part.n, c->slots);
    }
    return present;
}

/* Finds the means, leaves them in c->scales, and subtracts them from the values. */
static void fit_columns(gwi_coder *c, const gwi_list *list)
{
    size_t at = 0;
    float *means = c->scales;

    for (size_t i = 0; i < c->layout->count; i++) {
        gwi_columns cols = columns_of(&c->layout->tensors[i]);
        gwi_list part = entries_in(list, &c->layout->tensors[i], &at);
        if (part.n == 0)
            continue;
        size_t present = gwi_columns_map(&cols, part.index, part.n, c->slots);
        gwi_columns_fit(&cols, part.value, part.index, part.n, c->slots, c->sums,
                        present, means);
        gwi_columns_subtract(&cols, part.value, part.index, part.n, c->slots, means);
        means += present;
    }
}

/* The values hold signs; they become the means of their columns, so signed. */
static void apply_columns(gwi_coder *c, const gwi_list *list)
{
    size_t at = 0;
    const float *means = c->scales;

    for (size_t i = 0; i < c->layout->count; i++) {
        const gw_tensor *t = &c->layout->tensors[i];
        gwi_columns cols = columns_of(t);
        gwi_list part = entries_in(list, t, &at);
        if (part.n == 0)
            continue;
        size_t present = gwi_columns_map(&cols, part.index, part.n, c->slots);
        for (size_t j = 0; j < part.n; j++)
            part.value[j] *= means[c->slots[(part.index[j] - t->offset) % t->cols]];
        means += present;
    }
}

/* ---- values ------------------------------------------------------------- */

static gwi_centres fit_centres(const gwi_coder *c, const float *v, size_t k)
{
    static const gwi_centre_kind kinds[2][2] = {
        {GWI_CENTRE_ONE_MEAN, GWI_CENTRE_ONE_THRESHOLD},
        {GWI_CENTRE_TWO_MEAN, GWI_CENTRE_TWO_THRESHOLD},
    };
    float least = k > 0 ? fabsf(v[0]) : 0, most = gwi_absmax(v, k);

    for (size_t i = 1; i < k; i++)
        least = fabsf(v[i]) < least ? fabsf(v[i]) : least;
    return gwi_centres_fit(kinds[c->how == GWI_HOW_CENTRE2][c->centre], v, k, least,
                           most);
}

static void put_centres(gwi_coder *c, gwi_wire_writer *w, float *v, size_t k)
{
    gwi_centres centres = fit_centres(c, v, k);

    gwi_centres_encode(&centres, v, k, w->values);
    gwi_centres_subtract(&centres, v, k);
    memcpy(c->scales, centres.centre, w->scale_count * sizeof(float));
}

/* Writes values and scales where the writer says; v becomes the error. */
static void put_values(gwi_coder *c, gwi_wire_writer *w, float *v, size_t k,
                       const gwi_occasion *at)
{
    switch (c->how) {
    case GWI_HOW_BF16:
        gwi_bf16_encode_subtract(v, k, w->values);
        break;
    case GWI_HOW_LEVELS:
        gwi_levels_encode_subtract(&c->levels, v, k, at->key, at->bucket, w->values,
                                   c->scales);
        break;
    case GWI_HOW_CENTRE1:
    case GWI_HOW_CENTRE2:
        put_centres(c, w, v, k);
        break;
    default:
        gwi_wire_put_f32(w->values, v, k);
        memset(v, 0, k * sizeof *v);
    }
    gwi_wire_put_f32(w->scales, c->scales, w->scale_count);
}

static void get_centres(const gwi_coder *c, const gwi_wire_view *view, float *out)
{
    gwi_centres centres = {.bits = view->form.bits};

    memcpy(centres.centre, c->scales, view->form.bits * sizeof(float));
    gwi_centres_decode(&centres, view->values, view->form.k, out);
}

static void get_scales(gwi_coder *c, const gwi_wire_view *view)
{
    gwi_wire_get_f32(c->scales, view->scales, view->scale_count);
    c->scales_read = view->scale_count;
}

static void get_values(gwi_coder *c, const gwi_wire_view *view, float *out)
{
    size_t k = view->form.k;

    get_scales(c, view);
    switch (c->how) {
    case GWI_HOW_BF16:
        gwi_bf16_decode(view->values, out, k);
        break;
    case GWI_HOW_LEVELS:
        gwi_levels_decode(&c->levels, view->values, c->scales, out, k);
        break;
    case GWI_HOW_CENTRE1:
    case GWI_HOW_CENTRE2:
        get_centres(c, view, out);
        break;
    default:
        gwi_wire_get_f32(out, view->values, k);
    }
}

/* Nobody sends NaN or infinity where somebody looks for them: workers that have some
 * send a note. Levels cannot be anything but finite. */
static gw_status check_finite(const gwi_coder *c, const float *v, size_t n)
{
    size_t bad = c->finite && c->how != GWI_HOW_LEVELS ? gwi_first_nonfinite(v, n) : n;

    return bad == n
               ? GW_OK
               : gw_fail(GW_ERR_DATA, "value %zu of %zu is NaN or infinite", bad, n);
}

float gwi_coder_peak(const gwi_coder *c)
{
    return c->how == GWI_HOW_LEVELS ? gwi_absmax(c->scales, c->scales_read) : INFINITY;
}

/* ---- lists -------------------------------------------------------------- */

gw_status gwi_coder_put_list(gwi_coder *c, gwi_list *list, size_t n,
                             const gwi_occasion *at, uint8_t *msg, size_t cap,
                             size_t *len)
{
    gwi_wire_form form = form_of(c, GWI_WIRE_SPARSE, n, list->n, at->step);
    gwi_wire_writer w;

    if (by_column(c))
        form.group = (uint32_t)count_columns(c, list);
    GWI_TRY(gwi_wire_begin(&w, &form, msg, cap));
    if (by_column(c)) {
        gwi_columns_encode(list->value, list->n, w.values);
        fit_columns(c, list);
        gwi_wire_put_f32(w.scales, c->scales, w.scale_count);
    } else {
        put_values(c, &w, list->value, list->n, at);
    }
    GWI_TRY(gwi_wire_put_positions(&w, list->index));
    gwi_wire_seal(msg, w.len);
    *len = w.len;
    return GW_OK;
}

/* A message without values may have a centre or none, which is not looked at. */
static bool scales_fit(const gwi_coder *c, const gwi_wire_view *view)
{
    if (view->scale_count > c->scales_cap)
        return false;
    if (view->form.coding != GWI_WIRE_CENTRES || view->form.k == 0)
        return true;
    return by_column(c) ? view->scale_count <= scales_for(c, view->form.k)
                        : view->scale_count == view->form.bits;
}

static gw_status check_scales(const gwi_coder *c, const gwi_wire_view *view)
{
    return scales_fit(c, view)
               ? GW_OK
               : gw_fail(GW_ERR_DATA, "a message has %zu scales", view->scale_count);
}

static gw_status get_columns(gwi_coder *c, const gwi_wire_view *view, gwi_list *list)
{
    gwi_centres signs = {.bits = 1, .centre = {1, 1}};

    if (list->n == 0)
        return GW_OK;
    if (count_columns(c, list) != view->scale_count)
        return gw_fail(GW_ERR_DATA, "a message has %zu means for other columns",
                       view->scale_count);
    gwi_wire_get_f32(c->scales, view->scales, view->scale_count);
    gwi_centres_decode(&signs, view->values, list->n, list->value);
    apply_columns(c, list);
    return GW_OK;
}

gw_status gwi_coder_get_list(gwi_coder *c, const uint8_t *msg, size_t len, size_t n,
                             uint64_t step, gwi_list *list)
{
    gwi_wire_form want = form_of(c, GWI_WIRE_SPARSE, n, list->cap, step);
    gwi_wire_view view;

    GWI_TRY(gwi_wire_open(&view, msg, len));
    GWI_TRY(gwi_wire_expect(&view, &want));
    GWI_TRY(check_scales(c, &view));
    GWI_TRY(gwi_wire_get_positions(&view, list->index, list->cap));
    list->n = view.form.k;
    if (by_column(c))
        GWI_TRY(get_columns(c, &view, list));
    else
        get_values(c, &view, list->value);
    return check_finite(c, list->value, list->n);
}

/* ---- vectors ------------------------------------------------------------ */

gw_status gwi_coder_put_vector(gwi_coder *c, float *v, size_t n, const gwi_occasion *at,
                               uint8_t *msg, size_t cap, size_t *len)
{
    gwi_wire_form form = form_of(c, GWI_WIRE_DENSE, n, n, at->step);
    gwi_wire_writer w;

    GWI_TRY(gwi_wire_begin(&w, &form, msg, cap));
    put_values(c, &w, v, n, at);
    gwi_wire_seal(msg, w.len);
    *len = w.len;
    return GW_OK;
}

static gw_status open_vector(const gwi_coder *c, const uint8_t *msg, size_t len,
                             uint64_t step, size_t n, gwi_wire_view *view)
{
    gwi_wire_form want = form_of(c, GWI_WIRE_DENSE, n, n, step);

    GWI_TRY(gwi_wire_open(view, msg, len));
    GWI_TRY(gwi_wire_expect(view, &want));
    return check_scales(c, view);
}

gw_status gwi_coder_add_vector(gwi_coder *c, const uint8_t *msg, size_t len,
                               uint64_t step, float *acc, size_t n)
{
    gwi_wire_view view;

    GWI_TRY(open_vector(c, msg, len, step, n, &view));
    get_scales(c, &view);
    if (c->how == GWI_HOW_BF16)
        gwi_bf16_decode_add(view.values, acc, n);
    else
        gwi_levels_decode_add(&c->levels, view.values, c->scales, acc, n);
    return GW_OK;
}

gw_status gwi_coder_get_vector(gwi_coder *c, const uint8_t *msg, size_t len,
                               uint64_t step, float *out, size_t n)
{
    gwi_wire_view view;

    GWI_TRY(open_vector(c, msg, len, step, n, &view));
    get_values(c, &view, out);
    return GW_OK;
}
