/* SPDX-License-Identifier: Apache-2.0
 *
 * select_avx2.c - the collecting loop for AVX2. */
#include "kernels/select.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

/* Floats per block, one bit of a mask each, and blocks per round. */
enum { BLOCK = 32, ROUND = 32 };

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
AVX2 static inline uint32_t add_block(float *r, const float *g, __m256i above)
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

/* Moves the floats of the block at r[i] that bits name to out. */
static inline size_t take_bits(float *r, size_t i, uint32_t bits, gwi_list *out,
                               size_t n)
{
    for (; bits != 0; bits &= bits - 1) {
        size_t j = i + (size_t)__builtin_ctz(bits);
        out->index[n] = (uint32_t)j;
        out->value[n++] = r[j];
        r[j] = 0.0f;
    }
    return n;
}

/* Whether a block has anything above cannot be predicted, so nothing is asked
 * while adding: masks are kept, and blocks with bits noted, for a round of blocks
 * that stays in the nearest cache. Then those are visited. */
AVX2 static inline void collect_round(float *r, const float *g, size_t i, size_t blocks,
                                      __m256i above, gwi_list *out)
{
    uint32_t mask[ROUND], noted[ROUND + 1];
    size_t count = 0, n = out->n;

    for (size_t b = 0; b < blocks; b++) {
        size_t at = i + b * BLOCK;
        mask[b] = add_block(r + at, g ? g + at : NULL, above);
        noted[count] = (uint32_t)b;
        count += mask[b] != 0;
    }
    for (size_t c = 0; c < count; c++)
        n = take_bits(r, i + noted[c] * (size_t)BLOCK, mask[noted[c]], out, n);
    out->n = n;
}

static size_t collect_tail(float *r, const float *g, size_t i, size_t end,
                           int32_t above, gwi_list *out)
{
    for (; i < end && out->cap - out->n >= GWI_COLLECT_ROOM; i++) {
        int32_t bits;
        r[i] = g ? r[i] + g[i] : r[i];
        memcpy(&bits, r + i, sizeof bits);
        if ((bits & 0x7fffffff) > above)
            out->n = take_bits(r, i, 1, out, out->n);
    }
    return i;
}

AVX2 static inline __attribute__((always_inline)) size_t
collect(float *r, const float *g, size_t begin, size_t end, int32_t above,
        gwi_list *out)
{
    const __m256i bound = _mm256_set1_epi32(above);
    size_t i = begin;

    for (;;) {
        size_t room = out->cap - out->n, left = end - i;
        size_t blocks = (room < left ? room : left) / BLOCK;
        if (blocks == 0)
            break;
        blocks = blocks < ROUND ? blocks : ROUND;
        collect_round(r, g, i, blocks, bound, out);
        i += blocks * BLOCK;
    }
    return collect_tail(r, g, i, end, above, out);
}

/* Two loops instead of a test for g in each step. */
AVX2 static size_t collect_avx2(float *r, const float *g, size_t begin, size_t end,
                                int32_t above, gwi_list *out)
{
    return g ? collect(r, g, begin, end, above, out)
             : collect(r, NULL, begin, end, above, out);
}

void gwi_select_avx2(gwi_select_kernels *k)
{
    k->isa = "avx2";
    k->collect = collect_avx2;
}

#else

typedef int gwi_select_avx2_is_for_x86_64;

#endif
