/* SPDX-License-Identifier: Apache-2.0
 *
 * select_avx512.c - the collecting loop for AVX-512. Compression makes it free of
 * branches: each vector is written to the list as if all of it were above, with
 * what is above in front, and the next one is written over the rest. */
#include "kernels/select.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/x86/simd512.h"

/* One vector, of which the lanes in `live` exist. Returns the list's new length. */
GWI_AVX512 static inline __attribute__((always_inline)) size_t
step(float *r, const float *g, size_t i, __mmask16 live, __m512i above,
     const gwi_list *out, size_t n)
{
    const __m512i unsign = _mm512_set1_epi32(0x7fffffff);
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(uint32_t)i));
    __m512 v = _mm512_maskz_loadu_ps(live, r + i);
    __mmask16 hit;

    if (g)
        v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(live, g + i));
    hit = _mm512_cmpgt_epi32_mask(_mm512_and_si512(_mm512_castps_si512(v), unsign),
                                  above);
    hit = (__mmask16)(hit & live);
    _mm512_storeu_si512(out->index + n, _mm512_maskz_compress_epi32(hit, index));
    _mm512_storeu_ps(out->value + n, _mm512_maskz_compress_ps(hit, v));
    if (g)
        _mm512_mask_storeu_ps(r + i, live, _mm512_maskz_mov_ps((__mmask16)~hit, v));
    else
        _mm512_mask_storeu_ps(r + i, hit, _mm512_setzero_ps());
    return n + (size_t)__builtin_popcount(gwi_mask_bits(hit));
}

GWI_AVX512 static inline __attribute__((always_inline)) size_t
collect(float *r, const float *g, size_t begin, size_t end, int32_t above,
        gwi_list *out)
{
    const __m512i bound = _mm512_set1_epi32(above);
    const size_t full = begin + (end - begin) / 16 * 16;
    size_t i = begin, n = out->n;

    for (; i < full && out->cap - n >= GWI_COLLECT_ROOM; i += 16)
        n = step(r, g, i, 0xffff, bound, out, n);
    if (i == full && i < end && out->cap - n >= GWI_COLLECT_ROOM) {
        n = step(r, g, i, (__mmask16)((1u << (end - i)) - 1), bound, out, n);
        i = end;
    }
    out->n = n;
    return i;
}

/* Two loops instead of a test for g in each step. */
GWI_AVX512 static size_t collect_avx512(float *r, const float *g, size_t begin,
                                        size_t end, int32_t above, gwi_list *out)
{
    return g ? collect(r, g, begin, end, above, out)
             : collect(r, NULL, begin, end, above, out);
}

void gwi_select_avx512(gwi_select_kernels *k)
{
    k->isa = "avx512";
    k->collect = collect_avx512;
}

#else

typedef int gwi_select_avx512_is_for_x86_64;

#endif
