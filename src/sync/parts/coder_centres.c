/* SPDX-License-Identifier: Apache-2.0
 *
 * coder_centres.c - entries as a sign and a centre (1bit), or a sign and one of two
 * centres (2bit). A centre is a mean magnitude, or comes from the threshold; 2 bits may
 * also say which of four centres it is, without a sign; with 1 bit
 * each column of each tensor may have its own. kernels/centres.h has the arithmetic. */
#include "kernels/centres.h"

#include <math.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/coder.h"

/* The third is another with 1 bit and with 2. */
enum {
    CENTRE_MEAN,
    CENTRE_THRESHOLD,
    CENTRE_COLUMN,
    CENTRE_BEST = CENTRE_COLUMN,
    CENTRE_HIVEMIND
};

typedef struct options {
    int centre;
    int code;
} options;

static int centre_of(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_CODER))->centre;
}

static bool centres_entropy(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_CODER))->code == GWI_CODE_ENTROPY;
}

static gw_status centres_check(const gwi_spec *spec, const gwi_stage *stage)
{
    if (gwi_chooses(spec))
        return GW_OK;
    if (stage->parts[GWI_SELECTOR] != NULL)
        return gw_fail(
            GW_ERR_SPEC,
            "'%s' needs a density below 1: it codes entries that were chosen",
            stage->name);
    return gw_fail(GW_ERR_SPEC,
                   "'%s' must follow a topk, gtopk or drop that leaves entries out, as "
                   "in 'topk:0.01+%s'; use q or bf16 for whole vectors",
                   stage->name, stage->name);
}

/* ---- one or two centres for all ----------------------------------------------- */

static bool has_two(const gwi_coding *c)
{
    return c->coder == &gwi_coder_2bit;
}

static bool has_four(const gwi_spec *spec)
{
    return centre_of(spec) == CENTRE_HIVEMIND;
}

static gwi_centres fit_centres(const gwi_coding *c, const float *v, size_t k)
{
    static const gwi_centre_kind kinds[2][4] = {
        {GWI_CENTRE_ONE_MEAN, GWI_CENTRE_ONE_THRESHOLD},
        {GWI_CENTRE_TWO_MEAN, GWI_CENTRE_TWO_THRESHOLD, GWI_CENTRE_TWO_BEST,
         GWI_CENTRE_FOUR_BINS},
    };
    float least = k > 0 ? fabsf(v[0]) : 0, most = gwi_absmax(v, k);

    for (size_t i = 1; i < k; i++)
        least = fabsf(v[i]) < least ? fabsf(v[i]) : least;
    return gwi_centres_fit(kinds[has_two(c)][centre_of(c->spec)], v, k, least, most);
}

static void centres_put(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                        const gwi_message_context *at)
{
    gwi_centres centres = fit_centres(c, v, k);

    (void)at;
    gwi_centres_encode(&centres, v, k, w->values);
    gwi_centres_subtract(&centres, v, k);
    memcpy(c->scales, centres.centre, w->scale_count * sizeof(float));
}

static void centres_get(gwi_coding *c, const gwi_wire_view *view, float *out)
{
    gwi_centres centres = {.bits = view->form.bits,
                           .four = has_two(c) && has_four(c->spec)};

    memcpy(centres.centre, c->scales, gwi_centres_count(&centres) * sizeof(float));
    gwi_centres_decode(&centres, view->values, view->form.k, out);
}

/* ---- one centre for each column of each tensor --------------------------------- */

/* Room for the columns of the widest tensor. */
typedef struct columns_room {
    gwi_column_sum *sums;
    uint32_t *slots;
} columns_room;

static bool by_column(const gwi_spec *spec)
{
    return centre_of(spec) == CENTRE_COLUMN;
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

static size_t centres_scales(const gwi_coding *c, size_t k)
{
    size_t columns;

    if (has_two(c) || !by_column(c->spec))
        return has_four(c->spec) ? 4 : 2;
    widest(c->layout, &columns);
    return columns < k ? columns : k;
}

static size_t columns_own(const gwi_coding *c)
{
    size_t all;

    if (!by_column(c->spec))
        return 0;
    return widest(c->layout, &all) * (sizeof(gwi_column_sum) + sizeof(uint32_t));
}

static columns_room room_of(const gwi_coding *c)
{
    size_t all, width = widest(c->layout, &all);
    gwi_column_sum *sums = c->own;

    return (columns_room){sums, (uint32_t *)(void *)(sums + width)};
}

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

static size_t count_columns(gwi_coding *c, const gwi_list *list)
{
    uint32_t *slots = room_of(c).slots;
    size_t at = 0, present = 0;

    for (size_t i = 0; i < c->layout->count; i++) {
        gwi_columns cols = columns_of(&c->layout->tensors[i]);
        gwi_list part = entries_in(list, &c->layout->tensors[i], &at);
        if (part.n > 0)
            present += gwi_columns_map(&cols, part.index, part.n, slots);
    }
    return present;
}

/* Finds the means, leaves them in c->scales, and subtracts them from the values. */
static void columns_put(gwi_coding *c, gwi_wire_writer *w, gwi_list *list)
{
    columns_room room = room_of(c);
    float *means = c->scales;
    size_t at = 0;

    gwi_columns_encode(list->value, list->n, w->values);
    for (size_t i = 0; i < c->layout->count; i++) {
        gwi_columns cols = columns_of(&c->layout->tensors[i]);
        gwi_list part = entries_in(list, &c->layout->tensors[i], &at);
        if (part.n == 0)
            continue;
        size_t present = gwi_columns_map(&cols, part.index, part.n, room.slots);
        gwi_columns_fit(&cols, part.value, part.index, part.n, room.slots, room.sums,
                        present, means);
        gwi_columns_subtract(&cols, part.value, part.index, part.n, room.slots, means);
        means += present;
    }
}

/* The values hold signs; they become the means of their columns, so signed. */
static void apply_columns(gwi_coding *c, const gwi_list *list)
{
    uint32_t *slots = room_of(c).slots;
    const float *means = c->scales;
    size_t at = 0;

    for (size_t i = 0; i < c->layout->count; i++) {
        const gw_tensor *t = &c->layout->tensors[i];
        gwi_columns cols = columns_of(t);
        gwi_list part = entries_in(list, t, &at);
        if (part.n == 0)
            continue;
        size_t present = gwi_columns_map(&cols, part.index, part.n, slots);
        for (size_t j = 0; j < part.n; j++)
            part.value[j] *= means[slots[(part.index[j] - t->offset) % t->cols]];
        means += present;
    }
}

static gw_status columns_get(gwi_coding *c, const gwi_wire_view *view, gwi_list *list)
{
    gwi_centres signs = {.bits = 1, .centre = {1, 1}};

    if (list->n == 0)
        return GW_OK;
    if (count_columns(c, list) != view->scale_count)
        return gw_fail(GW_ERR_DATA,
                       "a message has %zu column means, which do not match its columns",
                       view->scale_count);
    gwi_centres_decode(&signs, view->values, list->n, list->value);
    apply_columns(c, list);
    return GW_OK;
}

/* ---- 1 bit ---------------------------------------------------------------------- */

static const gwi_key keys1[] = {
    {.name = "centre",
     .meaning =
         "what a sign stands for: mean kept magnitude, least, or mean of its column",
     .fallback = "mean",
     .words = "mean|threshold|column",
     .at = offsetof(options, centre),
     .value = GWI_WORD},
    GWI_CODE_KEY(options),
    {.name = NULL},
};

static void form1(const gwi_spec *spec, gwi_wire_form *form)
{
    (void)spec;
    form->coding = GWI_WIRE_CENTRES;
    form->bits = form->group = 1;
}

const gwi_coder gwi_coder_1bit = {
    .part = {.name = "1bit", .keys = keys1, .check = centres_check},
    .form = form1,
    .entropy = centres_entropy,
    .scales = centres_scales,
    .own = columns_own,
    .put = centres_put,
    .get = centres_get,
    .by_position = by_column,
    .group = count_columns,
    .put_list = columns_put,
    .get_list = columns_get,
};

const gwi_stage gwi_stage_1bit = {
    .name = "1bit",
    .summary = "values as a sign and a centre",
    .example = "1bit",
    .cost = "1 bit of each value, and the centres",
    .expect = "use it after topk, gtopk or drop",
    .role = GWI_ROLE_HOW,
    .parts = {[GWI_CODER] = &gwi_coder_1bit.part},
    .keys = "centre code",
};

/* ---- 2 bits --------------------------------------------------------------------- */

static const gwi_key keys2[] = {
    {.name = "centre",
     .meaning =
         "two magnitudes: means, the threshold, or of least error; or four values",
     .fallback = "mean",
     .words = "mean|threshold|best|hivemind",
     .at = offsetof(options, centre),
     .value = GWI_WORD},
    GWI_CODE_KEY(options),
    {.name = NULL},
};

static void form2(const gwi_spec *spec, gwi_wire_form *form)
{
    form->coding = GWI_WIRE_CENTRES;
    form->bits = 2;
    form->group = has_four(spec) ? 4 : 2;
}

const gwi_coder gwi_coder_2bit = {
    .part = {.name = "2bit", .keys = keys2, .check = centres_check},
    .form = form2,
    .entropy = centres_entropy,
    .scales = centres_scales,
    .put = centres_put,
    .get = centres_get,
};

const gwi_stage gwi_stage_2bit = {
    .name = "2bit",
    .summary = "values as a sign and one of two centres",
    .example = "2bit",
    .cost = "2 bits of each value, and the centres",
    .expect = "use it after topk, gtopk or drop",
    .role = GWI_ROLE_HOW,
    .parts = {[GWI_CODER] = &gwi_coder_2bit.part},
    .keys = "centre code",
};
