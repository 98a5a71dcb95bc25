/* SPDX-License-Identifier: Apache-2.0
 *
 * signs.h - signs and means of buckets: a vector as one bit per entry and the mean
 * magnitude of each bucket of entries, the last one possibly shorter.
 *
 *     value = sign bit ? -mean of its bucket : mean of its bucket
 *
 * A bucket is a multiple of 8 entries, so that each begins on a byte of signs. A mean
 * that is not a number, or too large, becomes GWI_SIGNS_MEAN_MAX, so that what is
 * decoded is always finite. EXACT like means.h, on which it is built. */
#ifndef GWI_SIGNS_H
#define GWI_SIGNS_H

#include <stddef.h>
#include <stdint.h>

#define GWI_SIGNS_MEAN_MAX 0x1.FFFFp127f

/* How many buckets n entries have. */
static inline size_t gwi_signs_buckets(size_t n, size_t bucket)
{
    return (n + bucket - 1) / bucket;
}

/* Writes the signs of v, (n + 7) / 8 bytes, and the means; v becomes the error. */
void gwi_signs_encode_subtract(float *v, size_t n, size_t bucket, uint8_t *signs,
                               float *means);

/* out = the values; acc += the values. */
void gwi_signs_decode(const uint8_t *signs, const float *means, float *out, size_t n,
                      size_t bucket);
void gwi_signs_decode_add(const uint8_t *signs, const float *means, float *acc,
                          size_t n, size_t bucket);

#endif
