/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_avx512.c - the level kernels in AVX-512. They go as those in
 * levels_avx2.c do, with 16 lanes where those have 8; only the packing of 32
 * levels, once they are bytes, is done in registers of 256 bits here too. */
#include "kernels/levels.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include <string.h>

#include "kernels/ahead.h"
#include "kernels/simd512.h"

/* Keeps a coder in registers: a step that is called needs it in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 32, LANES = 16 };

/* ---- encode ---------------------------------------------------------------- */

/* What encoding a bucket keeps in registers. */
typedef struct coder {
    __m512 scale, cap, unit;
    __m512i counter; /* j * step + the first word, for the next 16 entries */
    __m512i middle;
    __m256i pair, quad; /* multipliers that join neighbours */
    __m128i eight;      /* shift that joins the last two */
    __m256i mask, squeeze;
} coder;

/* gwi_random24() of the next 16 entries. */
GWI_AVX512 static inline __m512i draw(coder *c)
{
    const __m512i a = _mm512_set1_epi32((int)GWI_RANDOM_MUL_A);
    const __m512i b = _mm512_set1_epi32((int)GWI_RANDOM_MUL_B);
    const __m512i step = _mm512_set1_epi32((int)(LANES * GWI_RANDOM_STEP32));
    __m512i x = c->counter;

    c->counter = _mm512_add_epi32(x, step);
    x = _mm512_mullo_epi32(_mm512_xor_si512(x, _mm512_srli_epi32(x, 16)), a);
    x = _mm512_xor_si512(x, _mm512_srli_epi32(x, 15));
    x = _mm512_mullo_epi32(_mm512_add_epi32(x, c->middle), b);
    return _mm512_srli_epi32(x, 8);
}

/* The levels of 16 entries. */
GWI_AVX512 static inline __m512i levels_of(coder *c, __m512 x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i bits = _mm512_castps_si512(x);
    __m512 a = _mm512_castsi512_ps(_mm512_and_si512(bits, magnitude));
    /* minps gives its second operand when the first is NaN, as level_of() does. */
    __m512 capped = _mm512_min_ps(_mm512_mul_ps(a, c->scale), c->cap);
    __m512i sum = _mm512_add_epi32(_mm512_cvttps_epi32(capped), draw(c));
    __m512i level = _mm512_srli_epi32(sum, 24);

    return _mm512_mask_sub_epi32(level, _mm512_movepi32_mask(bits),
                                 _mm512_setzero_si512(), level);
}

/* Packs 2 x 16 levels into 4 * bits bytes at out, and writes up to out + 2 * bits
 * + 16: the bytes after the first 4 * bits are 0. */
GWI_AVX512 static inline void pack(const coder *c, __m512i l0, __m512i l1,
                                   unsigned bits, uint8_t *out)
{
    __m256i bytes =
        _mm256_set_m128i(_mm512_cvtsepi32_epi8(l1), _mm512_cvtsepi32_epi8(l0));

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

GWI_AVX512 ALWAYS static inline void encode_step(coder *c, const float *v,
                                                 unsigned bits, uint8_t *out)
{
    __m512i l0 = levels_of(c, _mm512_loadu_ps(v));
    __m512i l1 = levels_of(c, _mm512_loadu_ps(v + LANES));

    gwi_fetch_ahead(v);
    gwi_fetch_ahead(v + LANES);
    pack(c, l0, l1, bits, out);
}

/* Subtracts 16 entries' values from them and returns their levels. */
GWI_AVX512 static inline __m512i subtract_levels(coder *c, float *v)
{
    __m512 x = _mm512_loadu_ps(v);
    __m512i level = levels_of(c, x);

    x = _mm512_sub_ps(x, _mm512_mul_ps(c->unit, _mm512_cvtepi32_ps(level)));
    _mm512_storeu_ps(v, x);
    return level;
}

GWI_AVX512 ALWAYS static inline void subtract_step(coder *c, float *v, unsigned bits,
                                                   uint8_t *out)
{
    __m512i l0 = subtract_levels(c, v);
    __m512i l1 = subtract_levels(c, v + LANES);

    gwi_fetch_ahead(v);
    gwi_fetch_ahead(v + LANES);
    pack(c, l0, l1, bits, out);
}

GWI_AVX512 static inline coder coder_make(const gwi_levels_rule *rule)
{
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const int bits = (int)rule->bits;
    char squeeze[16];
    coder c;

    /* Keeps the low `bits` bytes of both 64-bit halves; -1 gives a zero byte. */
    memset(squeeze, -1, sizeof squeeze);
    for (int i = 0; i < bits; i++) {
        squeeze[i] = (char)i;
        squeeze[bits + i] = (char)(8 + i);
    }
    c.scale = _mm512_set1_ps(rule->scale);
    c.cap = _mm512_set1_ps(rule->cap);
    c.unit = _mm512_set1_ps(rule->unit);
    c.counter = _mm512_add_epi32(
        _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)GWI_RANDOM_STEP32)),
        _mm512_set1_epi32((int)rule->words.add));
    c.middle = _mm512_set1_epi32((int)rule->words.mid);
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
GWI_AVX512 static void encode_last(coder *c, const float *v, size_t m, unsigned bits,
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

GWI_AVX512 static void subtract_last(coder *c, float *v, size_t m, unsigned bits,
                                     uint8_t *out)
{
    float padded[STEP] = {0};
    uint8_t packed[STEP];

    memcpy(padded, v, m * sizeof *v);
    subtract_step(c, padded, bits, packed);
    memcpy(v, padded, m * sizeof *v);
    memcpy(out, packed, (m * bits + 7) / 8);
}

GWI_AVX512 static void encode_avx512(const gwi_levels_rule *rule, const float *v,
                                     size_t n, uint8_t *out)
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

GWI_AVX512 static void encode_subtract_avx512(const gwi_levels_rule *rule, float *v,
                                              size_t n, uint8_t *out)
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
    __m512 unit;
    __m512i halves; /* moves the bits of entries 4 to 7 of a word down */
    __m512i spread; /* copies the low 32 bits of each quarter over it */
    __m512i up;     /* moves each entry's bits to the top of its lane */
    __m512i down;
} decoder;

GWI_AVX512 static inline decoder decoder_make(unsigned bits, float unit)
{
    const int b = (int)bits;
    decoder d;

    d.unit = _mm512_set1_ps(unit);
    d.halves = _mm512_setr_epi64(0, 0, 4 * b, 4 * b, 0, 0, 4 * b, 4 * b);
    d.spread = _mm512_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    d.up = _mm512_broadcast_i32x4(
        _mm_setr_epi32(32 - b, 32 - 2 * b, 32 - 3 * b, 32 - 4 * b));
    d.down = _mm512_set1_epi32(32 - b);
    return d;
}

/* The values of the 16 entries in the low bits of two words of 8 each. */
GWI_AVX512 static inline __m512 values_of(const decoder *d, uint64_t first,
                                          uint64_t second)
{
    __m512i x =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_set1_epi64x((long long)first)),
                           _mm256_set1_epi64x((long long)second), 1);

    x = _mm512_permutexvar_epi32(d->spread, _mm512_srlv_epi64(x, d->halves));
    x = _mm512_srav_epi32(_mm512_sllv_epi32(x, d->up), d->down);
    return _mm512_mul_ps(d->unit, _mm512_cvtepi32_ps(x));
}

static inline uint64_t load64(const uint8_t *in)
{
    uint64_t word;

    memcpy(&word, in, sizeof word);
    return word;
}

/* The first m levels at in, at most 16, as values[0..m). */
GWI_AVX512 static void decode_last(const decoder *d, const uint8_t *in, unsigned bits,
                                   size_t m, float *values)
{
    uint8_t bytes[LANES + 8] = {0};

    memcpy(bytes, in, (m * bits + 7) / 8);
    _mm512_storeu_ps(values, values_of(d, load64(bytes), load64(bytes + bits)));
}

/* Both decoders read 8 bytes per word where the bucket has them, though only
 * `bits` of them matter, and a copy towards its end. */
GWI_AVX512 static void decode_avx512(const uint8_t *in, unsigned bits, float unit,
                                     float *out, size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[LANES];
    size_t j = 0;

    for (; j + LANES <= n && (size_t)(end - in) >= bits + 8; j += LANES) {
        _mm512_storeu_ps(out + j, values_of(&d, load64(in), load64(in + bits)));
        in += 2 * bits;
    }
    for (; j < n; j += LANES, in += 2 * bits) {
        size_t m = n - j < LANES ? n - j : LANES;
        decode_last(&d, in, bits, m, value);
        memcpy(out + j, value, m * sizeof *out);
    }
}

GWI_AVX512 static void decode_add_avx512(const uint8_t *in, unsigned bits, float unit,
                                         float *acc, size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[LANES];
    size_t j = 0;

    for (; j + LANES <= n && (size_t)(end - in) >= bits + 8; j += LANES) {
        __m512 x = values_of(&d, load64(in), load64(in + bits));
        _mm512_storeu_ps(acc + j, _mm512_add_ps(_mm512_loadu_ps(acc + j), x));
        in += 2 * bits;
    }
    for (; j < n; j += LANES, in += 2 * bits) {
        size_t m = n - j < LANES ? n - j : LANES;
        decode_last(&d, in, bits, m, value);
        for (size_t i = 0; i < m; i++)
            acc[j + i] += value[i];
    }
}

void gwi_levels_avx512(gwi_levels_kernels *k)
{
    k->isa = "avx512";
    k->encode = encode_avx512;
    k->encode_subtract = encode_subtract_avx512;
    k->decode = decode_avx512;
    k->decode_add = decode_add_avx512;
}

#endif
