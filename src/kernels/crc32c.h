/* SPDX-License-Identifier: Apache-2.0
 *
 * crc32c.h - CRC-32C (Castagnoli, RFC 3720), the check of every message.
 *
 * It finds every error of up to 32 bits in a row, whatever the length, and misses
 * one in four thousand million of all others. The numbers are the same on every
 * machine: "123456789" gives 0xe3069283. */
#ifndef GWI_CRC32C_H
#define GWI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

typedef struct gwi_crc_kernels {
    const char *isa; /* "c" or "sse42" */

    /* The check of len bytes, going on from the check of what came before them, 0 at
     * the beginning. */
    uint32_t (*crc32c)(uint32_t check, const void *data, size_t len);
} gwi_crc_kernels;

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_crc_for(unsigned flags, gwi_crc_kernels *k);
const gwi_crc_kernels *gwi_crc(void);
void gwi_crc_sse42(gwi_crc_kernels *k);

/* The same, of any number of bytes. */
uint32_t gwi_crc32c(uint32_t check, const void *data, size_t len);

#endif
