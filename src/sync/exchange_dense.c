/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_dense.c - the average of whole vectors by all-reduce.
 *
 * The vector is cut into buckets of whole tensors, from the last to the first, since
 * that is the order in which backward makes gradients. Buckets are reduced one by
 * one, so the result does not depend on whether they came one by one or together. */
#include "sync/buckets.h"
#include "sync/notes.h"

static bool dense_fits(const gwi_spec *spec)
{
    return spec->which == GWI_WHICH_ALL && spec->how == GWI_HOW_F32;
}

static gw_status dense_run(gw_sync *s, float *v, gwi_note *note)
{
    gwi_sync_encoded(s);
    return gwi_average_dense(s, v, note);
}

const gwi_exchange gwi_exchange_dense = {
    .name = "dense",
    .fits = dense_fits,
    .run = dense_run,
};

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
    return gwi_average(s, v + b->begin, b->end - b->begin, b->begin, note);
}

gw_status gwi_average_dense(gw_sync *s, float *v, gwi_note *note)
{
    gwi_bucket b = {.first_tensor = s->layout->count};

    while (gwi_bucket_next(s->layout, &b))
        GWI_TRY(gwi_average_bucket(s, &b, v, note));
    return GW_OK;
}
