/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h - FNV-1a, for telling settings and states apart by accident and not by intent.
 */
#ifndef GWI_HASH_H
#define GWI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define GWI_HASH_START UINT64_C(14695981039346656037)

/* h, with len more bytes in it; GWI_HASH_START before the first. */
static inline uint64_t gwi_hash(uint64_t h, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * UINT64_C(1099511628211);
    return h;
}

#endif
