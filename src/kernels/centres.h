/* SPDX-License-Identifier: Apache-2.0
 *
 * centres.h - selected values written in one or two bits each.
 *
 * The k values that gradient dropping keeps all have magnitudes above a threshold
 * T, and few are much above it. So a sign and one or two magnitudes, the centres,
 * say most of what there is to say:
 *
 *     bits  code of a value           decoded
 *     1     sign                      +-centre[0]
 *     2     sign + 2 * bucket         +-centre[bucket]
 *
 * sign is 1 for negative (and for -0); codes follow each other from the lowest bit
 * of the first byte upwards, and unused bits of the last byte are 0. bucket is 1
 * when |v| - T >= width, and width is half the distance from T to the largest
 * magnitude. A centre is the lower end of its bucket, T or T + width, or the mean
 * magnitude of the values in it. For the least squared error a value goes to the nearer
 * centre instead, and both are the means of what goes to them (Lloyd 1957).
 *
 * Four centres have no sign: the two bits are the number of a bin, which is as wide as
 * 1.5 standard deviations, and the centre is the mean of the values in it. The third
 * bin lies around the mean of all, so the bins are lopsided. That is how SparseLoCo's
 * code writes values, and it is here to be compared with. With columns there is one
 * centre, a mean, for each column of a matrix that has a value at all, and one bit per
 * value.
 *
 * There are few values, so this is plain C, on one thread, and its bits are the
 * same everywhere: sums are in double, in the order of the values. No pointer of
 * bytes needs alignment; nothing outside the arrays is read or written, and
 * non-finite values get some code. */
#ifndef GWI_CENTRES_H
#define GWI_CENTRES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum gwi_centre_kind {
    GWI_CENTRE_ONE_THRESHOLD, /* 1 bit, centre T */
    GWI_CENTRE_ONE_MEAN,      /* 1 bit, centre the mean magnitude */
    GWI_CENTRE_TWO_THRESHOLD, /* 2 bits, centres T and T + width */
    GWI_CENTRE_TWO_MEAN,      /* 2 bits, centres the mean magnitudes */
    GWI_CENTRE_TWO_BEST,      /* 2 bits, centres with the least squared error */
    GWI_CENTRE_FOUR_BINS      /* 2 bits, centres the means of four bins */
} gwi_centre_kind;

typedef struct gwi_centres {
    unsigned bits; /* 1 or 2; that many centres travel, */
    bool four;     /* or four */
    float centre[4];
    float threshold, width; /* what tells the buckets apart when encoding, */
    double middle, bin;     /* and what tells the four bins apart */
} gwi_centres;

/* Finds the centres of v (k values) for the given threshold and largest magnitude,
 * which may be that of a sample. The mean of a bucket without values is its lower
 * end. */
gwi_centres gwi_centres_fit(gwi_centre_kind kind, const float *v, size_t k,
                            float threshold, float largest);

/* (k * bits + 7) / 8, the bytes that k codes take. */
size_t gwi_centres_len(unsigned bits, size_t k);

/* Writes the codes of v. */
void gwi_centres_encode(const gwi_centres *c, const float *v, size_t k, uint8_t *codes);

/* Subtracts from v what its codes say: v becomes the error. */
void gwi_centres_subtract(const gwi_centres *c, float *v, size_t k);

/* How many centres travel. */
static inline size_t gwi_centres_count(const gwi_centres *c)
{
    return c->four ? 4 : c->bits;
}

/* The values of k codes. Only bits, four and centre of c are looked at; any bytes are
 * codes. */
void gwi_centres_decode(const gwi_centres *c, const uint8_t *codes, size_t k,
                        float *out);

/* ---- one centre per column -------------------------------------------------- */

/* A matrix in a flat vector: index i lies in column (i - first) % cols. cols is at
 * least 1 and below 2^32 - 1. */
typedef struct gwi_columns {
    uint32_t first, cols;
} gwi_columns;

/* Work space for one column that has values. */
typedef struct gwi_column_sum {
    double sum;
    size_t count;
} gwi_column_sum;

/* Numbers the columns that hold one of the k indices, in ascending order, and
 * returns how many there are. slot has c->cols entries: the number of each column,
 * UINT32_MAX if it has none. Sender and receiver know the indices, so only the
 * means need to travel. */
size_t gwi_columns_map(const gwi_columns *c, const uint32_t *index, size_t k,
                       uint32_t *slot);

/* The mean magnitude of each column that has values. sums (work space) and means
 * have as many entries as gwi_columns_map() returned for the same index. */
void gwi_columns_fit(const gwi_columns *c, const float *v, const uint32_t *index,
                     size_t k, const uint32_t *slot, gwi_column_sum *sums,
                     size_t present, float *means);

/* Writes the codes of v, one bit each: those of centres with bits = 1, which is how
 * their signs are read again. */
void gwi_columns_encode(const float *v, size_t k, uint8_t *codes);

/* Subtracts from v what its codes and the means say: v becomes the error. slot and
 * means are those of the same index. */
void gwi_columns_subtract(const gwi_columns *c, float *v, const uint32_t *index,
                          size_t k, const uint32_t *slot, const float *means);

#endif
