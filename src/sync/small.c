/* SPDX-License-Identifier: Apache-2.0
 *
 * small.c - averages small tensors whole; the method applies only to the others. */
#include "sync/small.h"

#include <string.h>

#include "sync/notes.h"

typedef struct options {
    uint64_t dense_below; /* tensors with fewer floats are sent whole */
} options;

static const gwi_key keys[] = {
    {.name = "dense_below",
     .meaning = "tensors of fewer floats are sent whole",
     .fallback = "0",
     .range = "a count of floats",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, dense_below),
     .value = GWI_COUNT},
    {.name = NULL},
};

const gwi_part gwi_small_tensors = {.name = "small", .keys = keys};

/* Of a tensor that is cut, a piece is as small as all of it. */
bool gwi_is_small(const gw_sync *s, const gw_tensor *t)
{
    const options *opt = gwi_options_of(&s->spec, GWI_SMALL);

    if (s != s->whole)
        t = gwi_layout_find(s->whole->layout, s->base + t->offset);
    return t->rows * t->cols < opt->dense_below;
}

/* Methods that send all of it whole do not send some of it apart: they are dense. */
gw_status gwi_small_init(gw_sync *s)
{
    if (!gwi_loses(&s->spec))
        return GW_OK;
    for (size_t i = 0; i < s->layout->count; i++)
        if (gwi_is_small(s, &s->layout->tensors[i]))
            s->small.count += s->layout->tensors[i].rows * s->layout->tensors[i].cols;
    if (s->small.count == 0)
        return GW_OK;
    s->small.values = gwi_calloc(s->small.count, sizeof(float));
    return s->small.values != NULL
               ? GW_OK
               : gw_fail(GW_ERR_NOMEM, "not enough memory for small tensors");
}

void gwi_small_fini(gw_sync *s)
{
    gwi_free(s->small.values);
}

void gwi_small_take(gw_sync *s, float *v)
{
    float *to = s->small.values;

    for (size_t i = 0; s->small.count > 0 && i < s->layout->count; i++) {
        const gw_tensor *t = &s->layout->tensors[i];
        size_t n = t->rows * t->cols;
        if (!gwi_is_small(s, t))
            continue;
        memcpy(to, v + t->offset, n * sizeof *v);
        memset(v + t->offset, 0, n * sizeof *v);
        to += n;
    }
}

/* Where in the layout's vector number i of the small tensors' values lies, or of the
 * others'. */
static size_t place_of(const gw_sync *s, bool small, size_t i)
{
    for (size_t t = 0; t < s->layout->count; t++) {
        const gw_tensor *tensor = &s->layout->tensors[t];
        size_t n = tensor->rows * tensor->cols;
        if (gwi_is_small(s, tensor) != small)
            continue;
        if (i < n)
            return tensor->offset + i;
        i -= n;
    }
    return 0;
}

size_t gwi_rest_place(const gw_sync *s, size_t i)
{
    return place_of(s, false, i);
}

gw_status gwi_small_give(gw_sync *s, float *v, gwi_note *note)
{
    const float *from = s->small.values;
    gwi_note found = 0, *carried = gwi_looks(s) ? &found : NULL;

    if (s->small.count == 0)
        return GW_OK;
    GWI_TRY(gwi_allreduce(s->comm, s->small.values, s->small.count,
                          (float)s->comm->workers, carried));
    if (found != 0) {
        *note = gwi_note_of_sum(s, place_of(s, true, found & UINT32_MAX));
        return GW_OK;
    }
    for (size_t i = 0; i < s->layout->count; i++) {
        const gw_tensor *t = &s->layout->tensors[i];
        size_t n = t->rows * t->cols;
        if (!gwi_is_small(s, t))
            continue;
        memcpy(v + t->offset, from, n * sizeof *v);
        from += n;
    }
    return GW_OK;
}

size_t gwi_rest(const gw_sync *s)
{
    return s->layout->floats - s->small.count;
}

void gwi_small_close_up(const gw_sync *s, float *v)
{
    float *to = v;

    for (size_t i = 0; v != NULL && s->small.count > 0 && i < s->layout->count; i++) {
        const gw_tensor *t = &s->layout->tensors[i];
        size_t n = t->rows * t->cols;
        if (gwi_is_small(s, t))
            continue;
        memmove(to, v + t->offset, n * sizeof *v);
        to += n;
    }
}

/* From the last tensor on: what is still to be moved lies before where it goes. */
void gwi_small_open_up(const gw_sync *s, float *v)
{
    size_t end = gwi_rest(s);

    for (size_t i = s->layout->count; v != NULL && s->small.count > 0 && i-- > 0;) {
        const gw_tensor *t = &s->layout->tensors[i];
        size_t n = t->rows * t->cols;
        if (gwi_is_small(s, t)) {
            memset(v + t->offset, 0, n * sizeof *v);
            continue;
        }
        end -= n;
        memmove(v + t->offset, v + end, n * sizeof *v);
    }
}
