/* SPDX-License-Identifier: Apache-2.0
 *
 * entropy_decode.c - from bytes that may be anything to packed values. */
#include "wire/entropy_coder.h"

#include <stdbool.h>
#include <string.h>

#include "kernels/pool.h"
#include "wire/wire_bytes.h"

enum {
    GROUP = 8,
    SCALE = 1 << GWI_ENTROPY_SCALE_BITS,
    STATES_LEN = 4 * GWI_ENTROPY_STATES
};

gw_status gwi_entropy_length(const uint8_t *bytes, size_t most, uint64_t k,
                             unsigned bits, size_t *len)
{
    gwi_entropy_cut cut = gwi_entropy_cut_of(k, bits);
    uint64_t sum = (uint64_t)GWI_ENTROPY_LENGTH_LEN * cut.blocks;

    if (sum > most)
        return gw_fail(GW_ERR_DATA, "%zu bytes end before the lengths of %zu blocks",
                       most, cut.blocks);
    for (size_t b = 0; b < cut.blocks; b++) {
        size_t one = gwi_read_u16le(bytes + GWI_ENTROPY_LENGTH_LEN * b);
        if (one > gwi_entropy_bytes_in(&cut, b))
            return gw_fail(GW_ERR_DATA,
                           "block %zu of values has %zu bytes, more than "
                           "the values themselves",
                           b, one);
        sum += one;
    }
    if (sum > most || sum >= cut.len)
        return gw_fail(GW_ERR_DATA,
                       "coded values take %llu bytes, but there are %zu, and "
                       "%zu as they were",
                       (unsigned long long)sum, most, cut.len);
    *len = (size_t)sum;
    return GW_OK;
}

/* ---- a block --------------------------------------------------------------------- */

/* A slot for each of the SCALE remainders of a state: the symbol, its share minus one,
 * and how far into the share the slot is. */
enum { SHARE_AT = 12, SYMBOL_AT = 24, FIELD = SCALE - 1 };

/* Reads the shares of the symbols and fills in the slots. Returns the bytes read; 0 if
 * there are none that are good. */
static size_t get_shares(const uint8_t *in, size_t len, unsigned width,
                         uint32_t slots[SCALE])
{
    size_t bit = 0, symbols = (size_t)1 << width;
    uint32_t sum = 0;

    for (size_t s = 0; sum < SCALE; s++) {
        uint64_t word = 0;
        size_t at = bit / 8, there = len - at < 8 ? len - at : 8;
        memcpy(&word, in + at, there);
        word = GWI_LE64(word) >> bit % 8;
        unsigned more = word != 0 ? (unsigned)__builtin_ctzll(word) : 64;
        if (s == symbols || more > GWI_ENTROPY_SCALE_BITS)
            return 0;
        bit += 2 * more + 1;
        if (bit > 8 * len)
            return 0;
        uint32_t share =
            (1u << more) + (uint32_t)(word >> (more + 1) & ((1u << more) - 1)) - 1;
        if (share > SCALE - sum)
            return 0;
        uint32_t slot = (uint32_t)s << SYMBOL_AT | (share - 1) << SHARE_AT;
        for (uint32_t i = 0; i < share; i++)
            slots[sum++] = slot + i;
    }
    return bit % 8 == 0 || in[bit / 8] >> bit % 8 == 0 ? (bit + 7) / 8 : 0;
}

/* Takes a symbol out of a state, which may then need a word. */
static inline uint32_t take_symbol(uint32_t *x, const uint32_t slots[SCALE])
{
    uint32_t slot = slots[*x & FIELD], quotient = *x >> GWI_ENTROPY_SCALE_BITS;

    /* Nothing; but gcc would do four states at a time, which takes twice as long. */
    __asm__("" : "+r"(slot));
    *x = (slot >> SHARE_AT & FIELD) * quotient + quotient + (slot & FIELD);
    return slot >> SYMBOL_AT;
}

/* Gives a state the word that it needs, without a branch, which nobody could guess. */
static inline const uint8_t *refill(uint32_t *x, const uint8_t *in)
{
    uint32_t low = *x < GWI_ENTROPY_LOW, longer = *x << 16 | gwi_read_u16le(in);

    *x ^= (*x ^ longer) & (0 - low);
    return in + 2 * low;
}

/* Takes the symbols of whole turns of the states as long as there are words for all.
 * Returns how many, and moves *in on. */
static size_t take_turns(uint32_t x[GWI_ENTROPY_STATES], const uint32_t slots[SCALE],
                         const uint8_t **in, const uint8_t *end, uint8_t *out, size_t n)
{
    uint32_t a = x[0], b = x[1], c = x[2], d = x[3];
    uint32_t e = x[4], f = x[5], g = x[6], h = x[7];
    const uint8_t *at = *in;
    size_t i = 0;

    for (; n - i >= GWI_ENTROPY_STATES && end - at >= 2 * GWI_ENTROPY_STATES;
         i += GWI_ENTROPY_STATES) {
        uint32_t first = take_symbol(&a, slots) | take_symbol(&b, slots) << 8 |
                         take_symbol(&c, slots) << 16 | take_symbol(&d, slots) << 24;
        at = refill(&d, refill(&c, refill(&b, refill(&a, at))));
        uint32_t second = take_symbol(&e, slots) | take_symbol(&f, slots) << 8 |
                          take_symbol(&g, slots) << 16 | take_symbol(&h, slots) << 24;
        at = refill(&h, refill(&g, refill(&f, refill(&e, at))));
        gwi_write_u32le(out + i, first);
        gwi_write_u32le(out + i + 4, second);
    }
    x[0] = a, x[1] = b, x[2] = c, x[3] = d;
    x[4] = e, x[5] = f, x[6] = g, x[7] = h;
    *in = at;
    return i;
}

/* Takes n symbols out of the states and the words; true if these end with the symbols.
 */
static bool take_symbols(uint32_t x[GWI_ENTROPY_STATES], const uint32_t slots[SCALE],
                         const uint8_t *in, const uint8_t *end, uint8_t *out, size_t n)
{
    uint32_t wrong = 0;

    for (size_t i = take_turns(x, slots, &in, end, out, n); i < n; i++) {
        uint32_t *y = &x[i % GWI_ENTROPY_STATES];
        out[i] = (uint8_t)take_symbol(y, slots);
        if (*y < GWI_ENTROPY_LOW) {
            if (end - in < 2)
                return false;
            in = refill(y, in);
        }
    }
    for (unsigned j = 0; j < GWI_ENTROPY_STATES; j++)
        wrong |= x[j] ^ GWI_ENTROPY_LOW;
    return in == end && wrong == 0;
}

/* Decodes n symbols, a byte each, from len bytes; false if they are not good. */
static bool decode_symbols(const uint8_t *in, size_t len, unsigned width, uint8_t *out,
                           size_t n)
{
    uint32_t slots[SCALE], x[GWI_ENTROPY_STATES];
    size_t at = get_shares(in, len, width, slots);

    if (at == 0 || len - at < STATES_LEN)
        return false;
    for (unsigned j = 0; j < GWI_ENTROPY_STATES; j++, at += 4) {
        x[j] = gwi_read_u32le(in + at);
        if (x[j] < GWI_ENTROPY_LOW || x[j] >= (uint32_t)GWI_ENTROPY_LOW << 16)
            return false;
    }
    return take_symbols(x, slots, in + at, in + len, out, n);
}

/* Eight symbols, a byte each, one after the other without padding. */
static inline uint64_t join(uint64_t x, unsigned width)
{
    uint64_t bytes = UINT64_C(0x00ff00ff00ff00ff), pairs = UINT64_C(0x0000ffff0000ffff);

    x = (x & bytes) | (x >> 8 & bytes) << width;
    x = (x & pairs) | (x >> 16 & pairs) << 2 * width;
    return (x & UINT32_MAX) | x >> 32 << 4 * width;
}

/* Packs symbols, of which there are zeros up to a multiple of 8, into len bytes; false
 * if some bits are past these. */
static bool pack(const uint8_t *symbols, unsigned width, uint8_t *out, size_t len)
{
    for (; len >= 8; len -= width, out += width, symbols += GROUP)
        gwi_write_u64le(out, join(gwi_read_u64le(symbols), width));
    while (len > 0) {
        uint64_t word = join(gwi_read_u64le(symbols), width);
        size_t bytes = len < width ? len : width;
        if (word >> 8 * bytes != 0)
            return false;
        word = GWI_LE64(word);
        memcpy(out, &word, bytes);
        out += bytes;
        len -= bytes;
        symbols += GROUP;
    }
    return true;
}

/* Decodes block b of len bytes to out. */
static bool expand_block(const gwi_entropy_cut *cut, size_t b, const uint8_t *in,
                         size_t len, uint8_t *out)
{
    uint8_t symbols[GWI_ENTROPY_BLOCK + GROUP];
    size_t bytes = gwi_entropy_bytes_in(cut, b), n = gwi_entropy_symbols_in(cut, b);

    if (len == bytes) {
        memcpy(out, in, len);
        return true;
    }
    if (cut->width == 8)
        return decode_symbols(in, len, cut->width, out, n);
    memset(symbols + n, 0, GROUP);
    return decode_symbols(in, len, cut->width, symbols, n) &&
           pack(symbols, cut->width, out, bytes);
}

/* The same, and looks at the bits after the last value. */
static bool decode_block(const gwi_entropy_cut *cut, size_t b, const uint8_t *in,
                         size_t len, uint8_t *out)
{
    if (!expand_block(cut, b, in, len, out))
        return false;
    return b + 1 < cut->blocks ||
           out[gwi_entropy_bytes_in(cut, b) - 1] >> (8 - cut->spare) == 0;
}

/* ---- all of them ----------------------------------------------------------------- */

/* Blocks whose places are looked up at once; threads take them one by one. */
enum { RUN = 64 };

typedef struct job {
    gwi_entropy_cut cut;
    uint8_t *out;
    size_t first; /* of the run */
    const uint8_t *block[RUN];
    size_t len[RUN];
    bool good[RUN];
} job;

static void decode_one(void *arg, size_t i)
{
    job *j = arg;
    size_t b = j->first + i;

    j->good[i] = decode_block(&j->cut, b, j->block[i], j->len[i],
                              j->out + b * j->cut.block_bytes);
}

static void check_one(void *arg, size_t i)
{
    uint8_t values[GWI_ENTROPY_BLOCK];
    job *j = arg;

    j->good[i] = decode_block(&j->cut, j->first + i, j->block[i], j->len[i], values);
}

/* Does it for all blocks, run by run. */
static gw_status walk(job *j, const uint8_t *bytes, void (*one)(void *, size_t))
{
    const uint8_t *at = bytes + GWI_ENTROPY_LENGTH_LEN * j->cut.blocks;

    for (; j->first < j->cut.blocks; j->first += RUN) {
        size_t left = j->cut.blocks - j->first, some = left < RUN ? left : RUN;
        for (size_t i = 0; i < some; i++) {
            j->block[i] = at;
            j->len[i] = gwi_read_u16le(bytes + GWI_ENTROPY_LENGTH_LEN * (j->first + i));
            at += j->len[i];
        }
        gwi_parallel(some, one, j);
        for (size_t i = 0; i < some; i++)
            if (!j->good[i])
                return gw_fail(GW_ERR_DATA, "block %zu of coded values is malformed",
                               j->first + i);
    }
    return GW_OK;
}

gw_status gwi_entropy_decode(const uint8_t *bytes, uint64_t k, unsigned bits,
                             uint8_t *out)
{
    job j = {.cut = gwi_entropy_cut_of(k, bits), .out = out};

    return walk(&j, bytes, decode_one);
}

gw_status gwi_entropy_check(const uint8_t *bytes, uint64_t k, unsigned bits)
{
    job j = {.cut = gwi_entropy_cut_of(k, bits)};

    return walk(&j, bytes, check_one);
}
