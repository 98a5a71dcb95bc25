/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16_avx2.c - the bf16 kernels in AVX2, 16 entries at a time. */
#include "kernels/bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/ahead.h"

#define AVX2       __attribute__((target("avx2")))
#define GWI_TARGET AVX2

enum { STEP = 16, LANES = 8 };

/* The bf16 of 8 floats, in the lower halves of the lanes. */
AVX2 static inline __m256i rounded(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    __m256i number = _mm256_add_epi32(bits, up);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));

    return _mm256_srli_epi32(_mm256_blendv_epi8(number, quiet, nan), 16);
}

/* Stores 16 of them. Narrowing interleaves the halves of its two registers; the
 * permutation undoes it. */
AVX2 static inline void store16(uint8_t *bytes, __m256i low, __m256i high)
{
    __m256i both = _mm256_packus_epi32(low, high);

    _mm256_storeu_si256((void *)bytes, _mm256_permute4x64_epi64(both, 0xD8));
}

AVX2 static inline __m256 values_of(__m256i b)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(b, 16));
}

/* Eight bf16 as floats. */
AVX2 static inline __m256 load8(const uint8_t *bytes)
{
    return values_of(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)bytes)));
}

AVX2 static inline void encode_step(const float *v, uint8_t *bytes)
{
    gwi_fetch_ahead(v);
    store16(bytes, rounded(_mm256_loadu_ps(v)), rounded(_mm256_loadu_ps(v + 8)));
}

AVX2 static inline void subtract_step(float *v, uint8_t *bytes)
{
    __m256 x = _mm256_loadu_ps(v), y = _mm256_loadu_ps(v + 8);
    __m256i low = rounded(x), high = rounded(y);

    gwi_fetch_ahead(v);
    store16(bytes, low, high);
    _mm256_storeu_ps(v, _mm256_sub_ps(x, values_of(low)));
    _mm256_storeu_ps(v + 8, _mm256_sub_ps(y, values_of(high)));
}

AVX2 static inline void decode_step(const uint8_t *bytes, float *out)
{
    _mm256_storeu_ps(out, load8(bytes));
}

AVX2 static inline void decode_add_step(const uint8_t *bytes, float *acc)
{
    _mm256_storeu_ps(acc, _mm256_add_ps(_mm256_loadu_ps(acc), load8(bytes)));
}

#include "kernels/x86/bf16_loops.h"

void gwi_bf16_avx2(gwi_bf16_kernels *k)
{
    k->isa = "avx2";
    k->encode = encode_loop;
    k->encode_subtract = encode_subtract_loop;
    k->decode = decode_loop;
    k->decode_add = decode_add_loop;
}

#endif
