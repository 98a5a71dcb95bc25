/* SPDX-License-Identifier: Apache-2.0
 *
 * layout.c - which floats of a flat vector belong together. */
#include "layout.h"

#include <string.h>

/* The bytes of a vector, and what lies between two of its floats, can be counted. */
#define FLOATS_MAX ((size_t)PTRDIFF_MAX / sizeof(float))

static const char *name_of(const gw_tensor *t)
{
    return t->name != NULL ? t->name : "";
}

/* Checks the tensors and adds up floats and bytes of names. */
static gw_status measure(const gw_tensor *tensors, size_t count, size_t *floats,
                         size_t *names)
{
    *floats = *names = 0;
    for (size_t i = 0; i < count; i++) {
        const gw_tensor *t = &tensors[i];
        if (t->offset != *floats)
            return gw_fail(GW_ERR_ARG, "tensor %zu ('%s') has offset %zu, expected %zu",
                           i, name_of(t), t->offset, *floats);
        if (t->rows == 0 || t->cols == 0 || t->cols > (FLOATS_MAX - *floats) / t->rows)
            return gw_fail(GW_ERR_ARG,
                           "tensor %zu ('%s') of %zu x %zu is empty, or the layout "
                           "exceeds the %zu floats that memory can hold",
                           i, name_of(t), t->rows, t->cols, FLOATS_MAX);
        *floats += t->rows * t->cols;
        *names += strlen(name_of(t)) + 1;
    }
    return GW_OK;
}

static gw_layout *build(const gw_tensor *tensors, size_t count, size_t floats,
                        size_t names)
{
    gw_layout *l = gwi_calloc(1, sizeof *l + count * sizeof *l->tensors + names);

    if (l == NULL)
        return NULL;
    l->floats = floats;
    l->count = count;
    char *name = (char *)(l->tensors + count);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(name_of(&tensors[i])) + 1;
        l->tensors[i] = tensors[i];
        l->tensors[i].name = memcpy(name, name_of(&tensors[i]), len);
        name += len;
    }
    return l;
}

gw_status gw_layout_new(gw_layout **out, const gw_tensor *tensors, size_t count)
{
    size_t floats, names;

    *out = NULL;
    if (count == 0 || tensors == NULL)
        return gw_fail(GW_ERR_ARG, "a layout needs at least one tensor");
    if (count > UINT32_MAX)
        return gw_fail(GW_ERR_ARG,
                       "a layout cannot have %zu tensors; the limit is 4294967295",
                       count);
    GWI_TRY(measure(tensors, count, &floats, &names));
    *out = build(tensors, count, floats, names);
    if (*out == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a layout of %zu tensors",
                       count);
    return GW_OK;
}

gw_layout *gwi_layout_copy(const gw_layout *l)
{
    size_t names = 0;

    for (size_t i = 0; i < l->count; i++)
        names += strlen(l->tensors[i].name) + 1;
    return build(l->tensors, l->count, l->floats, names);
}

void gw_layout_free(gw_layout *l)
{
    gwi_free(l);
}

size_t gw_layout_floats(const gw_layout *l)
{
    return l->floats;
}

size_t gw_layout_tensors(const gw_layout *l)
{
    return l->count;
}

const gw_tensor *gw_layout_tensor(const gw_layout *l, size_t i)
{
    return i < l->count ? &l->tensors[i] : NULL;
}

const gw_tensor *gwi_layout_find(const gw_layout *l, size_t i)
{
    size_t low = 0, high = l->count - 1;

    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (l->tensors[middle].offset <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return &l->tensors[low];
}
