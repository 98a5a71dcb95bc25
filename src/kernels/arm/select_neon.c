/* SPDX-License-Identifier: Apache-2.0
 *
 * select_neon.c - the collecting loop for NEON on 64-bit ARM. */
#include "kernels/select.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define GWI_TARGET

/* Floats per block, and blocks per round. */
enum { BLOCK = 16, ROUND = 64 };

typedef uint64_t mask;
typedef int32x4_t bound;

static inline bound bound_of(int32_t above)
{
    return vdupq_n_s32(above);
}

/* Every float has four bits. */
static inline size_t first_of(mask bits)
{
    return (size_t)__builtin_ctzll(bits) / 4;
}

/* Adds, stores, and says which of four floats are above, as all-ones lanes. */
static inline uint32x4_t add_four(float *r, const float *g, int32x4_t above)
{
    float32x4_t v = vld1q_f32(r);

    if (g) {
        v = vaddq_f32(v, vld1q_f32(g));
        vst1q_f32(r, v);
    }
    return vcgtq_s32(vreinterpretq_s32_f32(vabsq_f32(v)), above);
}

/* Adds a block; the lowest of every four bits says whether a float is above. */
static inline mask add_block(float *r, const float *g, bound above)
{
    uint32x4_t m0 = add_four(r, g, above);
    uint32x4_t m1 = add_four(r + 4, g ? g + 4 : NULL, above);
    uint32x4_t m2 = add_four(r + 8, g ? g + 8 : NULL, above);
    uint32x4_t m3 = add_four(r + 12, g ? g + 12 : NULL, above);
    uint16x8_t m01 = vcombine_u16(vmovn_u32(m0), vmovn_u32(m1));
    uint16x8_t m23 = vcombine_u16(vmovn_u32(m2), vmovn_u32(m3));
    uint8x16_t bytes = vcombine_u8(vmovn_u16(m01), vmovn_u16(m23));
    uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(bytes), 4);

    return vget_lane_u64(vreinterpret_u64_u8(nibbles), 0) & 0x1111111111111111u;
}

#include "kernels/select_blocks.h"

void gwi_select_neon(gwi_select_kernels *k)
{
    k->isa = "neon";
    k->collect = collect_blocks;
}

#else

typedef int gwi_select_neon_is_for_aarch64;

#endif
