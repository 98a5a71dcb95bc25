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

void gwi_select_avx512(gwi_select_kernels *k)
{
    k->isa = "avx512";
    k->collect = collect_blocks;
}

#else

typedef int gwi_select_avx512_is_for_x86_64;

#endif
