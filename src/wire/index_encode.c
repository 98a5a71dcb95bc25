/* SPDX-License-Identifier: Apache-2.0
 *
 * index_encode.c - from ascending positions to as few bits as the blocks allow. */
#include "wire/index_coder.h"
#include "kernels/float_bits.h"
#include "wire/wire_bytes.h"

#include <assert.h>

enum {
    /* What a long gap takes beside its own bits. */
    LONG_GAP_BITS = GWI_INDEX_PLACE_BITS + GWI_INDEX_WIDTH_BITS,
    /* Long gaps are looked for in blocks with a unary part this long, a power of
     * two. Random positions hardly ever have one and do not pay for the search. */
    LONG_UNARY = 16
};

uint64_t gwi_index_bound(uint32_t n, uint32_t k)
{
    uint64_t skipped = n > k ? n - k : 0;
    uint64_t best = UINT64_MAX;

    if (k == 0)
        return 0;
    /* A block takes its best parameter, so the whole costs no more than with any
     * one parameter common to all; the gaps add up to n - k at most. */
    for (unsigned r = 0; r <= GWI_INDEX_RICE_MAX; r++) {
        uint64_t bits = (uint64_t)k * (r + 1) + (skipped >> r);
        best = bits < best ? bits : best;
    }
    uint64_t blocks = ((uint64_t)k + GWI_INDEX_BLOCK - 1) / GWI_INDEX_BLOCK;
    return (best + blocks * GWI_INDEX_HEAD_BITS + 7) / 8 + GWI_INDEX_SPARE_BYTES;
}

/* ---- bits ------------------------------------------------------------------ */

/* The bits not yet stored, the oldest lowest: fewer than 8 between calls. */
typedef struct bit_writer {
    uint8_t *out;
    uint64_t word;
    unsigned fill;
} bit_writer;

/* Appends the low `count` bits of x, at most 56; those above are 0. It stores a
 * whole word each time, and the next call overwrites what this one did not fill:
 * that is what the spare bytes are for. */
static inline void put_bits(bit_writer *w, uint64_t x, unsigned count)
{
    w->word |= x << w->fill;
    w->fill += count;
    gwi_write_u64le(w->out, w->word);
    w->out += w->fill / 8;
    w->word >>= w->fill & 56;
    w->fill &= 7;
}

/* Appends x zeros and a one. More than 51 zeros would have been a long gap: that
 * takes 7 + 12 bits and the 32 of the gap at most. */
static inline void put_unary(bit_writer *w, uint32_t x)
{
    assert(x <= 51);
    put_bits(w, (uint64_t)1 << x, x + 1);
}

/* ---- blocks ---------------------------------------------------------------- */

/* A block being encoded. Gaps past count are 0, which costs a sum nothing and
 * lets the compiler unroll. The gaps of a message add up to less than 2^32. */
typedef struct gap_block {
    uint32_t gap[GWI_INDEX_BLOCK];
    uint32_t count, total;
    uint32_t either; /* all gaps, or-ed: below a power of two if all of them are */
} gap_block;

static uint32_t unary_bits(const gap_block *b, unsigned r)
{
    uint32_t bits = 0;

    for (uint32_t i = 0; i < GWI_INDEX_BLOCK; i++)
        bits += b->gap[i] >> r;
    return bits;
}

/* The parameter that makes the block shortest, without long gaps. A step from r
 * to r + 1 costs count bits and saves half of the unary bits, rounded up gap by
 * gap; that saving shrinks as r grows, so the cost has one valley. At the r found
 * first there are at most count unary bits, so going up saves nothing; it remains
 * to walk down. Sets *bits to the unary bits. */
static unsigned best_rice(const gap_block *b, uint32_t *bits)
{
    unsigned r = 0;

    while (r < GWI_INDEX_RICE_MAX && b->total >> r > b->count)
        r++;
    *bits = unary_bits(b, r);
    while (r > 0) {
        uint32_t below = unary_bits(b, r - 1);
        if (below >= *bits + b->count)
            break;
        *bits = below;
        r--;
    }
    return r;
}

/* The bits of x, 1 at least, by way of the exponent of a float, which the compiler can
 * do for several at a time. Half of x fits a signed integer; without the bit after the
 * highest no rounding reaches the next power of two. */
static inline uint32_t width_of(uint32_t x)
{
    enum { EXPONENT_OF_HALF = 126 };
    float half = (float)(int32_t)(x >> 1 & ~(x >> 2));
    int32_t exponent = (int32_t)(gwi_float_bits(half) >> 23);

    exponent = exponent > EXPONENT_OF_HALF ? exponent : EXPONENT_OF_HALF;
    return (uint32_t)(exponent - EXPONENT_OF_HALF + 1);
}

/* What each gap would take in the list of long gaps. */
static void long_prices(const gap_block *b, uint32_t price[GWI_INDEX_BLOCK])
{
    for (uint32_t i = 0; i < GWI_INDEX_BLOCK; i++)
        price[i] = LONG_GAP_BITS + width_of(b->gap[i]);
}

/* The unary bits and the list, if every gap goes where it is cheaper. Half of a gap
 * fits a signed integer, of which the lesser is found sooner. */
static uint32_t mixed_bits(const gap_block *b, const uint32_t *price, unsigned r)
{
    uint32_t bits = GWI_INDEX_PLACE_BITS;

    for (uint32_t i = 0; i < GWI_INDEX_BLOCK && r > 0; i++) {
        int32_t unary = (int32_t)(b->gap[i] >> r), most = (int32_t)price[i];
        bits += (uint32_t)(unary < most ? unary : most);
    }
    for (uint32_t i = 0; i < GWI_INDEX_BLOCK && r == 0; i++)
        bits += b->gap[i] < price[i] ? b->gap[i] : price[i];
    return bits;
}

/* Chooses a parameter no larger than *r, with gaps taken out, if that is shorter
 * than *r without (`bits` unary bits). Returns whether it is. The cost may have
 * several valleys, so all are tried, down to where the mixed bits alone, which grow as
 * r falls, are no less than the least cost so far. */
static int best_mixed(const gap_block *b, const uint32_t *price, unsigned *r,
                      uint32_t bits)
{
    uint64_t least = bits + (uint64_t)*r * b->count;
    int found = 0;

    for (unsigned down = *r + 1; down-- > 0;) {
        uint64_t mixed = mixed_bits(b, price, down);
        uint64_t here = mixed + (uint64_t)down * b->count;
        if (mixed >= least)
            break;
        if (here < least) {
            least = here;
            *r = down;
            found = 1;
        }
    }
    return found;
}

/* Moves the gaps that are dear in unary from b to a list of places and gaps.
 * Returns their number. */
static uint32_t take_long(gap_block *b, const uint32_t *price, unsigned r,
                          uint8_t *place, uint32_t *gap)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < b->count; i++) {
        if (b->gap[i] >> r <= price[i])
            continue;
        place[count] = (uint8_t)i;
        gap[count++] = b->gap[i];
        b->gap[i] = 0;
    }
    return count;
}

/* Gaps that are put together before they are appended: appending waits for what was
 * appended before, putting together does not. */
enum { TOGETHER = 4, TOGETHER_BITS = 56 };

_Static_assert(GWI_INDEX_BLOCK % TOGETHER == 0, "a block is a number of fours");

/* Appends the low r bits of four gaps, 1 <= r. */
static inline void put_four_lows(bit_writer *w, const uint32_t *gap, unsigned r)
{
    uint64_t mask = ((uint64_t)1 << r) - 1;
    uint64_t front = (gap[0] & mask) | (gap[1] & mask) << r;
    uint64_t back = (gap[2] & mask) | (gap[3] & mask) << r;

    if (TOGETHER * r <= TOGETHER_BITS) {
        put_bits(w, front | back << 2 * r, TOGETHER * r);
        return;
    }
    for (int i = 0; i < TOGETHER; i++)
        put_bits(w, gap[i] & mask, r);
}

/* Appends what is left of four gaps in unary, each a number of zeros and a one. */
static inline void put_four_unary(bit_writer *w, const uint32_t *gap, unsigned r)
{
    uint32_t a = gap[0] >> r, b = gap[1] >> r, c = gap[2] >> r, d = gap[3] >> r;
    uint32_t front = a + b + 2, all = front + c + d + 2;

    if (all > TOGETHER_BITS) {
        for (int i = 0; i < TOGETHER; i++)
            put_unary(w, gap[i] >> r);
        return;
    }
    uint64_t first = (uint64_t)1 << a | (uint64_t)1 << (front - 1);
    uint64_t last = (uint64_t)1 << c | (uint64_t)1 << (c + d + 1);
    put_bits(w, first | last << front, all);
}

static void put_gaps(bit_writer *w, const gap_block *b, unsigned r, int mixed)
{
    uint32_t mask = ((uint32_t)1 << r) - 1, fours = b->count & ~(TOGETHER - 1u);
    /* A copy, which the stored bytes cannot alias: it stays in registers. */
    bit_writer to = *w;

    put_bits(&to, r | (unsigned)mixed << GWI_INDEX_RICE_BITS, GWI_INDEX_HEAD_BITS);
    for (uint32_t i = 0; i < fours && r > 0; i += TOGETHER)
        put_four_lows(&to, b->gap + i, r);
    for (uint32_t i = fours; i < b->count && r > 0; i++)
        put_bits(&to, b->gap[i] & mask, r);
    for (uint32_t i = 0; i < fours; i += TOGETHER)
        put_four_unary(&to, b->gap + i, r);
    for (uint32_t i = fours; i < b->count; i++)
        put_unary(&to, b->gap[i] >> r);
    *w = to;
}

static void put_mixed(bit_writer *w, gap_block *b, const uint32_t *price, unsigned r)
{
    uint8_t place[GWI_INDEX_BLOCK];
    uint32_t gap[GWI_INDEX_BLOCK];
    uint32_t count = take_long(b, price, r, place, gap);

    put_gaps(w, b, r, 1);
    put_bits(w, count - 1, GWI_INDEX_PLACE_BITS);
    for (uint32_t i = 0; i < count; i++) {
        unsigned width = 32 - (unsigned)__builtin_clz(gap[i]);

        put_bits(w, place[i], GWI_INDEX_PLACE_BITS);
        put_bits(w, width - 1, GWI_INDEX_WIDTH_BITS);
        put_bits(w, gap[i], width);
    }
}

static void put_block(bit_writer *w, gap_block *b)
{
    uint32_t price[GWI_INDEX_BLOCK], bits;
    unsigned r = best_rice(b, &bits);

    if (b->either >> r >= LONG_UNARY) {
        long_prices(b, price);
        if (best_mixed(b, price, &r, bits)) {
            put_mixed(w, b, price, r);
            return;
        }
    }
    put_gaps(w, b, r, 0);
}

/* How many of count positions ascend from next on. */
static uint32_t count_ascending(const uint32_t *positions, uint32_t count,
                                uint64_t next)
{
    uint32_t i = 0;

    for (; i < count && positions[i] >= next; i++)
        next = (uint64_t)positions[i] + 1;
    return i;
}

/* Sets gap[i] to what lies between position i and the one before it, for begin <= i <
 * end, and adds to what all gaps are, or-ed. Returns 0 if all positions ascend. */
static inline __attribute__((always_inline)) uint32_t
gaps_between(const uint32_t *restrict positions, uint32_t begin, uint32_t end,
             uint32_t *restrict gap, uint32_t *either)
{
    uint32_t wrong = 0, all = 0;

    for (uint32_t i = begin; i < end; i++) {
        uint32_t here = positions[i] - positions[i - 1] - 1;
        gap[i] = here;
        wrong |= positions[i] <= positions[i - 1];
        all |= here;
    }
    *either |= all;
    return wrong;
}

/* Fills b from count positions, at least 1, none of which may be below next. Returns
 * how many are in order: count if all is well. */
static uint32_t take_gaps(gap_block *b, const uint32_t *positions, uint32_t count,
                          uint64_t next)
{
    enum { MOST = GWI_INDEX_BLOCK - 3 }; /* a known number of fours after the first */
    uint32_t wrong = positions[0] < next, from = 1;

    b->either = b->gap[0] = (uint32_t)(positions[0] - next);
    if (count == GWI_INDEX_BLOCK) {
        wrong |= gaps_between(positions, 1, MOST, b->gap, &b->either);
        from = MOST;
    }
    wrong |= gaps_between(positions, from, count, b->gap, &b->either);
    if (wrong)
        return count_ascending(positions, count, next);
    for (uint32_t i = count; i < GWI_INDEX_BLOCK; i++)
        b->gap[i] = 0;
    b->count = count;
    b->total = (uint32_t)((uint64_t)positions[count - 1] + 1 - next - count);
    return count;
}

static gw_status check_below(uint32_t position, uint32_t n)
{
    return position < n
               ? GW_OK
               : gw_fail(GW_ERR_ARG, "position %u is not below n=%u", position, n);
}

gw_status gwi_index_encode(const uint32_t *positions, uint32_t k, uint32_t n,
                           uint8_t *out, size_t *len)
{
    bit_writer w = {out, 0, 0};
    gap_block b = {{0}, 0, 0, 0};
    uint64_t next = 0;

    for (uint32_t done = 0; done < k; done += b.count) {
        uint32_t left = k - done;
        uint32_t count = left < GWI_INDEX_BLOCK ? left : GWI_INDEX_BLOCK;
        uint32_t good = take_gaps(&b, positions + done, count, next);

        if (good < count)
            return gw_fail(GW_ERR_ARG,
                           "position %u of entry %u is not above the one before it",
                           positions[done + good], done + good);
        GWI_TRY(check_below(positions[done + count - 1], n));
        put_block(&w, &b);
        next = (uint64_t)positions[done + count - 1] + 1;
    }
    if (w.fill > 0)
        *w.out++ = (uint8_t)w.word;
    *len = (size_t)(w.out - out);
    return GW_OK;
}
