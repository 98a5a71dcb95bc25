/* SPDX-License-Identifier: Apache-2.0
 *
 * index_coder.h - ascending positions as few bits.
 *
 * Positions are cut into blocks of 128, and each block is Rice-coded with a
 * parameter of its own, the best for that block:
 *
 *     | r | flag | low r bits of each gap | rest of each gap, in unary | long gaps |
 *
 * A gap is the number of positions skipped. Where a few gaps are much longer than
 * the rest of their block, they are listed after it and the flag is set.
 *
 * Uniformly random positions cost within 1.03 of the entropy log2(n choose k) at
 * densities from 1e-4 to 1e-1. Clustered ones cost less, as the parameter follows
 * the local density and a long gap does not spoil it for its neighbours.
 * docs/format.md has the exact layout and the reasons. */
#ifndef GWI_INDEX_CODER_H
#define GWI_INDEX_CODER_H

#include "base.h"

enum {
    GWI_INDEX_BLOCK = 128,    /* positions per block; the last may be shorter */
    GWI_INDEX_RICE_BITS = 5,  /* bits of a block's Rice parameter */
    GWI_INDEX_RICE_MAX = 31,  /* its largest value */
    GWI_INDEX_HEAD_BITS = 6,  /* the parameter and the flag */
    GWI_INDEX_PLACE_BITS = 7, /* of an entry in its block; of the list's length */
    GWI_INDEX_WIDTH_BITS = 5, /* bits that say how many bits a long gap has */
    GWI_INDEX_SPARE_BYTES = 8 /* the encoder stores whole words */
};

/* Bytes that gwi_index_encode() needs for k positions below n, whichever they
 * are: the last 8 of them are room to work in. Never more than a bitmap would
 * take, n bits, and 6 bits per block. */
uint64_t gwi_index_bound(uint32_t n, uint32_t k);

/* Writes k positions, ascending without repetition and below n, to out, which
 * has room for gwi_index_bound(n, k) bytes, and sets *len to the bytes that
 * count; those after them are undefined. GW_ERR_ARG names the first position
 * that is out of order. Equal positions give equal bytes on every machine. */
gw_status gwi_index_encode(const uint32_t *positions, uint32_t k, uint32_t n,
                           uint8_t *out, size_t *len);

/* Reads positions block by block from bytes that may be anything. */
typedef struct gwi_index_reader {
    const uint8_t *bytes;
    size_t len;
    uint64_t bit;  /* of bytes, the next to be read */
    uint64_t next; /* the smallest position that may follow; at most n */
    uint32_t n, left;
} gwi_index_reader;

/* Begins to read k positions below n from len bytes, which must outlive it. */
void gwi_index_start(gwi_index_reader *reader, const uint8_t *bytes, size_t len,
                     uint32_t n, uint32_t k);

/* Reads the next block into out, which has room for GWI_INDEX_BLOCK positions or
 * for all that are left, and sets *count to their number; 0 when none are left.
 * The positions ascend without repetition, within and between blocks, and are
 * below n. GW_ERR_DATA if the bytes end early, a position is not below n, or
 * something follows the last; out is then undefined and reading is over. */
gw_status gwi_index_next(gwi_index_reader *reader, uint32_t *out, size_t *count);

#endif
