/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.c - CRC-32C in portable C, which defines it, and the choice.
 *
 * Eight bytes at a time: table[j][b] is what a byte b does to the check when j more
 * bytes follow it, so the eight of a word are looked up side by side. */
#include "kernels/crc32c.h"

#include "kernels/cpu.h"

#include <pthread.h>

/* The polynomial with its lowest power in the highest bit, as bytes are fed. */
#define POLYNOMIAL 0x82f63b78u

static uint32_t table[8][256];

static void fill_table(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][b] = c;
    }
    for (int j = 1; j < 8; j++)
        for (int b = 0; b < 256; b++)
            table[j][b] = table[j - 1][b] >> 8 ^ table[0][table[j - 1][b] & 0xff];
}

static uint32_t one_word(uint32_t c, const uint8_t *p)
{
    uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                        (uint32_t)p[3] << 24);

    return table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
           table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^ table[3][p[4]] ^
           table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
}

static uint32_t crc32c_c(uint32_t check, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const uint8_t *p = data;
    uint32_t c = ~check;

    pthread_once(&once, fill_table);
    for (; len >= 8; len -= 8, p += 8)
        c = one_word(c, p);
    for (; len > 0; len--)
        c = c >> 8 ^ table[0][(c ^ *p++) & 0xff];
    return ~c;
}

void gwi_crc_for(unsigned flags, gwi_crc_kernels *k)
{
    k->isa = "c";
    k->crc32c = crc32c_c;
#if defined(__x86_64__)
    if (flags & GWI_CPU_CRC)
        gwi_crc_sse42(k);
#endif
    (void)flags;
}

uint32_t gwi_crc32c(uint32_t check, const void *data, size_t len)
{
    return gwi_crc()->crc32c(check, data, len);
}
