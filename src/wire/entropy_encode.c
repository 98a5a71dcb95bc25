/* SPDX-License-Identifier: Apache-2.0
 *
 * entropy_encode.c - from packed values to fewer bytes, block by block.
 *
 * Range coding goes backwards: the last symbol comes first, and the words are written
 * from the end of a block's room to its beginning, so that a decoder goes forwards. */
#include "wire/entropy_coder.h"

#include <string.h>

#include "kernels/pool.h"
#include "wire/wire_bytes.h"

enum {
    GROUP = 8,
    SCALE = 1 << GWI_ENTROPY_SCALE_BITS,
    STATES_LEN = 4 * GWI_ENTROPY_STATES,
    SPARE =
        2 *
        GWI_ENTROPY_STATES /* words are stored before it is known whether they count */
};

/* ---- how values are cut ------------------------------------------------------ */

gwi_entropy_cut gwi_entropy_cut_of(uint64_t k, unsigned bits)
{
    gwi_entropy_cut cut = {.width = gwi_entropy_width(bits)};

    cut.symbols = (k * bits + cut.width - 1) / cut.width;
    cut.len = (size_t)((k * bits + 7) / 8);
    cut.blocks = (size_t)((cut.symbols + GWI_ENTROPY_BLOCK - 1) / GWI_ENTROPY_BLOCK);
    cut.spare = (unsigned)(8 * (uint64_t)cut.len - k * bits);
    cut.block_bytes = (size_t)GWI_ENTROPY_BLOCK / 8 * cut.width;
    return cut;
}

size_t gwi_entropy_symbols_in(const gwi_entropy_cut *cut, size_t b)
{
    uint64_t left = cut->symbols - (uint64_t)b * GWI_ENTROPY_BLOCK;

    return left < GWI_ENTROPY_BLOCK ? (size_t)left : GWI_ENTROPY_BLOCK;
}

size_t gwi_entropy_bytes_in(const gwi_entropy_cut *cut, size_t b)
{
    size_t left = cut->len - b * cut->block_bytes;

    return left < cut->block_bytes ? left : cut->block_bytes;
}

/* What is coded must not be longer. */
static size_t limit_of(size_t len)
{
    return len - (len + 19) / 20;
}

/* ---- symbols ------------------------------------------------------------------- */

/* Eight numbers of `width` bits, from the lowest bit up, to a byte each. */
static inline uint64_t part(uint64_t x, unsigned width)
{
    uint64_t four = ((uint64_t)1 << 4 * width) - 1;
    uint64_t two = (((uint64_t)1 << 2 * width) - 1) * UINT64_C(0x0000000100000001);
    uint64_t one = (((uint64_t)1 << width) - 1) * UINT64_C(0x0001000100010001);

    x = (x & four) | (x >> 4 * width & four) << 32;
    x = (x & two) | (x >> 2 * width & two) << 16;
    return (x & one) | (x >> width & one) << 8;
}

/* The symbols of a block of len bytes, each in a byte; in `to`, with zeros up to a
 * multiple of 8, if they are not that already. */
static const uint8_t *spread(const uint8_t *from, size_t len, unsigned width,
                             uint8_t *to)
{
    uint8_t *out = to;

    if (width == 8)
        return from;
    for (; len >= 8; len -= width, from += width, out += GROUP)
        gwi_write_u64le(out, part(gwi_read_u64le(from), width));
    while (len > 0) {
        uint64_t word = 0;
        size_t there = len < width ? len : width;
        memcpy(&word, from, there);
        gwi_write_u64le(out, part(GWI_LE64(word), width));
        from += there;
        len -= there;
        out += GROUP;
    }
    return to;
}

/* Four counters for each symbol, since an addition to one must wait for the last. */
static void count_symbols(const uint8_t *symbols, size_t n,
                          uint32_t count[GWI_ENTROPY_SYMBOLS])
{
    uint32_t c[4][GWI_ENTROPY_SYMBOLS] = {{0}};
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        for (unsigned j = 0; j < 4; j++)
            c[j][symbols[i + j]]++;
    for (; i < n; i++)
        c[0][symbols[i]]++;
    for (size_t s = 0; s < GWI_ENTROPY_SYMBOLS; s++)
        count[s] = c[0][s] + c[1][s] + c[2][s] + c[3][s];
}

/* Turns counts of n symbols into shares of SCALE: each symbol that is there gets 1,
 * then its part of the rest, rounded down, and the most frequent one what is left over.
 */
static void share_out(uint32_t count[GWI_ENTROPY_SYMBOLS], size_t n)
{
    uint32_t present = 0, most = 0, left = SCALE;

    for (uint32_t s = 0; s < GWI_ENTROPY_SYMBOLS; s++) {
        present += count[s] > 0;
        most = count[s] > count[most] ? s : most;
    }
    for (uint32_t s = 0; s < GWI_ENTROPY_SYMBOLS; s++) {
        if (count[s] > 0)
            count[s] = 1 + count[s] * (SCALE - present) / (uint32_t)n;
        left -= count[s];
    }
    count[most] += left;
}

/* ---- a block ------------------------------------------------------------------- */

/* Writes each share plus one: as many zeros as its bits after the highest, and these
 * with a one before them; up to the share that makes them all. Returns the bytes. */
static size_t put_shares(const uint32_t share[GWI_ENTROPY_SYMBOLS], uint8_t *out)
{
    uint64_t word = 0;
    unsigned fill = 0;
    size_t len = 0;

    for (uint32_t s = 0, sum = 0; sum < SCALE; sum += share[s++]) {
        unsigned more = 31u - (unsigned)__builtin_clz(share[s] + 1);
        uint64_t low = (share[s] + 1) & ((1u << more) - 1);
        word |= ((uint64_t)1 << more | low << (more + 1)) << fill;
        for (fill += 2 * more + 1; fill >= 8; fill -= 8, word >>= 8)
            out[len++] = (uint8_t)word;
    }
    if (fill > 0)
        out[len++] = (uint8_t)word;
    return len;
}

/* A division by a share, as a multiplication: exact for all states below 2^31. */
typedef struct divider {
    uint32_t share, inverse, begin; /* of shares before it */
    uint32_t shift;
} divider;

static void make_dividers(const uint32_t share[GWI_ENTROPY_SYMBOLS],
                          divider d[GWI_ENTROPY_SYMBOLS])
{
    uint32_t begin = 0;

    for (uint32_t s = 0; s < GWI_ENTROPY_SYMBOLS; s++) {
        uint32_t f = share[s], shift = 0;
        while (f > (uint32_t)1 << shift)
            shift++;
        d[s] = (divider){.share = f, .begin = begin, .inverse = 1};
        if (f > 1) {
            d[s].shift = 31 + shift;
            d[s].inverse = (uint32_t)((((uint64_t)1 << (31 + shift)) + f - 1) / f);
        }
        begin += f;
    }
}

/* One symbol into a state; where that grows too long, its low half goes out first. */
static inline uint32_t put_symbol(uint32_t x, const divider *d, uint8_t **at)
{
    uint32_t over = x >> 19 >= d->share;
    uint32_t quotient;

    gwi_write_u16le(*at - 2, (uint16_t)x);
    *at -= 2 * over;
    x >>= 16 * over;
    quotient = (uint32_t)((uint64_t)x * d->inverse >> d->shift);
    return x + d->begin + quotient * (SCALE - d->share);
}

/* Codes symbols down to out, of which `end` is the end: each of them with the state of
 * its place modulo 8. Returns where the words begin: less than SPARE bytes past out, if
 * they need more room. */
static uint8_t *put_words(const uint8_t *symbols, size_t n, const divider *d,
                          uint8_t *out, uint8_t *end, uint32_t x[GWI_ENTROPY_STATES])
{
    uint32_t y[GWI_ENTROPY_STATES];
    size_t i = n;

    for (unsigned j = 0; j < GWI_ENTROPY_STATES; j++)
        y[j] = GWI_ENTROPY_LOW;
    for (; i % GWI_ENTROPY_STATES != 0; i--)
        y[(i - 1) % GWI_ENTROPY_STATES] =
            put_symbol(y[(i - 1) % GWI_ENTROPY_STATES], &d[symbols[i - 1]], &end);
    for (; i > 0 && end - out >= SPARE; i -= GWI_ENTROPY_STATES)
#pragma GCC unroll 8
        for (unsigned j = GWI_ENTROPY_STATES; j-- > 0;)
            y[j] = put_symbol(y[j], &d[symbols[i - GWI_ENTROPY_STATES + j]], &end);
    memcpy(x, y, sizeof y);
    return end;
}

/* Codes n symbols into at most cap bytes of out, which has room for SPARE more; 0 if
 * they do not fit. */
static size_t code_block(const uint8_t *symbols, size_t n, uint8_t *out, size_t cap)
{
    uint32_t share[GWI_ENTROPY_SYMBOLS], x[GWI_ENTROPY_STATES];
    divider dividers[GWI_ENTROPY_SYMBOLS];
    /* A share plus one takes 1 + 2 log2 of it bits; 256 of 17 take most. */
    uint8_t head[GWI_ENTROPY_SYMBOLS * 9 / 8 + 8];

    count_symbols(symbols, n, share);
    share_out(share, n);
    size_t len = put_shares(share, head);
    if (len + STATES_LEN > cap)
        return 0;
    make_dividers(share, dividers);
    uint8_t *end = out + cap + SPARE, *begin = out + len + STATES_LEN;
    uint8_t *words = put_words(symbols, n, dividers, begin, end, x);
    if (words < begin + SPARE)
        return 0;
    memcpy(out, head, len);
    for (unsigned j = 0; j < GWI_ENTROPY_STATES; j++)
        gwi_write_u32le(out + len + 4 * j, x[j]);
    memmove(begin, words, (size_t)(end - words));
    return len + STATES_LEN + (size_t)(end - words);
}

/* ---- all of them --------------------------------------------------------------- */

/* The room has the lengths, and then as much for each block as it was, and SPARE. */
typedef struct job {
    gwi_entropy_cut cut;
    const uint8_t *values;
    uint8_t *room;
} job;

static uint8_t *place_of(const gwi_entropy_cut *cut, const uint8_t *room, size_t b)
{
    return (uint8_t *)(uintptr_t)room + GWI_ENTROPY_LENGTH_LEN * cut->blocks +
           b * (cut->block_bytes + SPARE);
}

static void encode_block(void *arg, size_t b)
{
    const job *j = arg;
    uint8_t spread_out[GWI_ENTROPY_BLOCK + GROUP];
    uint8_t *out = place_of(&j->cut, j->room, b);
    const uint8_t *values = j->values + b * j->cut.block_bytes;
    size_t bytes = gwi_entropy_bytes_in(&j->cut, b);
    size_t n = gwi_entropy_symbols_in(&j->cut, b);
    const uint8_t *symbols = spread(values, bytes, j->cut.width, spread_out);
    size_t len = code_block(symbols, n, out, limit_of(bytes));

    if (len == 0) {
        memcpy(out, values, bytes);
        len = bytes;
    }
    gwi_write_u16le(j->room + GWI_ENTROPY_LENGTH_LEN * b, (uint16_t)len);
}

size_t gwi_entropy_room(uint64_t k, unsigned bits)
{
    gwi_entropy_cut cut = gwi_entropy_cut_of(k, bits);

    return (GWI_ENTROPY_LENGTH_LEN + SPARE) * cut.blocks + cut.len;
}

size_t gwi_entropy_encode(const uint8_t *values, uint64_t k, unsigned bits,
                          uint8_t *room)
{
    job j = {gwi_entropy_cut_of(k, bits), values, room};
    size_t len = GWI_ENTROPY_LENGTH_LEN * j.cut.blocks;

    gwi_parallel(j.cut.blocks, encode_block, &j);
    for (size_t b = 0; b < j.cut.blocks; b++)
        len += gwi_read_u16le(room + GWI_ENTROPY_LENGTH_LEN * b);
    return len <= limit_of(j.cut.len) ? len : 0;
}

void gwi_entropy_store(const uint8_t *room, uint64_t k, unsigned bits, uint8_t *out)
{
    gwi_entropy_cut cut = gwi_entropy_cut_of(k, bits);
    uint8_t *at = out + GWI_ENTROPY_LENGTH_LEN * cut.blocks;

    memcpy(out, room, GWI_ENTROPY_LENGTH_LEN * cut.blocks);
    for (size_t b = 0; b < cut.blocks; b++) {
        size_t len = gwi_read_u16le(room + GWI_ENTROPY_LENGTH_LEN * b);
        memcpy(at, place_of(&cut, room, b), len);
        at += len;
    }
}
