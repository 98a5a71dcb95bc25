/* SPDX-License-Identifier: Apache-2.0
 *
 * md5.c - the MD5 digest, after RFC 1321: blocks of 64 bytes, four rounds of 16
 * steps each, and at the end a block with the length. */
#include "files/md5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 64, STEPS = 64 };

/* The constants of the steps are the sines of 1, 2, ..., as whole numbers. */
static void fill_sines(uint32_t k[STEPS])
{
    for (int i = 0; i < STEPS; i++)
        k[i] = (uint32_t)(int64_t)floor(fabs(sin((double)(i + 1))) * 0x1p32);
}

static uint32_t word_at(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
           (uint32_t)at[3] << 24;
}

/* What step i mixes in: a function of three of the state's words, and the number of
 * the block's word. */
static uint32_t mixed(int i, const uint32_t s[4], int *word)
{
    switch (i / 16) {
    case 0:
        *word = i;
        return (s[1] & s[2]) | (~s[1] & s[3]);
    case 1:
        *word = (5 * i + 1) % 16;
        return (s[3] & s[1]) | (~s[3] & s[2]);
    case 2:
        *word = (3 * i + 5) % 16;
        return s[1] ^ s[2] ^ s[3];
    default:
        *word = 7 * i % 16;
        return s[2] ^ (s[1] | ~s[3]);
    }
}

static void add_block(uint32_t state[4], const uint32_t k[STEPS], const uint8_t *block)
{
    static const int turns[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    uint32_t s[4];
    int word;

    memcpy(s, state, sizeof s);
    for (int i = 0; i < STEPS; i++) {
        uint32_t sum = s[0] + mixed(i, s, &word) + k[i];
        int turn = turns[i / 16][i % 4];
        sum += word_at(block + 4 * word);
        s[0] = s[3];
        s[3] = s[2];
        s[2] = s[1];
        s[1] += sum << turn | sum >> (32 - turn);
    }
    for (int i = 0; i < 4; i++)
        state[i] += s[i];
}

void gwt_md5(const uint8_t *at, size_t len, char hex[GWT_MD5_CAP])
{
    uint32_t state[4] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}, k[STEPS];
    uint8_t last[2 * BLOCK] = {0};
    size_t whole = len / BLOCK * BLOCK, rest = len - whole;
    size_t tail = rest + 9 <= BLOCK ? BLOCK : 2 * BLOCK;

    fill_sines(k);
    for (size_t i = 0; i < whole; i += BLOCK)
        add_block(state, k, at + i);
    if (rest > 0)
        memcpy(last, at + whole, rest);
    last[rest] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[tail - 8 + i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    for (size_t i = 0; i < tail; i += BLOCK)
        add_block(state, k, last + i);
    for (size_t i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", (state[i / 4] >> 8 * (i % 4)) & 0xff);
}
