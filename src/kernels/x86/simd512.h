/* SPDX-License-Identifier: Apache-2.0
 *
 * simd512.h - the one door to AVX-512 intrinsics.
 *
 * Few build machines have AVX-512, so the AVX-512 files are written to be run
 * anywhere: a file that defines GWI_EMULATE_AVX512 and includes such a file gets
 * SIMDe's emulation under the same names, and the very lines that ship are
 * tested (tests/support_emulated_*.c). What SIMDe lacks is added below, and nothing
 * else may be used. */
#ifndef GWI_SIMD512_H
#define GWI_SIMD512_H

#ifndef GWI_EMULATE_AVX512

#include <immintrin.h>

/* Marks a function that may use AVX-512 F, BW, DQ and VL. */
#define GWI_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

#else

/* SIMDe passes vectors for which this target has no registers. The compilers
 * warn that the ABI of that depends on flags; nothing leaves this file's users. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <string.h>

#define GWI_AVX512
#define GWI_EMULATED static inline __attribute__((always_inline))
#define __mmask8     simde__mmask8
#define __mmask16    simde__mmask16

/* Masked loads and stores touch only the lanes of their mask, as the
 * instructions do: a lane outside may lie on a page that is not there. */
GWI_EMULATED simde__m512i gwi_emulated_maskz_loadu_epi32(simde__mmask16 mask,
                                                         const void *from)
{
    int32_t lane[16] = {0};

    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy(lane + i, (const char *)from + 4 * i, 4);
    return simde_mm512_loadu_si512(lane);
}

GWI_EMULATED void gwi_emulated_mask_storeu_epi32(void *to, simde__mmask16 mask,
                                                 simde__m512i v)
{
    int32_t lane[16];

    simde_mm512_storeu_si512(lane, v);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            memcpy((char *)to + 4 * i, lane + i, 4);
}

GWI_EMULATED simde__m512 gwi_emulated_maskz_loadu_ps(simde__mmask16 mask,
                                                     const void *from)
{
    return simde_mm512_castsi512_ps(gwi_emulated_maskz_loadu_epi32(mask, from));
}

GWI_EMULATED void gwi_emulated_mask_storeu_ps(void *to, simde__mmask16 mask,
                                              simde__m512 v)
{
    gwi_emulated_mask_storeu_epi32(to, mask, simde_mm512_castps_si512(v));
}

GWI_EMULATED simde__m512d gwi_emulated_cvtps_pd(simde__m256 v)
{
    float from[8];
    double to[8];

    simde_mm256_storeu_ps(from, v);
    for (int i = 0; i < 8; i++)
        to[i] = (double)from[i];
    return simde_mm512_loadu_pd(to);
}

GWI_EMULATED int gwi_emulated_reduce_max_epi32(simde__m512i v)
{
    int32_t lane[16];
    int32_t best;

    simde_mm512_storeu_si512(lane, v);
    best = lane[0];
    for (int i = 1; i < 16; i++)
        best = lane[i] > best ? lane[i] : best;
    return best;
}

GWI_EMULATED simde__m256i gwi_emulated_cvtepi32_epi16(simde__m512i v)
{
    uint32_t from[16];
    uint16_t to[16];

    simde_mm512_storeu_si512(from, v);
    for (int i = 0; i < 16; i++)
        to[i] = (uint16_t)from[i];
    return simde_mm256_loadu_si256((const void *)to);
}

GWI_EMULATED simde__m512i gwi_emulated_cvtepu16_epi32(simde__m256i v)
{
    uint16_t from[16];
    uint32_t to[16];

    simde_mm256_storeu_si256((void *)from, v);
    for (int i = 0; i < 16; i++)
        to[i] = from[i];
    return simde_mm512_loadu_si512(to);
}

typedef union gwi_emulated_lanes {
    simde__m512i v;
    simde__m512 f;
    int32_t i[16];
    uint32_t u[16];
    float x[16];
} gwi_emulated_lanes;

GWI_EMULATED simde__m512i gwi_emulated_cvttps_epi32(simde__m512 v)
{
    gwi_emulated_lanes from = {.f = v}, to;

    for (int i = 0; i < 16; i++)
        to.i[i] = (int32_t)from.x[i];
    return to.v;
}

GWI_EMULATED simde__m512 gwi_emulated_cvtepi32_ps(simde__m512i v)
{
    gwi_emulated_lanes from = {.v = v}, to;

    for (int i = 0; i < 16; i++)
        to.x[i] = (float)from.i[i];
    return to.f;
}

GWI_EMULATED simde__m512i gwi_emulated_srav_epi32(simde__m512i v, simde__m512i count)
{
    gwi_emulated_lanes a = {.v = v}, by = {.v = count};

    for (int i = 0; i < 16; i++)
        a.i[i] >>= by.i[i];
    return a.v;
}

/* SIMDe has this one, but with signed overflow. */
GWI_EMULATED simde__m512i gwi_emulated_mullo_epi32(simde__m512i v, simde__m512i w)
{
    gwi_emulated_lanes a = {.v = v}, b = {.v = w};

    for (int i = 0; i < 16; i++)
        a.u[i] *= b.u[i];
    return a.v;
}

#undef _mm512_mullo_epi32
#define _mm512_maskz_loadu_epi32 gwi_emulated_maskz_loadu_epi32
#define _mm512_mask_storeu_epi32 gwi_emulated_mask_storeu_epi32
#define _mm512_maskz_loadu_ps    gwi_emulated_maskz_loadu_ps
#define _mm512_mask_storeu_ps    gwi_emulated_mask_storeu_ps
#define _mm512_cvtps_pd          gwi_emulated_cvtps_pd
#define _mm512_reduce_max_epi32  gwi_emulated_reduce_max_epi32
#define _mm512_cvtepi32_epi16    gwi_emulated_cvtepi32_epi16
#define _mm512_cvtepu16_epi32    gwi_emulated_cvtepu16_epi32
#define _mm512_cvttps_epi32      gwi_emulated_cvttps_epi32
#define _mm512_cvtepi32_ps       gwi_emulated_cvtepi32_ps
#define _mm512_srav_epi32        gwi_emulated_srav_epi32
#define _mm512_mullo_epi32       gwi_emulated_mullo_epi32

#endif

/* A mask as a number. gcc 12 may keep a mask that is needed later in two bytes of
 * memory and then count the bits of four (seen with the thread sanitizer, which makes
 * it run out of registers); it does not if the mask has been in a general register. */
static inline __attribute__((always_inline)) unsigned gwi_mask_bits(__mmask16 mask)
{
    unsigned bits = mask;

    __asm__("" : "+r"(bits));
    return bits;
}

#endif
