/* SPDX-License-Identifier: Apache-2.0
 *
 * buckets.c - averages whole vectors in buckets of whole tensors, from the last to the
 * first, because backward computes gradients in that order. Each bucket is reduced
 * separately, so the result does not depend on whether buckets came one by one or
 * together. */
#include "sync/buckets.h"

#include "sync/notes.h"

bool gwi_bucket_next(const gw_layout *l, gwi_bucket *b)
{
    size_t first = b->first_tensor;

    if (first == 0)
        return false;
    b->end = l->tensors[first - 1].offset +
             l->tensors[first - 1].rows * l->tensors[first - 1].cols;
    do
        b->begin = l->tensors[--first].offset;
    while (first > 0 && b->end - b->begin < GWI_BUCKET_FLOATS);
    b->last_tensor = b->first_tensor - 1;
    b->first_tensor = first;
    return true;
}

gw_status gwi_average_bucket(gw_sync *s, const gwi_bucket *b, float *v, gwi_note *note)
{
    return gwi_average_looking(s, v + b->begin, b->end - b->begin, b->begin, note);
}

gw_status gwi_average_dense(gw_sync *s, float *v, gwi_note *note)
{
    gwi_bucket b = {.first_tensor = s->layout->count};

    while (gwi_bucket_next(s->layout, &b))
        GWI_TRY(gwi_average(s, v + b.begin, b.end - b.begin, b.begin, note));
    return GW_OK;
}

gw_status gwi_average_dense_looking(gw_sync *s, float *v, gwi_note *note)
{
    gwi_bucket b = {.first_tensor = s->layout->count};

    while (gwi_bucket_next(s->layout, &b))
        GWI_TRY(gwi_average_bucket(s, &b, v, note));
    return GW_OK;
}
