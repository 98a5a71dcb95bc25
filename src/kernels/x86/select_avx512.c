/* SPDX-License-Identifier: Apache-2.0
 *
 * select_avx512.c - the collecting loop for AVX-512. Compression moves what is above in
 * a vector to the list without a branch: the vector is written there as if all of it
 * were above, with what is above in front, and the next one is written over the rest.
 * That is done only for blocks that have something above: two more stores for each
 * vector take longer than the addition. */
#include "kernels/select.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/x86/simd512.h"

#define GWI_TARGET GWI_AVX512

/* Floats per block, one bit of a mask each, and blocks per round. */
enum { BLOCK = 32, ROUND = 32 };

typedef uint32_t mask;
typedef __m512i bound;

GWI_AVX512 static inline bound bound_of(int32_t above)
{
    return _mm512_set1_epi32(above);
}

static inline size_t first_of(mask bits)
{
    return (size_t)__builtin_ctz(bits);
}

/* Adds, stores, and says which of sixteen floats are above. */
GWI_AVX512 static inline mask add_sixteen(float *r, const float *g, bound above)
{
    const __m512i unsign = _mm512_set1_epi32(0x7fffffff);
    __m512 v = _mm512_loadu_ps(r);

    if (g) {
        v = _mm512_add_ps(v, _mm512_loadu_ps(g));
        _mm512_storeu_ps(r, v);
    }
    return gwi_mask_bits(_mm512_cmpgt_epi32_mask(
        _mm512_and_si512(_mm512_castps_si512(v), unsign), above));
}

/* Adds a block; the bits of the result say which of its floats are above. */
GWI_AVX512 static inline mask add_block(float *r, const float *g, bound above)
{
    mask low = add_sixteen(r, g, above);

    return low | add_sixteen(r + 16, g ? g + 16 : NULL, above) << 16;
}

/* Moves what bits name of the sixteen floats at r[i] to the list. */
GWI_AVX512 static inline size_t take_sixteen(float *r, size_t i, __mmask16 bits,
                                             const gwi_list *out, size_t n)
{
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(uint32_t)i));

    _mm512_storeu_si512(out->index + n, _mm512_maskz_compress_epi32(bits, index));
    _mm512_storeu_ps(out->value + n,
                     _mm512_maskz_compress_ps(bits, _mm512_loadu_ps(r + i)));
    _mm512_mask_storeu_ps(r + i, bits, _mm512_setzero_ps());
    return n + (size_t)__builtin_popcount(gwi_mask_bits(bits));
}

GWI_AVX512 static inline size_t take_block(float *r, size_t i, mask bits,
                                           const gwi_list *out, size_t n)
{
    n = take_sixteen(r, i, (__mmask16)(bits & 0xffff), out, n);
    return take_sixteen(r, i + 16, (__mmask16)(bits >> 16), out, n);
}

#define take_block take_block
#include "kernels/select_blocks.h"

/* ---- among candidates ---------------------------------------------------------- */

/* The lanes of the vector that begins at i which lie below n. */
static inline __mmask16 lanes_below(size_t i, size_t n)
{
    return (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
}

/* gwi_magnitude_key() of sixteen floats. */
GWI_AVX512 static inline __m512i keys_of(__m512i v)
{
    return _mm512_min_epi32(_mm512_and_si512(v, _mm512_set1_epi32(0x7fffffff)),
                            _mm512_set1_epi32(GWI_KEY_NAN));
}

GWI_AVX512 static uint32_t keys_avx512(int32_t *keys, const float *value, size_t n)
{
    const __m512i none = _mm512_set1_epi32(-1);
    __m512i first = _mm512_set1_epi32(gwi_magnitude_key(value[0]));
    __m512i differ = _mm512_setzero_si512();
    uint32_t lane[16], all = 0;
    size_t padded = (n + GWI_FEW_STEP - 1) / GWI_FEW_STEP * GWI_FEW_STEP;

    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = lanes_below(i, n);
        __m512i key = keys_of(_mm512_maskz_loadu_epi32(m, value + i));
        differ = _mm512_or_si512(
            differ, _mm512_maskz_mov_epi32(m, _mm512_xor_si512(key, first)));
        _mm512_storeu_si512(keys + i, _mm512_mask_mov_epi32(none, m, key));
    }
    if ((n + 15) / 16 * 16 < padded)
        _mm512_storeu_si512(keys + padded - 16, none);
    _mm512_storeu_si512(lane, differ);
    for (size_t i = 0; i < 16; i++)
        all |= lane[i];
    return all;
}

/* Masks are counted two at a time, 32 bits as one. */
GWI_AVX512 static size_t count_avx512(const int32_t *keys, size_t n, int32_t least)
{
    const __m512i bound = _mm512_set1_epi32(least - 1);
    size_t count = 0;

    for (size_t i = 0; i < n; i += GWI_FEW_STEP) {
        uint32_t low =
            gwi_mask_bits(_mm512_cmpgt_epi32_mask(_mm512_loadu_si512(keys + i), bound));
        uint32_t high = gwi_mask_bits(
            _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(keys + i + 16), bound));
        count += (size_t)__builtin_popcount(low | high << 16);
    }
    return count;
}

/* Writes just the entries that bits name to the end of a list. */
GWI_AVX512 static inline void append(gwi_list *to, __mmask16 bits, __m512i index,
                                     __m512 value)
{
    size_t count = (size_t)__builtin_popcount(gwi_mask_bits(bits));
    __mmask16 front = lanes_below(0, count);

    _mm512_mask_storeu_epi32(to->index + to->n, front,
                             _mm512_maskz_compress_epi32(bits, index));
    _mm512_mask_storeu_ps(to->value + to->n, front,
                          _mm512_maskz_compress_ps(bits, value));
    to->n += count;
}

/* The first `ties` of the entries that bits name, which the others are taken from. */
static inline unsigned first_ties(unsigned bits, size_t *ties)
{
    size_t count = (size_t)__builtin_popcount(bits);

    for (; count > *ties; count--)
        bits &= ~(1u << (31 - __builtin_clz(bits)));
    *ties -= count;
    return bits;
}

GWI_AVX512 static void split_avx512(const gwi_list *from, size_t k, int32_t nth,
                                    size_t ties, gwi_list *largest, gwi_list *others)
{
    const gwi_list list = *from;
    const __m512i bound = _mm512_set1_epi32(nth);

    (void)k;
    largest->n = others->n = 0;
    for (size_t i = 0; i < list.n; i += 16) {
        __mmask16 m = lanes_below(i, list.n);
        __m512i index = _mm512_maskz_loadu_epi32(m, list.index + i);
        __m512 value = _mm512_maskz_loadu_ps(m, list.value + i);
        __m512i key = keys_of(_mm512_castps_si512(value));
        unsigned above = gwi_mask_bits(_mm512_cmpgt_epi32_mask(key, bound)) & m;
        unsigned below = gwi_mask_bits(_mm512_cmpgt_epi32_mask(bound, key)) & m;
        above |= first_ties(m & ~(above | below), &ties);
        append(largest, (__mmask16)above, index, value);
        append(others, (__mmask16)(m & ~above), index, value);
    }
}

void gwi_select_avx512(gwi_select_kernels *k)
{
    k->isa = "avx512";
    k->collect = collect_blocks;
    k->few = GWI_FEW_MAX;
    k->keys = keys_avx512;
    k->count_from = count_avx512;
    k->split = split_avx512;
}

#else

typedef int gwi_select_avx512_is_for_x86_64;

#endif
