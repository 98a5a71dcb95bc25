/* SPDX-License-Identifier: Apache-2.0
 *
 * buckets.h - the buckets in which whole vectors are averaged. */
#ifndef GWI_BUCKETS_H
#define GWI_BUCKETS_H

#include "sync/sync.h"

/* A bucket closes once it has this many floats: 4 MiB, so that what is lost to
 * latency is small even on a fast network, while backward still runs. */
enum { GWI_BUCKET_FLOATS = 1 << 20 };

typedef struct gwi_bucket {
    size_t first_tensor, last_tensor;
    size_t begin, end; /* floats */
} gwi_bucket;

/* Moves on to the bucket before b->first_tensor; begin with the number of tensors
 * there. False when there is none. */
bool gwi_bucket_next(const gw_layout *layout, gwi_bucket *bucket);

/* The average of one bucket of v over the workers. It looks for bad numbers, like all
 * here that say so. */
gw_status gwi_average_bucket(gw_sync *sync, const gwi_bucket *bucket, float *v,
                             gwi_note *note);

/* The average of v over the workers by whole buckets of tensors, as dense does it. */
gw_status gwi_average_dense(gw_sync *sync, float *v, gwi_note *note);
gw_status gwi_average_dense_looking(gw_sync *sync, float *v, gwi_note *note);

#endif
