/* SPDX-License-Identifier: Apache-2.0
 *
 * entropy_coder.h - levels, codes and signs of a few bits each as fewer bytes still,
 * where some come more often than others.
 *
 * Values lie as they do in a message, `bits` bits each, without padding. As many of
 * them as fit into 8 bits are one symbol, and symbols are cut into blocks of 32768.
 * Each block is coded on its own with how often its symbols occur, by range coding with
 * eight states that take turns (rANS, Duda 2013):
 *
 *     | length of each block, u16 | block | block | ...
 *     block:  | how often each symbol occurs | 8 states, u32 | words, u16 |
 *
 * A block that would not become shorter by at least a twentieth stays as it is, and its
 * length says so. docs/format.md has the exact layout, docs/format-why.md the reasons.
 *
 * Equal values give equal bytes on every machine and for any number of threads. */
#ifndef GWI_ENTROPY_CODER_H
#define GWI_ENTROPY_CODER_H

#include "base.h"

enum {
    GWI_ENTROPY_BLOCK = 32768,  /* symbols per block; the last may be shorter */
    GWI_ENTROPY_SYMBOLS = 256,  /* different ones at most */
    GWI_ENTROPY_LENGTH_LEN = 2, /* of the length of a block */
    GWI_ENTROPY_STATES = 8,
    GWI_ENTROPY_SCALE_BITS = 12, /* the shares of a block's symbols add up to 2^12 */
    GWI_ENTROPY_LOW = 1 << 15    /* states are from this to below 2^16 times it */
};

/* Bits of a symbol: 8, or 5 to 7 where values of this many bits do not fill 8. */
static inline unsigned gwi_entropy_width(unsigned bits)
{
    return bits < 5 ? 8 / bits * bits : bits;
}

/* How the packed values of a message are cut. */
typedef struct gwi_entropy_cut {
    unsigned width;   /* bits of a symbol */
    uint64_t symbols; /* the last may lack values */
    size_t len;       /* bytes of the values as they are */
    size_t blocks;
    size_t block_bytes; /* of each block but the last, as it is */
    unsigned spare;     /* bits of the last byte that no value has: these are 0 */
} gwi_entropy_cut;

gwi_entropy_cut gwi_entropy_cut_of(uint64_t k, unsigned bits);

/* The symbols in block b, and its bytes as it is. */
size_t gwi_entropy_symbols_in(const gwi_entropy_cut *cut, size_t b);
size_t gwi_entropy_bytes_in(const gwi_entropy_cut *cut, size_t b);

/* Bytes of room that gwi_entropy_encode() needs for k values of so many bits, at
 * most 8. */
size_t gwi_entropy_room(uint64_t k, unsigned bits);

/* Codes k packed values into room, and returns how many bytes they then take; 0 if that
 * is not at least a twentieth less than before. gwi_entropy_store() writes these bytes
 * to out, which may be where the values are. */
size_t gwi_entropy_encode(const uint8_t *values, uint64_t k, unsigned bits,
                          uint8_t *room);
void gwi_entropy_store(const uint8_t *room, uint64_t k, unsigned bits, uint8_t *out);

/* Sets *len to the bytes that coded values take, of the `most` that there are, and
 * which may be anything: fewer than as they were, or GW_ERR_DATA. Blocks are not looked
 * at. */
gw_status gwi_entropy_length(const uint8_t *bytes, size_t most, uint64_t k,
                             unsigned bits, size_t *len);

/* Decodes values whose length gwi_entropy_length() has found to out, as many bytes as
 * they were. In time proportional to k. GW_ERR_DATA if the bytes are not what an
 * encoder can have written of some values; out is then undefined. */
gw_status gwi_entropy_decode(const uint8_t *bytes, uint64_t k, unsigned bits,
                             uint8_t *out);

/* Whether gwi_entropy_decode() would return GW_OK, without memory for the values. */
gw_status gwi_entropy_check(const uint8_t *bytes, uint64_t k, unsigned bits);

#endif
