/* SPDX-License-Identifier: Apache-2.0
 *
 * levels.c - the definition of the level kernels, their choice, and the walk over
 * the buckets of a vector. */
#include "kernels/levels.h"

#include <assert.h>
#include <math.h>

#include "kernels/cpu.h"
#include "kernels/pool.h"
#include "kernels/vector.h"

enum {
    GROUP = 8,           /* entries that fill `bits` whole bytes */
    LANES = 16,          /* partial sums of a norm */
    FRACTION = 24,       /* bits of a level after its point, before rounding */
    BLOCK_FLOATS = 65536 /* what one call from the thread pool does */
};

/* ---- one bucket, in C ------------------------------------------------------ */

static int32_t level_of(const gwi_levels_rule *rule, float x, uint32_t j)
{
    float a = fabsf(x) * rule->scale;
    uint32_t fixed = (uint32_t)(a < rule->cap ? a : rule->cap);
    uint32_t draw = gwi_random24(rule->words, j);
    int32_t level = (int32_t)((fixed + draw) >> FRACTION);

    return signbit(x) ? -level : level;
}

/* Writes the levels of m entries, at most GROUP of them. */
static void put_group(const int32_t *level, size_t m, unsigned bits, uint8_t *out)
{
    uint64_t word = 0;
    uint64_t mask = (UINT64_C(1) << bits) - 1;

    for (size_t i = 0; i < m; i++)
        word |= ((uint64_t)(int64_t)level[i] & mask) << (bits * i);
    for (size_t i = 0; i < (m * bits + 7) / 8; i++)
        out[i] = (uint8_t)(word >> (8 * i));
}

static void encode_c(const gwi_levels_rule *rule, const float *v, size_t n,
                     uint8_t *out)
{
    int32_t level[GROUP];

    for (size_t j = 0; j < n; j += GROUP, out += rule->bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        for (size_t i = 0; i < m; i++)
            level[i] = level_of(rule, v[j + i], (uint32_t)(j + i));
        put_group(level, m, rule->bits, out);
    }
}

static void encode_subtract_c(const gwi_levels_rule *rule, float *v, size_t n,
                              uint8_t *out)
{
    int32_t level[GROUP];

    for (size_t j = 0; j < n; j += GROUP, out += rule->bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        for (size_t i = 0; i < m; i++) {
            level[i] = level_of(rule, v[j + i], (uint32_t)(j + i));
            v[j + i] -= rule->unit * (float)level[i];
        }
        put_group(level, m, rule->bits, out);
    }
}

/* Reads the levels of m entries, at most GROUP of them. */
static void get_group(const uint8_t *in, size_t m, unsigned bits, int32_t *level)
{
    const int32_t sign = (int32_t)1 << (bits - 1);
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t word = 0;

    for (size_t i = 0; i < (m * bits + 7) / 8; i++)
        word |= (uint64_t)in[i] << (8 * i);
    for (size_t i = 0; i < m; i++)
        level[i] = ((int32_t)((word >> (bits * i)) & mask) ^ sign) - sign;
}

static void decode_c(const uint8_t *in, unsigned bits, float unit, float *out, size_t n)
{
    int32_t level[GROUP];

    for (size_t j = 0; j < n; j += GROUP, in += bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        get_group(in, m, bits, level);
        for (size_t i = 0; i < m; i++)
            out[j + i] = unit * (float)level[i];
    }
}

static void decode_add_c(const uint8_t *in, unsigned bits, float unit, float *acc,
                         size_t n)
{
    int32_t level[GROUP];

    for (size_t j = 0; j < n; j += GROUP, in += bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        get_group(in, m, bits, level);
        for (size_t i = 0; i < m; i++)
            acc[j + i] += unit * (float)level[i];
    }
}

/* ---- the choice ------------------------------------------------------------ */

static const gwi_levels_kernels reference = {
    .isa = "c",
    .encode = encode_c,
    .encode_subtract = encode_subtract_c,
    .decode = decode_c,
    .decode_add = decode_add_c,
};

void gwi_levels_for(unsigned flags, gwi_levels_kernels *k)
{
    gwi_vector_kernels vector;

    gwi_vector_for(flags, &vector);
    *k = reference;
    k->sumsq = vector.sumsq;
    k->absmax = vector.absmax;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_levels_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_levels_avx512(k);
#endif
}

/* ---- norms and rules ------------------------------------------------------- */

float gwi_levels_norm_of(const gwi_levels_kernels *k, gwi_levels_norm norm,
                         const float *v, size_t n)
{
    float result = norm == GWI_NORM_L2 ? (float)sqrt(k->sumsq(v, n)) : k->absmax(v, n);

    /* Written so that NaN takes the first branch: the bits of a NaN may differ
     * between instruction sets, and must not get into a message. */
    if (!(result <= GWI_LEVELS_NORM_MAX))
        return GWI_LEVELS_NORM_MAX;
    return result < GWI_LEVELS_NORM_MIN ? 0.0f : result;
}

static float top_level(unsigned bits)
{
    return (float)((1u << (bits - 1)) - 1);
}

float gwi_levels_unit(unsigned bits, float norm)
{
    return norm / top_level(bits);
}

gwi_levels_rule gwi_levels_rule_make(unsigned bits, float norm, uint64_t key,
                                     uint64_t bucket)
{
    float cap = top_level(bits) * 0x1p24f;

    return (gwi_levels_rule){
        .bits = bits,
        .cap = cap,
        .scale = norm > 0.0f ? cap / norm : 0.0f,
        .unit = gwi_levels_unit(bits, norm),
        .words = gwi_random_block(key, bucket),
    };
}

/* ---- whole vectors --------------------------------------------------------- */

/* One walk over the buckets of a vector. Each operation uses the pointers it
 * needs; blocks of buckets are independent, so that any thread may do any. */
typedef struct walk {
    const gwi_levels_kernels *k;
    const gwi_levels_format *f;
    size_t n, buckets_per_block;
    uint64_t key, first_bucket;
    const float *source;      /* encode */
    float *target;            /* encode_subtract, decode, decode_add */
    uint8_t *packed;          /* encode, encode_subtract */
    float *norms;             /* encode, encode_subtract */
    const uint8_t *packed_in; /* decode, decode_add */
    const float *norms_in;    /* decode, decode_add */
    /* Does bucket b, which has m entries and begins at entry `at`. */
    void (*bucket)(const struct walk *w, size_t b, size_t at, size_t m);
} walk;

static size_t packed_at(const walk *w, size_t b)
{
    return b * (w->f->bucket / GROUP) * w->f->bits;
}

static void encode_bucket(const walk *w, size_t b, size_t at, size_t m)
{
    float norm = gwi_levels_norm_of(w->k, w->f->norm, w->source + at, m);
    gwi_levels_rule rule =
        gwi_levels_rule_make(w->f->bits, norm, w->key, w->first_bucket + b);

    w->norms[b] = norm;
    w->k->encode(&rule, w->source + at, m, w->packed + packed_at(w, b));
}

static void encode_subtract_bucket(const walk *w, size_t b, size_t at, size_t m)
{
    float norm = gwi_levels_norm_of(w->k, w->f->norm, w->target + at, m);
    gwi_levels_rule rule =
        gwi_levels_rule_make(w->f->bits, norm, w->key, w->first_bucket + b);

    w->norms[b] = norm;
    w->k->encode_subtract(&rule, w->target + at, m, w->packed + packed_at(w, b));
}

static void decode_bucket(const walk *w, size_t b, size_t at, size_t m)
{
    w->k->decode(w->packed_in + packed_at(w, b), w->f->bits,
                 gwi_levels_unit(w->f->bits, w->norms_in[b]), w->target + at, m);
}

static void decode_add_bucket(const walk *w, size_t b, size_t at, size_t m)
{
    w->k->decode_add(w->packed_in + packed_at(w, b), w->f->bits,
                     gwi_levels_unit(w->f->bits, w->norms_in[b]), w->target + at, m);
}

static void walk_block(void *arg, size_t block)
{
    const walk *w = arg;
    size_t b = block * w->buckets_per_block;
    size_t end = b + w->buckets_per_block;
    size_t buckets = gwi_levels_buckets(w->f, w->n);

    for (end = end < buckets ? end : buckets; b < end; b++) {
        size_t at = b * w->f->bucket;
        size_t left = w->n - at;
        w->bucket(w, b, at, left < w->f->bucket ? left : w->f->bucket);
    }
}

static void walk_all(walk *w)
{
    size_t buckets = gwi_levels_buckets(w->f, w->n);
    size_t per = BLOCK_FLOATS / w->f->bucket;

    assert(w->f->bits >= GWI_LEVELS_BITS_MIN && w->f->bits <= GWI_LEVELS_BITS_MAX);
    assert(w->f->bucket % GROUP == 0 && w->f->bucket <= 1u << 30);
    w->k = gwi_levels();
    w->buckets_per_block = per > 0 ? per : 1;
    gwi_parallel((buckets + w->buckets_per_block - 1) / w->buckets_per_block,
                 walk_block, w);
}

size_t gwi_levels_buckets(const gwi_levels_format *f, size_t n)
{
    assert(f->bucket > 0);
    return n / f->bucket + (n % f->bucket != 0);
}

size_t gwi_levels_packed_len(const gwi_levels_format *f, size_t n)
{
    return n / GROUP * f->bits + (n % GROUP * f->bits + 7) / 8;
}

void gwi_levels_encode(const gwi_levels_format *f, const float *v, size_t n,
                       uint64_t key, uint64_t first_bucket, uint8_t *packed,
                       float *norms)
{
    walk_all(&(walk){.f = f,
                     .n = n,
                     .key = key,
                     .first_bucket = first_bucket,
                     .source = v,
                     .packed = packed,
                     .norms = norms,
                     .bucket = encode_bucket});
}

void gwi_levels_encode_subtract(const gwi_levels_format *f, float *v, size_t n,
                                uint64_t key, uint64_t first_bucket, uint8_t *packed,
                                float *norms)
{
    walk_all(&(walk){.f = f,
                     .n = n,
                     .key = key,
                     .first_bucket = first_bucket,
                     .target = v,
                     .packed = packed,
                     .norms = norms,
                     .bucket = encode_subtract_bucket});
}

void gwi_levels_decode(const gwi_levels_format *f, const uint8_t *packed,
                       const float *norms, float *out, size_t n)
{
    walk_all(&(walk){.f = f,
                     .n = n,
                     .packed_in = packed,
                     .norms_in = norms,
                     .target = out,
                     .bucket = decode_bucket});
}

void gwi_levels_decode_add(const gwi_levels_format *f, const uint8_t *packed,
                           const float *norms, float *acc, size_t n)
{
    walk_all(&(walk){.f = f,
                     .n = n,
                     .packed_in = packed,
                     .norms_in = norms,
                     .target = acc,
                     .bucket = decode_add_bucket});
}
