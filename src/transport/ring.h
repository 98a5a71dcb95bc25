/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.h - a one-way stream of messages in shared memory, one writer, one reader.
 *
 *     written: bytes ever put in   read: bytes ever taken out
 *     data[position mod cap], cap a power of two
 *     stream: length (8 bytes), payload, length, payload, ...
 *
 * A message may be larger than the ring: both sides move what fits and come back. */
#ifndef GWI_RING_H
#define GWI_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copy.h"

typedef struct gwi_ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Atomic uint32_t writer_waits; /* the reader rings when it has made room */
} gwi_ring;

/* How far one message has come, on either side. */
typedef struct gwi_ring_cursor {
    uint64_t len;  /* of the payload; the reader learns it from the stream */
    uint64_t done; /* bytes moved, the 8 of the length included */
} gwi_ring_cursor;

enum { GWI_RING_PREFIX = 8 };

/* Moves what fits of the message at buf. Returns the bytes moved; the message is
 * over when cursor->done == cursor->len + GWI_RING_PREFIX. */
size_t gwi_ring_write(gwi_ring *ring, uint8_t *data, size_t cap, const void *buf,
                      gwi_ring_cursor *cursor, gwi_copier *k);

/* The same for reading into buf; reads no payload while the message is longer than
 * limit, so that the caller can refuse it. */
size_t gwi_ring_read(gwi_ring *ring, const uint8_t *data, size_t cap, void *buf,
                     size_t limit, gwi_ring_cursor *cursor);

static inline bool gwi_ring_finished(const gwi_ring_cursor *cursor)
{
    return cursor->done >= GWI_RING_PREFIX &&
           cursor->done - GWI_RING_PREFIX == cursor->len;
}

#endif
