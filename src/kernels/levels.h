/* SPDX-License-Identifier: Apache-2.0
 *
 * levels.h - values rounded at random to a few levels per bucket (QSGD).
 *
 * A vector of n floats is cut into buckets of `bucket` entries, the last one
 * possibly shorter. Each bucket has a norm N, each entry a signed level c of
 * `bits` bits between -s and s, where s = 2^(bits-1) - 1:
 *
 *     unit  = N / s                   rounded to float, once per bucket
 *     value = unit * c                rounded to float
 *
 *     v (n floats)   | bucket 0        | bucket 1        | ... | last, shorter |
 *     norms (float)  | N0              | N1              | ... | Nlast         |
 *     packed (bytes) | bucket*bits/8   | bucket*bits/8   | ... | rounded up    |
 *
 * Levels are in two's complement, one after the other from the lowest bit of the
 * first byte upwards; a bucket is a multiple of 8 entries, so every bucket, and
 * every 8 entries in it, begin on a byte. Unused bits of the last byte are 0.
 *
 * Encoding entry j of bucket B, with h = gwi_random24(gwi_random_block(key, B), j):
 *
 *     scale = (s * 2^24) / N          rounded to float; 0 when N is 0
 *     a     = |v| * scale             rounded to float, at most s * 2^24
 *     c     = (trunc(a) + h) >> 24, with the sign of v
 *
 * so that the expected level is trunc(a) / 2^24: the rounding is unbiased to
 * 2^-24 of a level, in integers, and no level exceeds s.
 *
 * The norm of a bucket is the largest magnitude, or the root of the sum of squares
 * taken in double, in the order of vector.h's sumsq. Below GWI_LEVELS_NORM_MIN it
 * becomes 0, since scale would overflow; above GWI_LEVELS_NORM_MAX, or if it is not
 * a number, it becomes that, since s * unit would round to infinity. So finite input
 * gives finite values, and only magnitudes above the limit come out smaller.
 *
 * Everything here is EXACT: the same bits on every instruction set and for any
 * number of threads. No pointer needs alignment; nothing outside the arrays is
 * read or written; non-finite input gives some level, the same one everywhere. */
#ifndef GWI_LEVELS_H
#define GWI_LEVELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/random.h"

enum { GWI_LEVELS_BITS_MIN = 2, GWI_LEVELS_BITS_MAX = 8, GWI_LEVELS_BUCKET = 512 };

#define GWI_LEVELS_NORM_MIN 0x1p-96f
#define GWI_LEVELS_NORM_MAX 0x1.FFFFp127f

typedef enum gwi_levels_norm {
    GWI_NORM_L2 = 0, /* root of the sum of squares, as in the QSGD paper */
    GWI_NORM_MAX = 1 /* largest magnitude: less variance, more large levels */
} gwi_levels_norm;

/* bits from 2 to 8; bucket a multiple of 8, from 8 to 2^30. */
typedef struct gwi_levels_format {
    unsigned bits;
    uint32_t bucket;
    gwi_levels_norm norm;
} gwi_levels_format;

/* What an encoder needs to know of one bucket; made by gwi_levels_rule_make(). */
typedef struct gwi_levels_rule {
    unsigned bits;
    float cap;              /* s * 2^24 */
    float scale;            /* s * 2^24 / N */
    float unit;             /* N / s */
    gwi_random_words words; /* of the bucket's random bits */
} gwi_levels_rule;

/* The loops over one bucket. Those of every instruction set give the same bits;
 * n may be any number up to the size of a bucket. */
typedef struct gwi_levels_kernels {
    const char *isa;

    /* Of vector.h, for the norms. */
    double (*sumsq)(const float *v, size_t n);
    float (*absmax)(const float *v, size_t n);

    /* Writes (n * bits + 7) / 8 bytes. */
    void (*encode)(const gwi_levels_rule *rule, const float *v, size_t n, uint8_t *out);
    /* The same, and subtracts from v the values that were encoded. */
    void (*encode_subtract)(const gwi_levels_rule *rule, float *v, size_t n,
                            uint8_t *out);
    /* Reads (n * bits + 7) / 8 bytes; any bytes are levels. */
    void (*decode)(const uint8_t *in, unsigned bits, float unit, float *out, size_t n);
    /* acc += value. */
    void (*decode_add)(const uint8_t *in, unsigned bits, float unit, float *acc,
                       size_t n);
} gwi_levels_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_levels_for(unsigned flags, gwi_levels_kernels *k);
const gwi_levels_kernels *gwi_levels(void);
void gwi_levels_avx2(gwi_levels_kernels *k);
void gwi_levels_avx512(gwi_levels_kernels *k);

/* How many norms and how many packed bytes n floats make. */
size_t gwi_levels_buckets(const gwi_levels_format *f, size_t n);
size_t gwi_levels_packed_len(const gwi_levels_format *f, size_t n);

/* The norm of one bucket, as described above. */
float gwi_levels_norm_of(const gwi_levels_kernels *k, gwi_levels_norm norm,
                         const float *v, size_t n);

/* N / s, as the decoder uses it. */
float gwi_levels_unit(unsigned bits, float norm);

gwi_levels_rule gwi_levels_rule_make(unsigned bits, float norm, uint64_t key,
                                     uint64_t bucket);

/* Whole vectors, spread over the thread pool when they are long. `key` comes from
 * gwi_random_key(); first_bucket numbers the first bucket of v in the random bits,
 * so that a part of a vector that begins on a bucket encodes as it would within
 * the whole. norms has gwi_levels_buckets() floats, packed gwi_levels_packed_len()
 * bytes. */
void gwi_levels_encode(const gwi_levels_format *f, const float *v, size_t n,
                       uint64_t key, uint64_t first_bucket, uint8_t *packed,
                       float *norms);

/* The same, and subtracts from v what was sent: v becomes the error. */
void gwi_levels_encode_subtract(const gwi_levels_format *f, float *v, size_t n,
                                uint64_t key, uint64_t first_bucket, uint8_t *packed,
                                float *norms);

/* out = values, or acc += values. packed and norms may hold any bits: norms that
 * are not finite give values that are not. f->norm is not looked at. */
void gwi_levels_decode(const gwi_levels_format *f, const uint8_t *packed,
                       const float *norms, float *out, size_t n);
void gwi_levels_decode_add(const gwi_levels_format *f, const uint8_t *packed,
                           const float *norms, float *acc, size_t n);

#endif
