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

/* Goes on from the check of what came before, 0 at the beginning. */
typedef uint32_t gwi_crc32c_kernel(uint32_t check, const void *data, size_t len);

/* The best that flags (of cpu.h) allow. Pure. */
gwi_crc32c_kernel *gwi_crc32c_for(unsigned flags);

/* The check of len bytes, on this CPU. */
uint32_t gwi_crc32c(uint32_t check, const void *data, size_t len);

/* For gwi_crc32c_for(). */
gwi_crc32c_kernel gwi_crc32c_sse42;

#endif
