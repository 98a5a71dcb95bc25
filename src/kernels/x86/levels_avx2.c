/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_avx2.c - the level kernels in AVX2.
 *
 * Encoding goes in steps of 32 entries, four registers of 8, whose levels are narrowed
 * to 32 bytes and packed.
 *
 * Decoding goes in steps of 8 entries, which are `bits` whole bytes: each lane
 * shifts its own bits to the top, then all come down with their sign. */
#include "kernels/levels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/ahead.h"

#define AVX2       __attribute__((target("avx2")))
#define GWI_TARGET AVX2
#include "kernels/x86/levels_pack.h"

/* Keeps a coder in registers: a step that is called needs it in memory. */
#define ALWAYS __attribute__((always_inline))

enum { STEP = 32, LANES = 8 };

/* ---- encode ---------------------------------------------------------------- */

/* What encoding a bucket keeps in registers. */
typedef struct coder {
    __m256 scale, cap, unit;
    __m256i counter; /* j * step + the first word, for the next 8 entries */
    __m256i middle;
    packer packer;
} coder;

/* gwi_random24() of the next 8 entries. */
AVX2 static inline __m256i draw(coder *c)
{
    const __m256i a = _mm256_set1_epi32((int)GWI_RANDOM_MUL_A);
    const __m256i b = _mm256_set1_epi32((int)GWI_RANDOM_MUL_B);
    const __m256i step = _mm256_set1_epi32((int)(LANES * GWI_RANDOM_STEP32));
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

/* 4 x 8 levels as bytes. Narrowing interleaves the halves of registers; the
 * permutation undoes it. */
AVX2 static inline __m256i narrowed(__m256i l0, __m256i l1, __m256i l2, __m256i l3)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(l0, l1), _mm256_packs_epi32(l2, l3));

    return _mm256_permutevar8x32_epi32(bytes, order);
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
    pack(&c->packer, narrowed(l0, l1, l2, l3), bits, out);
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
    pack(&c->packer, narrowed(l0, l1, l2, l3), bits, out);
}

AVX2 static inline coder coder_make(const gwi_levels_rule *rule)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    coder c;

    c.scale = _mm256_set1_ps(rule->scale);
    c.cap = _mm256_set1_ps(rule->cap);
    c.unit = _mm256_set1_ps(rule->unit);
    c.counter = _mm256_add_epi32(
        _mm256_mullo_epi32(lane, _mm256_set1_epi32((int)GWI_RANDOM_STEP32)),
        _mm256_set1_epi32((int)rule->words.add));
    c.middle = _mm256_set1_epi32((int)rule->words.mid);
    c.packer = packer_make((int)rule->bits);
    return c;
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

AVX2 static inline void decode_step(const decoder *d, const uint8_t *in, unsigned bits,
                                    float *out)
{
    (void)bits;
    _mm256_storeu_ps(out, values_of(d, load64(in)));
}

AVX2 static inline void decode_add_step(const decoder *d, const uint8_t *in,
                                        unsigned bits, float *acc)
{
    __m256 x = values_of(d, load64(in));

    (void)bits;
    _mm256_storeu_ps(acc, _mm256_add_ps(_mm256_loadu_ps(acc), x));
}

#include "kernels/x86/levels_loops.h"

void gwi_levels_avx2(gwi_levels_kernels *k)
{
    k->isa = "avx2";
    k->encode = encode_loop;
    k->encode_subtract = encode_subtract_loop;
    k->decode = decode_loop;
    k->decode_add = decode_add_loop;
}

#endif
