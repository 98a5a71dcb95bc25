/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c_sse42.c - CRC-32C by the instruction for it, three stretches at a time.
 *
 *     |      A, 1024 bytes      |      B, 1024 bytes      |  C, 1024 bytes   |
 *
 * The instruction takes 8 bytes per cycle but answers only after three, so three
 * independent checks run side by side. They are joined by what A and B become when
 * 2048 and 1024 more bytes follow: products with powers of x, added to the last
 * word of C before it is taken in.
 *
 * Built with the ordinary flags: the attribute on each function is what allows the
 * instructions. */
#include "kernels/crc32c.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define SSE42 __attribute__((target("sse4.2,pclmul")))

enum { STRETCH = 1024 };

/* x^(8 * 2 * STRETCH - 33) and x^(8 * STRETCH - 33) modulo the polynomial, the lowest
 * power in the highest bit. Of the 33, 32 are those by which the instruction shifts
 * whatever it takes in, and one comes from multiplying numbers that are reversed.
 * tests/kernels/test_kernels_crc32c.c works them out again. */
#define AFTER_TWO 0xa51b6135u
#define AFTER_ONE 0x170076fau

static inline uint64_t word_at(const uint8_t *p)
{
    uint64_t w;

    memcpy(&w, p, sizeof w);
    return w;
}

SSE42 static inline uint64_t product(uint64_t check, uint32_t power)
{
    __m128i p = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)check),
                                     _mm_cvtsi64_si128((long long)power), 0);

    return (uint64_t)_mm_cvtsi128_si64(p);
}

SSE42 static uint64_t three_stretches(uint64_t c, const uint8_t *p)
{
    uint64_t a = c, b = 0, d = 0;
    size_t i = 0;

    for (; i < STRETCH - 8; i += 8) {
        a = _mm_crc32_u64(a, word_at(p + i));
        b = _mm_crc32_u64(b, word_at(p + STRETCH + i));
        d = _mm_crc32_u64(d, word_at(p + 2 * STRETCH + i));
    }
    a = _mm_crc32_u64(a, word_at(p + i));
    b = _mm_crc32_u64(b, word_at(p + STRETCH + i));
    return _mm_crc32_u64(d, word_at(p + 2 * STRETCH + i) ^ product(a, AFTER_TWO) ^
                                product(b, AFTER_ONE));
}

SSE42 static uint32_t crc32c_sse42(uint32_t check, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t c = ~check;

    for (; len >= 3 * STRETCH; len -= 3 * STRETCH, p += 3 * STRETCH)
        c = three_stretches(c, p);
    for (; len >= 8; len -= 8, p += 8)
        c = _mm_crc32_u64(c, word_at(p));
    for (; len > 0; len--)
        c = _mm_crc32_u8((uint32_t)c, *p++);
    return ~(uint32_t)c;
}

void gwi_crc_sse42(gwi_crc_kernels *k)
{
    k->isa = "sse42";
    k->crc32c = crc32c_sse42;
}

#else
typedef int gwi_crc_sse42_is_for_x86;
#endif
