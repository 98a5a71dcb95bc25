/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_avx2.c - the level kernels in AVX2.
 *
 * Encoding goes in steps of 32 entries, four registers of 8. Their levels are
 * narrowed to 32 bytes and packed by multiply-and-add, which shifts one of two
 * neighbours and joins it to the other:
 *
 *     32 bytes of `bits` bits -> 16 words of 2*bits -> 8 of 4*bits -> 4 of 8*bits
 *
 * Decoding goes in steps of 8 entries, which are `bits` whole bytes: each lane
 * shifts its own bits to the top, then all come down with their sign. */
#include "kernels/levels.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#include "kernels/ahead.h"

#define AVX2 __attribute__((target("avx2")))

/* Keeps a coder in registers: a step that is called needs it in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 32, GROUP = 8 };

/* ---- encode ---------------------------------------------------------------- */

/* What encoding a bucket keeps in registers. */
typedef struct coder {
    __m256 scale, cap, unit;
    __m256i counter; /* j * step + the first word, for the next 8 entries */
    __m256i middle;
    __m256i pair, quad; /* multipliers that join neighbours */
    __m128i eight;      /* shift that joins the last two */
    __m256i mask, squeeze;
} coder;

/* gwi_random24() of the next 8 entries. */
AVX2 static inline __m256i draw(coder *c)
{
    const __m256i a = _mm256_set1_epi32((int)GWI_RANDOM_MUL_A);
    const __m256i b = _mm256_set1_epi32((int)GWI_RANDOM_MUL_B);
    const __m256i step = _mm256_set1_epi32((int)(GROUP * GWI_RANDOM_STEP32));
    __m256i x = c->counter;

    c->counter = _mm256_add_epi32(x, step);
    x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32(x, 16)), a);
    x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
    x = _mm256_mullo_epi32(_mm256_add_epi32(x, c->middle), b);
    return _mm256_srli_epi32(x, 8);
}

/* The levels of 8 entries. */
AVX2 static inline __m256i levels_of(coder *c, __m256 x)
{
    __m256 a = _mm256_mul_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), x), c->scale);
    /* minps gives its second operand when the first is NaN, as level_of() does. */
    __m256i fixed = _mm256_cvttps_epi32(_mm256_min_ps(a, c->cap));
    __m256i sum = _mm256_add_epi32(fixed, draw(c));

    return _mm256_sign_epi32(_mm256_srli_epi32(sum, 24), _mm256_castps_si256(x));
}

/* Packs 4 x 8 levels into 4 * bits bytes at out, and writes up to out + 2 * bits
 * + 16: the bytes after the first 4 * bits are 0. */
AVX2 static inline void pack(const coder *c, __m256i l0, __m256i l1, __m256i l2,
                             __m256i l3, unsigned bits, uint8_t *out)
{
    /* Narrowing interleaves the halves of registers; the permutation undoes it. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(l0, l1), _mm256_packs_epi32(l2, l3));

    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    if (bits < 8) {
        bytes = _mm256_and_si256(bytes, c->mask);
        __m256i w = _mm256_madd_epi16(_mm256_maddubs_epi16(c->pair, bytes), c->quad);
        __m256i high = _mm256_sll_epi64(_mm256_srli_epi64(w, 32), c->eight);
        w = _mm256_or_si256(_mm256_blend_epi32(w, _mm256_setzero_si256(), 0xAA), high);
        bytes = _mm256_shuffle_epi8(w, c->squeeze);
    }
    _mm_storeu_si128((void *)out, _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((void *)(out + 2 * bits), _mm256_extracti128_si256(bytes, 1));
}

AVX2 ALWAYS static inline void encode_step(coder *c, const float *v, unsigned bits,
                                           uint8_t *out)
{
    /* Not a loop: GCC would keep the levels in memory. */
    __m256i l0 = levels_of(c, _mm256_loadu_ps(v));
    __m256i l1 = levels_of(c, _mm256_loadu_ps(v + 8));
    __m256i l2 = levels_of(c, _mm256_loadu_ps(v + 16));
    __m256i l3 = levels_of(c, _mm256_loadu_ps(v + 24));

    gwi_fetch_ahead(v);
    gwi_fetch_ahead(v + 16);
    pack(c, l0, l1, l2, l3, bits, out);
}

/* Subtracts 8 entries' values from them and returns their levels. */
AVX2 static inline __m256i subtract_levels(coder *c, float *v)
{
    __m256 x = _mm256_loadu_ps(v);
    __m256i level = levels_of(c, x);

    x = _mm256_sub_ps(x, _mm256_mul_ps(c->unit, _mm256_cvtepi32_ps(level)));
    _mm256_storeu_ps(v, x);
    return level;
}

AVX2 ALWAYS static inline void subtract_step(coder *c, float *v, unsigned bits,
                                             uint8_t *out)
{
    __m256i l0 = subtract_levels(c, v);
    __m256i l1 = subtract_levels(c, v + 8);
    __m256i l2 = subtract_levels(c, v + 16);
    __m256i l3 = subtract_levels(c, v + 24);

    gwi_fetch_ahead(v);
    gwi_fetch_ahead(v + 16);
    pack(c, l0, l1, l2, l3, bits, out);
}

AVX2 static inline coder coder_make(const gwi_levels_rule *rule)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int bits = (int)rule->bits;
    char squeeze[16];
    coder c;

    /* Keeps the low `bits` bytes of both 64-bit halves; -1 gives a zero byte. */
    memset(squeeze, -1, sizeof squeeze);
    for (int i = 0; i < bits; i++) {
        squeeze[i] = (char)i;
        squeeze[bits + i] = (char)(8 + i);
    }
    c.scale = _mm256_set1_ps(rule->scale);
    c.cap = _mm256_set1_ps(rule->cap);
    c.unit = _mm256_set1_ps(rule->unit);
    c.counter = _mm256_add_epi32(
        _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)GWI_RANDOM_STEP32)),
        _mm256_set1_epi32((int)rule->words.add));
    c.middle = _mm256_set1_epi32((int)rule->words.mid);
    /* Eight bits are bytes already, and not joined. */
    c.pair = _mm256_set1_epi16((short)(1 | 1 << (8 + bits % 8)));
    c.quad = _mm256_set1_epi32(1 | 1 << (16 + 2 * (bits % 8)));
    c.eight = _mm_cvtsi32_si128(4 * bits);
    c.mask = _mm256_set1_epi8((signed char)((1 << bits) - 1));
    c.squeeze = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)squeeze));
    return c;
}

/* A step of m entries, at most 32, that writes no byte too many: by way of memory of
 * its own for the bytes and, where zeros must follow, for the floats. */
AVX2 static void encode_last(coder *c, const float *v, size_t m, unsigned bits,
                             uint8_t *out)
{
    float padded[STEP];
    uint8_t packed[STEP];

    if (m < STEP) {
        memset(padded, 0, sizeof padded);
        v = memcpy(padded, v, m * sizeof *v);
    }
    encode_step(c, v, bits, packed);
    memcpy(out, packed, (m * bits + 7) / 8);
}

AVX2 static void subtract_last(coder *c, float *v, size_t m, unsigned bits,
                               uint8_t *out)
{
    float padded[STEP] = {0};
    uint8_t packed[STEP];

    memcpy(padded, v, m * sizeof *v);
    subtract_step(c, padded, bits, packed);
    memcpy(v, padded, m * sizeof *v);
    memcpy(out, packed, (m * bits + 7) / 8);
}

AVX2 static void encode_avx2(const gwi_levels_rule *rule, const float *v, size_t n,
                             uint8_t *out)
{
    const unsigned bits = rule->bits;
    const uint8_t *end = out + (n * bits + 7) / 8;
    coder c = coder_make(rule);
    size_t j = 0;

    for (; j + STEP <= n && (size_t)(end - out) >= 2 * bits + 16; j += STEP) {
        encode_step(&c, v + j, bits, out);
        out += 4 * bits;
    }
    for (; j < n; j += STEP, out += 4 * bits)
        encode_last(&c, v + j, n - j < STEP ? n - j : STEP, bits, out);
}

AVX2 static void encode_subtract_avx2(const gwi_levels_rule *rule, float *v, size_t n,
                                      uint8_t *out)
{
    const unsigned bits = rule->bits;
    const uint8_t *end = out + (n * bits + 7) / 8;
    coder c = coder_make(rule);
    size_t j = 0;

    for (; j + STEP <= n && (size_t)(end - out) >= 2 * bits + 16; j += STEP) {
        subtract_step(&c, v + j, bits, out);
        out += 4 * bits;
    }
    for (; j < n; j += STEP, out += 4 * bits)
        subtract_last(&c, v + j, n - j < STEP ? n - j : STEP, bits, out);
}

/* ---- decode ---------------------------------------------------------------- */

/* What decoding a bucket keeps in registers. */
typedef struct decoder {
    __m256 unit;
    __m256i halves; /* moves the bits of entries 4 to 7 down in the upper half */
    __m256i up;     /* moves each entry's bits to the top of its lane */
    __m128i down;
} decoder;

AVX2 static inline decoder decoder_make(unsigned bits, float unit)
{
    const int b = (int)bits;
    decoder d;

    d.unit = _mm256_set1_ps(unit);
    d.halves = _mm256_setr_epi64x(0, 0, 4 * b, 4 * b);
    d.up = _mm256_setr_epi32(32 - b, 32 - 2 * b, 32 - 3 * b, 32 - 4 * b, 32 - b,
                             32 - 2 * b, 32 - 3 * b, 32 - 4 * b);
    d.down = _mm_cvtsi32_si128(32 - b);
    return d;
}

/* The values of the 8 entries in the low bits of word. */
AVX2 static inline __m256 values_of(const decoder *d, uint64_t word)
{
    __m256i x = _mm256_srlv_epi64(_mm256_set1_epi64x((long long)word), d->halves);

    x = _mm256_sllv_epi32(_mm256_shuffle_epi32(x, 0), d->up);
    return _mm256_mul_ps(d->unit, _mm256_cvtepi32_ps(_mm256_sra_epi32(x, d->down)));
}

static inline uint64_t load64(const uint8_t *in)
{
    uint64_t word;

    memcpy(&word, in, sizeof word);
    return word;
}

/* The first m levels at in, at most 8, as values[0..m). */
AVX2 static void decode_last(const decoder *d, const uint8_t *in, unsigned bits,
                             size_t m, float *values)
{
    uint64_t word = 0;

    memcpy(&word, in, (m * bits + 7) / 8);
    _mm256_storeu_ps(values, values_of(d, word));
}

/* Both decoders read 8 bytes where the bucket has them, though only `bits` of
 * them matter, and a copy towards its end. */
AVX2 static void decode_avx2(const uint8_t *in, unsigned bits, float unit, float *out,
                             size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[GROUP];
    size_t j = 0;

    for (; j + GROUP <= n && end - in >= 8; j += GROUP, in += bits)
        _mm256_storeu_ps(out + j, values_of(&d, load64(in)));
    for (; j < n; j += GROUP, in += bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        decode_last(&d, in, bits, m, value);
        memcpy(out + j, value, m * sizeof *out);
    }
}

AVX2 static void decode_add_avx2(const uint8_t *in, unsigned bits, float unit,
                                 float *acc, size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[GROUP];
    size_t j = 0;

    for (; j + GROUP <= n && end - in >= 8; j += GROUP, in += bits) {
        __m256 x = values_of(&d, load64(in));
        _mm256_storeu_ps(acc + j, _mm256_add_ps(_mm256_loadu_ps(acc + j), x));
    }
    for (; j < n; j += GROUP, in += bits) {
        size_t m = n - j < GROUP ? n - j : GROUP;
        decode_last(&d, in, bits, m, value);
        for (size_t i = 0; i < m; i++)
            acc[j + i] += value[i];
    }
}

void gwi_levels_avx2(gwi_levels_kernels *k)
{
    k->isa = "avx2";
    k->encode = encode_avx2;
    k->encode_subtract = encode_subtract_avx2;
    k->decode = decode_avx2;
    k->decode_add = decode_add_avx2;
}

#endif
