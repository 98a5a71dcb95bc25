/* SPDX-License-Identifier: Apache-2.0
 *
 * means.h - vectors described by one or two means.
 *
 * Two means: the mean of the entries that are not negative and the mean of the
 * negative ones (-0 is not negative). Sign and mean: the sign of each entry, one
 * bit, and the mean magnitude; signs.h has that for buckets.
 *
 *     bit j % 8 of byte j / 8 is the sign bit of entry j: 1 is negative, and -0 is
 *     negative here; unused bits of the last byte are 0.
 *     value = sign bit ? -mean : mean
 *
 * Sums are in double: lane j % 16 adds up entries j of a stripe in ascending
 * order, then the upper half of the lanes is added to the lower until one is left.
 * A vector of n entries is cut into stripes of the same length, gwi_means_stripe(n),
 * whose sums are added from the first to the last.
 *
 * Everything here is EXACT: the same bits on every instruction set and for any
 * number of threads. No pointer needs alignment; nothing outside the arrays is
 * read or written. NaN adds nothing to two means and counts as not negative; it
 * makes a mean magnitude NaN. */
#ifndef GWI_MEANS_H
#define GWI_MEANS_H

#include <stddef.h>
#include <stdint.h>

typedef struct gwi_two_sums {
    double plus, minus;               /* sums of the entries >= 0 and < 0 */
    uint64_t plus_count, minus_count; /* how many there are */
} gwi_two_sums;

/* The loops, each on one thread and over one stripe. */
typedef struct gwi_means_kernels {
    const char *isa;

    void (*two_sums)(const float *v, size_t n, gwi_two_sums *out);
    /* v[j] += v[j] < 0 ? minus : plus. */
    void (*two_shift)(float *v, size_t n, float plus, float minus);

    /* Writes (n + 7) / 8 bytes of signs and returns the sum of magnitudes. */
    double (*sign_encode)(const float *v, size_t n, uint8_t *signs);
    /* Subtracts from each entry the mean with the entry's sign. */
    void (*sign_subtract)(float *v, size_t n, float mean);
    void (*sign_decode)(const uint8_t *signs, float mean, float *out, size_t n);
    /* acc += value. */
    void (*sign_decode_add)(const uint8_t *signs, float mean, float *acc, size_t n);
} gwi_means_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_means_for(unsigned flags, gwi_means_kernels *k);
const gwi_means_kernels *gwi_means(void);
void gwi_means_avx2(gwi_means_kernels *k);
void gwi_means_avx512(gwi_means_kernels *k);

/* How many entries a stripe of an n-vector has: a multiple of 64, at least 4096,
 * and such that there are at most 64 stripes. */
size_t gwi_means_stripe(size_t n);

/* Whole vectors, spread over the thread pool when they are long. The sums are of
 * all n entries; a mean is sum / count, rounded to float, and 0 of nothing. */
gwi_two_sums gwi_two_sums_of(const float *v, size_t n);
float gwi_mean_of(double sum, uint64_t count);
void gwi_two_shift(float *v, size_t n, float plus, float minus);

#endif
