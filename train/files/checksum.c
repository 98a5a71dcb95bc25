/* SPDX-License-Identifier: Apache-2.0
 *
 * checksum.c - the checksum of sections, and numbers as bytes.
 *
 * Four lanes take words of 8 bytes in turn. A lane's step is a bijection for each word,
 * so a change within one word is always detected; any other change goes undetected with
 * a chance of 2^-64. It protects against accidents, not against attacks. */
#include "files/sections.h"

#include <string.h>

/* Odd numbers without a pattern: the digits of pi in hexadecimal, from the 1st, 17th
 * and 33rd on, the lowest bit set. */
#define FACTOR UINT64_C(0x243f6a8885a308d3)
#define START  UINT64_C(0x13198a2e03707345)
#define LAST   UINT64_C(0xa4093822299f31d1)

void gwt_put_word(uint8_t *to, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(word >> 8 * i);
}

uint64_t gwt_get_word(const uint8_t *from)
{
    uint64_t word = 0;

    for (int i = 7; i >= 0; i--)
        word = word << 8 | from[i];
    return word;
}

uint64_t gwt_real_word(double x)
{
    uint64_t word;

    memcpy(&word, &x, sizeof word);
    return word;
}

double gwt_word_real(uint64_t word)
{
    double x;

    memcpy(&x, &word, sizeof x);
    return x;
}

static uint64_t step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * FACTOR;
    return lane ^ lane >> 32;
}

void gwt_check_begin(gwt_check *check)
{
    memset(check, 0, sizeof *check);
    for (uint64_t i = 0; i < GWT_CHECK_LANES; i++)
        check->lane[i] = START * (i + 1);
}

static void add_block(gwt_check *check, const uint8_t *block)
{
    for (size_t i = 0; i < GWT_CHECK_LANES; i++)
        check->lane[i] = step(check->lane[i], gwt_get_word(block + 8 * i));
}

void gwt_check_add(gwt_check *check, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    check->len += len;
    while (len > 0) {
        if (check->filled == 0 && len >= GWT_CHECK_BLOCK) {
            add_block(check, at);
            at += GWT_CHECK_BLOCK;
            len -= GWT_CHECK_BLOCK;
            continue;
        }
        size_t room = GWT_CHECK_BLOCK - check->filled, n = len < room ? len : room;
        memcpy(check->rest + check->filled, at, n);
        check->filled += n;
        at += n;
        len -= n;
        if (check->filled == GWT_CHECK_BLOCK) {
            add_block(check, check->rest);
            check->filled = 0;
        }
    }
}

uint64_t gwt_check_end(gwt_check *check)
{
    uint64_t h = LAST;

    memset(check->rest + check->filled, 0, GWT_CHECK_BLOCK - check->filled);
    add_block(check, check->rest);
    for (size_t i = 0; i < GWT_CHECK_LANES; i++)
        h = step(h, check->lane[i]);
    return step(h, check->len);
}
