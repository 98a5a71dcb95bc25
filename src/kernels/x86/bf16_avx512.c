/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16_avx512.c - the bf16 kernels in AVX-512. The instruction made for this is
 * not used: it treats subnormal numbers as zero. */
#include "kernels/bf16.h"

#if defined(__x86_64__) || defined(GWI_EMULATE_AVX512)

#include "kernels/ahead.h"
#include "kernels/x86/simd512.h"

#define GWI_TARGET GWI_AVX512

enum { STEP = 16, LANES = 16 };

/* The bf16 of 16 floats, in the lower halves of the lanes. */
GWI_AVX512 static inline __m512i rounded(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    __m512i number = _mm512_add_epi32(bits, up);
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    return _mm512_srli_epi32(_mm512_mask_blend_epi32(nan, number, quiet), 16);
}

GWI_AVX512 static inline void store16(uint8_t *bytes, __m512i b)
{
    _mm256_storeu_si256((void *)bytes, _mm512_cvtepi32_epi16(b));
}

GWI_AVX512 static inline __m512 values_of(__m512i b)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(b, 16));
}

/* Sixteen bf16 as floats. */
GWI_AVX512 static inline __m512 load16(const uint8_t *bytes)
{
    return values_of(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)bytes)));
}

GWI_AVX512 static inline void encode_step(const float *v, uint8_t *bytes)
{
    gwi_fetch_ahead(v);
    store16(bytes, rounded(_mm512_loadu_ps(v)));
}

GWI_AVX512 static inline void subtract_step(float *v, uint8_t *bytes)
{
    __m512 x = _mm512_loadu_ps(v);
    __m512i b = rounded(x);

    gwi_fetch_ahead(v);
    store16(bytes, b);
    _mm512_storeu_ps(v, _mm512_sub_ps(x, values_of(b)));
}

GWI_AVX512 static inline void decode_step(const uint8_t *bytes, float *out)
{
    _mm512_storeu_ps(out, load16(bytes));
}

GWI_AVX512 static inline void decode_add_step(const uint8_t *bytes, float *acc)
{
    _mm512_storeu_ps(acc, _mm512_add_ps(_mm512_loadu_ps(acc), load16(bytes)));
}

#include "kernels/x86/bf16_loops.h"

void gwi_bf16_avx512(gwi_bf16_kernels *k)
{
    k->isa = "avx512";
    k->encode = encode_loop;
    k->encode_subtract = encode_subtract_loop;
    k->decode = decode_loop;
    k->decode_add = decode_add_loop;
}

#endif
