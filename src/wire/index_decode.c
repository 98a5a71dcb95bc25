/* SPDX-License-Identifier: Apache-2.0
 *
 * index_decode.c - from bytes that may be anything to ascending positions.
 *
 * Low bits have known places, and unary parts are the set bits of a plain word,
 * taken off one after another: neither loop waits for the other. */
#include "wire/index_coder.h"
#include "wire/wire_bytes.h"

void gwi_index_start(gwi_index_reader *reader, const uint8_t *bytes, size_t len,
                     uint32_t n, uint32_t k)
{
    *reader = (gwi_index_reader){bytes, len, 0, 0, n, k};
}

/* The 8 bytes at `at`, zeros where they lie past the end. */
static inline uint64_t word_at(const uint8_t *bytes, size_t len, size_t at)
{
    uint64_t word = 0;

    if (at + 8 <= len)
        return gwi_read_u64le(bytes + at);
    for (size_t i = at; i < len; i++)
        word |= (uint64_t)bytes[i] << 8 * (i - at);
    return word;
}

static gw_status fail_truncated(const gwi_index_reader *in)
{
    return gw_fail(GW_ERR_DATA, "positions end after %zu bytes with %u still missing",
                   in->len, in->left);
}

static gw_status fail_beyond(const gwi_index_reader *in)
{
    return gw_fail(GW_ERR_DATA, "a position among the last %u is not below n=%u",
                   in->left, in->n);
}

static uint64_t bits_left(const gwi_index_reader *in)
{
    return (uint64_t)in->len * 8 - in->bit;
}

/* Reads one number of at most 32 bits. */
static gw_status get_bits(gwi_index_reader *in, unsigned count, uint32_t *out)
{
    uint64_t mask = ((uint64_t)1 << count) - 1;

    if (bits_left(in) < count)
        return fail_truncated(in);
    *out = (uint32_t)(word_at(in->bytes, in->len, in->bit / 8) >> in->bit % 8 & mask);
    in->bit += count;
    return GW_OK;
}

/* Reads count numbers of r bits. The caller has checked that they are there. */
static void get_low_bits(gwi_index_reader *in, uint32_t *out, uint32_t count,
                         unsigned r)
{
    const uint8_t *bytes = in->bytes;
    uint64_t mask = ((uint64_t)1 << r) - 1;
    uint64_t bit = in->bit;
    size_t len = in->len;
    uint32_t i = 0;

    /* All but the last block or two are whole words away from the end. */
    if ((bit + (uint64_t)count * r) / 8 + 8 <= len)
        for (; i < count; i++, bit += r)
            out[i] = (uint32_t)(gwi_read_u64le(bytes + bit / 8) >> bit % 8 & mask);
    for (; i < count; i++, bit += r)
        out[i] = (uint32_t)(word_at(bytes, len, bit / 8) >> bit % 8 & mask);
    in->bit = bit;
}

/* Turns the count low parts in out into positions, reading the unary parts. The
 * i-th set bit from start on has i set bits before it, and as many zeros as the
 * gaps up to the i-th have multiples of 2^r. */
static gw_status get_high_bits(gwi_index_reader *in, uint32_t *out, uint32_t count,
                               unsigned r)
{
    uint64_t start = in->bit, base = start / 8 * 8;
    uint64_t word = word_at(in->bytes, in->len, base / 8) >> start % 8 << start % 8;
    uint64_t low = in->next, zeros = 0;

    for (uint32_t i = 0; i < count; i++) {
        while (__builtin_expect(word == 0, 0)) {
            base += 64;
            if (base / 8 >= in->len)
                return fail_truncated(in);
            /* Also what keeps `zeros << r` from overflowing. */
            if (base - start - i > in->n >> r)
                return fail_beyond(in);
            word = word_at(in->bytes, in->len, base / 8);
        }
        zeros = base + (unsigned)__builtin_ctzll(word) - start - i;
        word &= word - 1;
        low += out[i];
        out[i] = (uint32_t)(low + (zeros << r) + i);
    }
    in->bit = start + zeros + count;
    in->next = low + (zeros << r) + count;
    return in->next <= in->n ? GW_OK : fail_beyond(in);
}

/* Reads the list of long gaps and moves on all positions from each place. */
static gw_status get_long_gaps(gwi_index_reader *in, uint32_t *out, uint32_t count)
{
    uint32_t more, place, width, gap, next = 0;
    uint64_t shift = 0;

    GWI_TRY(get_bits(in, GWI_INDEX_PLACE_BITS, &more));
    for (uint32_t i = 0; i <= more; i++) {
        GWI_TRY(get_bits(in, GWI_INDEX_PLACE_BITS, &place));
        GWI_TRY(get_bits(in, GWI_INDEX_WIDTH_BITS, &width));
        GWI_TRY(get_bits(in, width + 1, &gap));
        if (place >= count || place < next)
            return gw_fail(GW_ERR_DATA, "long gap at place %u of %u, after place %d",
                           place, count, (int)next - 1);
        for (; next < place; next++)
            out[next] = (uint32_t)(out[next] + shift);
        shift += gap;
        out[next] = (uint32_t)(out[next] + shift);
        next++;
    }
    for (; next < count; next++)
        out[next] = (uint32_t)(out[next] + shift);
    in->next += shift;
    return in->next <= in->n ? GW_OK : fail_beyond(in);
}

static gw_status get_block(gwi_index_reader *in, uint32_t *out, uint32_t count)
{
    uint32_t head;

    GWI_TRY(get_bits(in, GWI_INDEX_HEAD_BITS, &head));
    unsigned r = head & GWI_INDEX_RICE_MAX;
    if (bits_left(in) < (uint64_t)count * r)
        return fail_truncated(in);
    get_low_bits(in, out, count, r);
    GWI_TRY(get_high_bits(in, out, count, r));
    return head > GWI_INDEX_RICE_MAX ? get_long_gaps(in, out, count) : GW_OK;
}

/* After the last block nothing follows but the zero bits of its last byte. */
static gw_status check_end(const gwi_index_reader *in)
{
    if ((in->bit + 7) / 8 != in->len)
        return gw_fail(GW_ERR_DATA, "positions have %zu bytes, but only %llu are used",
                       in->len, (unsigned long long)((in->bit + 7) / 8));
    if (in->bit % 8 != 0 && in->bytes[in->len - 1] >> in->bit % 8 != 0)
        return gw_fail(GW_ERR_DATA, "the bits after the last position are not 0");
    return GW_OK;
}

gw_status gwi_index_next(gwi_index_reader *reader, uint32_t *out, size_t *count)
{
    uint32_t take = reader->left < GWI_INDEX_BLOCK ? reader->left : GWI_INDEX_BLOCK;

    *count = take;
    if (take > 0)
        GWI_TRY(get_block(reader, out, take));
    reader->left -= take;
    return reader->left > 0 ? GW_OK : check_end(reader);
}
