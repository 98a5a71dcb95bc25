/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_avx512.c - the level kernels in AVX-512. They go as those in
 * levels_avx2.c do, with 16 lanes where those have 8. */
#include "kernels/levels.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/ahead.h"
#include "kernels/x86/simd512.h"

#define GWI_TARGET GWI_AVX512
#include "kernels/x86/levels_pack.h"

/* Keeps a coder in registers: a step that is called needs it in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 32, LANES = 16 };

/* ---- encode ---------------------------------------------------------------- */

/* What encoding a bucket keeps in registers. */
typedef struct coder {
    __m512 scale, cap, unit;
    __m512i counter; /* j * step + the first word, for the next 16 entries */
    __m512i middle;
    packer packer;
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

/* 2 x 16 levels as bytes. */
GWI_AVX512 static inline __m256i narrowed(__m512i l0, __m512i l1)
{
    return _mm256_set_m128i(_mm512_cvtsepi32_epi8(l1), _mm512_cvtsepi32_epi8(l0));
}

GWI_AVX512 ALWAYS static inline void encode_step(coder *c, const float *v,
                                                 unsigned bits, uint8_t *out)
{
    __m512i l0 = levels_of(c, _mm512_loadu_ps(v));
    __m512i l1 = levels_of(c, _mm512_loadu_ps(v + LANES));

    gwi_fetch_ahead(v);
    gwi_fetch_ahead(v + LANES);
    pack(&c->packer, narrowed(l0, l1), bits, out);
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
    pack(&c->packer, narrowed(l0, l1), bits, out);
}

GWI_AVX512 static inline coder coder_make(const gwi_levels_rule *rule)
{
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    coder c;

    c.scale = _mm512_set1_ps(rule->scale);
    c.cap = _mm512_set1_ps(rule->cap);
    c.unit = _mm512_set1_ps(rule->unit);
    c.counter = _mm512_add_epi32(
        _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)GWI_RANDOM_STEP32)),
        _mm512_set1_epi32((int)rule->words.add));
    c.middle = _mm512_set1_epi32((int)rule->words.mid);
    c.packer = packer_make((int)rule->bits);
    return c;
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

GWI_AVX512 static inline void decode_step(const decoder *d, const uint8_t *in,
                                          unsigned bits, float *out)
{
    _mm512_storeu_ps(out, values_of(d, load64(in), load64(in + bits)));
}

GWI_AVX512 static inline void decode_add_step(const decoder *d, const uint8_t *in,
                                              unsigned bits, float *acc)
{
    __m512 x = values_of(d, load64(in), load64(in + bits));

    _mm512_storeu_ps(acc, _mm512_add_ps(_mm512_loadu_ps(acc), x));
}

#include "kernels/x86/levels_loops.h"

void gwi_levels_avx512(gwi_levels_kernels *k)
{
    k->isa = "avx512";
    k->encode = encode_loop;
    k->encode_subtract = encode_subtract_loop;
    k->decode = decode_loop;
    k->decode_add = decode_add_loop;
}

#endif
