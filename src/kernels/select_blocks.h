/* SPDX-License-Identifier: Apache-2.0
 *
 * select_blocks.h - the collecting loop of vector instruction sets. The file that
 * includes this has defined
 *
 *     GWI_TARGET             the attribute that allows its intrinsics, if it needs one
 *     BLOCK, ROUND           floats per block, and blocks per round
 *     bound, bound_of()      a register of bounds
 *     mask                   which floats of a block are above: bits of an integer
 *     add_block()            r += g for a block, and its mask
 *     first_of()             the first float that a mask, not 0, names; for 1 it is 0
 *     take_block()           moves what a mask names to a list, with room for a block;
 *                            take_bits() where nothing is faster
 */
#include "kernels/float_bits.h"

/* Moves the floats of the block at r[i] that bits name to out. */
static inline size_t take_bits(float *r, size_t i, mask bits, gwi_list *out, size_t n)
{
    for (; bits != 0; bits &= bits - 1) {
        size_t j = i + first_of(bits);
        out->index[n] = (uint32_t)j;
        out->value[n++] = r[j];
        r[j] = 0.0f;
    }
    return n;
}

#ifndef take_block
#define take_block take_bits
#endif

/* Whether a block has anything above cannot be predicted, so nothing is asked
 * while adding: masks are kept, and blocks with bits noted, for a round of blocks
 * that stays in the nearest cache. Then those are visited. */
GWI_TARGET static inline void collect_round(float *r, const float *g, size_t i,
                                            size_t blocks, bound above, gwi_list *out)
{
    mask found[ROUND];
    uint32_t noted[ROUND + 1];
    size_t count = 0, n = out->n;

    for (size_t b = 0; b < blocks; b++) {
        size_t at = i + b * BLOCK;
        found[b] = add_block(r + at, g ? g + at : NULL, above);
        noted[count] = (uint32_t)b;
        count += found[b] != 0;
    }
    for (size_t c = 0; c < count; c++)
        n = take_block(r, i + noted[c] * (size_t)BLOCK, found[noted[c]], out, n);
    out->n = n;
}

static size_t collect_tail(float *r, const float *g, size_t i, size_t end,
                           int32_t above, gwi_list *out)
{
    for (; i < end && out->cap - out->n >= GWI_COLLECT_ROOM; i++) {
        r[i] = g ? r[i] + g[i] : r[i];
        if (gwi_magnitude_bits(r[i]) > above)
            out->n = take_bits(r, i, 1, out, out->n);
    }
    return i;
}

GWI_TARGET static inline __attribute__((always_inline)) size_t
collect(float *r, const float *g, size_t begin, size_t end, int32_t above,
        gwi_list *out)
{
    const bound bounds = bound_of(above);
    size_t i = begin;

    for (;;) {
        size_t room = out->cap - out->n, left = end - i;
        size_t blocks = (room < left ? room : left) / BLOCK;
        /* A block may be smaller than the room that is promised. */
        if (blocks == 0 ||
            ((size_t)BLOCK < GWI_COLLECT_ROOM && room < GWI_COLLECT_ROOM))
            break;
        blocks = blocks < ROUND ? blocks : ROUND;
        collect_round(r, g, i, blocks, bounds, out);
        i += blocks * BLOCK;
    }
    return collect_tail(r, g, i, end, above, out);
}

/* Two loops instead of a test for g in each step. */
GWI_TARGET static size_t collect_blocks(float *r, const float *g, size_t begin,
                                        size_t end, int32_t above, gwi_list *out)
{
    return g ? collect(r, g, begin, end, above, out)
             : collect(r, NULL, begin, end, above, out);
}
