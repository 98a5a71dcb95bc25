/* SPDX-License-Identifier: Apache-2.0
 *
 * select_avx2.c - the collecting loop for AVX2. */
#include "kernels/select.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define AVX2       __attribute__((target("avx2")))
#define GWI_TARGET AVX2

/* Floats per block, one bit of a mask each, and blocks per round. */
enum { BLOCK = 32, ROUND = 32 };

typedef uint32_t mask;
typedef __m256i bound;

AVX2 static inline bound bound_of(int32_t above)
{
    return _mm256_set1_epi32(above);
}

static inline size_t first_of(mask bits)
{
    return (size_t)__builtin_ctz(bits);
}

/* Adds, stores, and says which of eight floats are above, as all-ones lanes. */
AVX2 static inline __m256i add_eight(float *r, const float *g, __m256i above)
{
    const __m256i unsign = _mm256_set1_epi32(0x7fffffff);
    __m256 v = _mm256_loadu_ps(r);

    if (g) {
        v = _mm256_add_ps(v, _mm256_loadu_ps(g));
        _mm256_storeu_ps(r, v);
    }
    return _mm256_cmpgt_epi32(_mm256_and_si256(_mm256_castps_si256(v), unsign), above);
}

/* Adds a block; the bits of the result say which of its floats are above. */
AVX2 static inline mask add_block(float *r, const float *g, bound above)
{
    __m256i m0 = add_eight(r, g, above);
    __m256i m1 = add_eight(r + 8, g ? g + 8 : NULL, above);
    __m256i m2 = add_eight(r + 16, g ? g + 16 : NULL, above);
    __m256i m3 = add_eight(r + 24, g ? g + 24 : NULL, above);
    __m256i m01 = _mm256_packs_epi32(m0, m1), m23 = _mm256_packs_epi32(m2, m3);

    /* Packing works within halves of registers; this puts the halves in order. */
    return (uint32_t)_mm256_movemask_epi8(_mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(m01, m23), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

#include "kernels/select_blocks.h"

void gwi_select_avx2(gwi_select_kernels *k)
{
    k->isa = "avx2";
    k->collect = collect_blocks;
}

#else

typedef int gwi_select_avx2_is_for_x86_64;

#endif
