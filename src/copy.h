/* SPDX-License-Identifier: Apache-2.0
 *
 * copy.h - copies into memory that is read on another core.
 *
 * An ordinary store first takes the cache line away from whoever has read it. Where two
 * cores share a cache, that is fast, and the reader finds the line in it. Where they do
 * not, lines change hands one after the other: at 2 GB/s on two cores of an EPYC
 * (Zen 4) in different complexes, against 9 in the same one. Stores past the caches
 * make 30 in both; the line is then read from memory, at 15 GB/s instead of 42 out of
 * a common cache. Which cores they are is up to the system, and it changes; so a copier
 * measures both ways now and then. */
#ifndef GWI_COPY_H
#define GWI_COPY_H

#include <stddef.h>

typedef struct gwi_copier {
    double cost[2]; /* seconds per byte: through the caches, past them */
    unsigned copies;
} gwi_copier;

/* memcpy() for a reader on another core, whom a release store or a message then tells
 * of it. A copier is one thread's at a time; it begins as zeros. */
void gwi_copy_over(gwi_copier *k, void *to, const void *from, size_t len);

#endif
