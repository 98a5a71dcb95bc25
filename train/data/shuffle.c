/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.c - the order of samples. */
#include "data/shuffle.h"

void gwt_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    /* Fisher and Yates: place i gets one of those not yet placed. */
    for (size_t i = n; i-- > 1;) {
        uint64_t bits = gwt_random(seed, GWT_STREAM_SHUFFLE, epoch, i) >> 32;
        size_t j = (size_t)((bits * (i + 1)) >> 32);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

void gwt_columns(uint32_t *order, size_t n, size_t columns)
{
    size_t steps = n / columns;

    for (size_t s = 0; s < steps; s++)
        for (size_t c = 0; c < columns; c++)
            order[s * columns + c] = (uint32_t)(c * steps + s);
}

size_t gwt_shard_first(size_t step, int workers, int rank, size_t batch)
{
    return (step * (size_t)workers + (size_t)rank) * batch;
}

size_t gwt_epoch_steps(size_t n, int workers, size_t batch)
{
    return n / ((size_t)workers * batch);
}
