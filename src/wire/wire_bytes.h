/* SPDX-License-Identifier: Apache-2.0
 *
 * wire_bytes.h - numbers as the little-endian bytes of a message. Nothing here
 * needs alignment; on little-endian machines each is one move. */
#ifndef GWI_WIRE_BYTES_H
#define GWI_WIRE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define GWI_LE16(x) __builtin_bswap16(x)
#define GWI_LE32(x) __builtin_bswap32(x)
#define GWI_LE64(x) __builtin_bswap64(x)
#else
#define GWI_LE16(x) (x)
#define GWI_LE32(x) (x)
#define GWI_LE64(x) (x)
#endif

static inline uint16_t gwi_read_u16le(const uint8_t *p)
{
    uint16_t x;

    memcpy(&x, p, sizeof x);
    return GWI_LE16(x);
}

static inline uint32_t gwi_read_u32le(const uint8_t *p)
{
    uint32_t x;

    memcpy(&x, p, sizeof x);
    return GWI_LE32(x);
}

static inline uint64_t gwi_read_u64le(const uint8_t *p)
{
    uint64_t x;

    memcpy(&x, p, sizeof x);
    return GWI_LE64(x);
}

static inline float gwi_read_f32le(const uint8_t *p)
{
    uint32_t bits = gwi_read_u32le(p);
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline void gwi_write_u16le(uint8_t *p, uint16_t x)
{
    x = GWI_LE16(x);
    memcpy(p, &x, sizeof x);
}

static inline void gwi_write_u32le(uint8_t *p, uint32_t x)
{
    x = GWI_LE32(x);
    memcpy(p, &x, sizeof x);
}

static inline void gwi_write_u64le(uint8_t *p, uint64_t x)
{
    x = GWI_LE64(x);
    memcpy(p, &x, sizeof x);
}

static inline void gwi_write_f32le(uint8_t *p, float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    gwi_write_u32le(p, bits);
}

#endif
