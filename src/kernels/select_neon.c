/* SPDX-License-Identifier: Apache-2.0
 *
 * select_neon.c - the collecting loop for NEON on 64-bit ARM. */
#include "kernels/select.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <string.h>

/* Floats per block, and blocks per round. */
enum { BLOCK = 16, ROUND = 64 };

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
static inline uint64_t add_block(float *r, const float *g, int32x4_t above)
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

/* Moves the floats of the block at r[i] that bits name to out. */
static inline size_t take_bits(float *r, size_t i, uint64_t bits, gwi_list *out,
                               size_t n)
{
    for (; bits != 0; bits &= bits - 1) {
        size_t j = i + (size_t)__builtin_ctzll(bits) / 4;
        out->index[n] = (uint32_t)j;
        out->value[n++] = r[j];
        r[j] = 0.0f;
    }
    return n;
}

/* Whether a block has anything above cannot be predicted, so nothing is asked
 * while adding: masks are kept, and blocks with bits noted, for a round of blocks
 * that stays in the nearest cache. Then those are visited. */
static inline void collect_round(float *r, const float *g, size_t i, size_t blocks,
                                 int32x4_t above, gwi_list *out)
{
    uint64_t mask[ROUND];
    uint32_t noted[ROUND + 1];
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

static inline __attribute__((always_inline)) size_t collect(float *r, const float *g,
                                                            size_t begin, size_t end,
                                                            int32_t above,
                                                            gwi_list *out)
{
    size_t i = begin;

    for (;;) {
        size_t room = out->cap - out->n, left = end - i;
        size_t blocks = (room < left ? room : left) / BLOCK;
        if (blocks == 0 || room < GWI_COLLECT_ROOM)
            break;
        blocks = blocks < ROUND ? blocks : ROUND;
        collect_round(r, g, i, blocks, vdupq_n_s32(above), out);
        i += blocks * BLOCK;
    }
    return collect_tail(r, g, i, end, above, out);
}

/* Two loops instead of a test for g in each step. */
static size_t collect_neon(float *r, const float *g, size_t begin, size_t end,
                           int32_t above, gwi_list *out)
{
    return g ? collect(r, g, begin, end, above, out)
             : collect(r, NULL, begin, end, above, out);
}

void gwi_select_neon(gwi_select_kernels *k)
{
    k->isa = "neon";
    k->collect = collect_neon;
}

#else

typedef int gwi_select_neon_is_for_aarch64;

#endif
