/* SPDX-License-Identifier: Apache-2.0
 *
 * ring.c - copying in and out of a shared ring. */
#include "transport/ring.h"

#include <string.h>

/* Copies to and from the ring wrap at most once. */
static void copy_in(gwi_copier *k, uint8_t *data, size_t cap, uint64_t position,
                    const uint8_t *from, size_t len)
{
    size_t at = (size_t)(position & (cap - 1));
    size_t first = len < cap - at ? len : cap - at;

    gwi_copy_over(k, data + at, from, first);
    gwi_copy_over(k, data, from + first, len - first);
}

static void copy_out(const uint8_t *data, size_t cap, uint64_t position, uint8_t *to,
                     size_t len)
{
    size_t at = (size_t)(position & (cap - 1));
    size_t first = len < cap - at ? len : cap - at;

    memcpy(to, data + at, first);
    memcpy(to + first, data, len - first);
}

/* A quarter of the ring at a time, so that the other side can work on one piece
 * while this one copies the next. */
static size_t piece(size_t cap, uint64_t room, uint64_t want)
{
    uint64_t most = room < want ? room : want;

    return (size_t)(most < cap / 4 ? most : cap / 4);
}

static uint64_t room_for_writer(gwi_ring *ring, size_t cap, uint64_t written)
{
    uint64_t room =
        cap - (written - atomic_load_explicit(&ring->read, memory_order_acquire));

    if (room < GWI_RING_PREFIX) {
        /* Ask to be rung, then look again: the reader may have just been here. */
        atomic_store(&ring->writer_waits, 1);
        room = cap - (written - atomic_load(&ring->read));
    }
    return room;
}

size_t gwi_ring_write(gwi_ring *ring, uint8_t *data, size_t cap, const void *buf,
                      gwi_ring_cursor *cursor, gwi_copier *k)
{
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    uint64_t room = room_for_writer(ring, cap, written);
    size_t moved = 0;

    if (cursor->done == 0) {
        if (room < GWI_RING_PREFIX)
            return 0;
        copy_in(k, data, cap, written, (const uint8_t *)&cursor->len, GWI_RING_PREFIX);
        moved = GWI_RING_PREFIX;
        cursor->done = GWI_RING_PREFIX;
        room -= GWI_RING_PREFIX;
    }
    uint64_t sent = cursor->done - GWI_RING_PREFIX;
    size_t len = piece(cap, room, cursor->len - sent);
    if (len > 0)
        copy_in(k, data, cap, written + moved, (const uint8_t *)buf + sent, len);
    cursor->done += len;
    moved += len;
    if (moved > 0)
        atomic_store_explicit(&ring->written, written + moved, memory_order_release);
    return moved;
}

size_t gwi_ring_read(gwi_ring *ring, const uint8_t *data, size_t cap, void *buf,
                     size_t limit, gwi_ring_cursor *cursor)
{
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    uint64_t ready = atomic_load_explicit(&ring->written, memory_order_acquire) - read;
    size_t moved = 0;

    if (cursor->done == 0) {
        if (ready < GWI_RING_PREFIX)
            return 0;
        copy_out(data, cap, read, (uint8_t *)&cursor->len, GWI_RING_PREFIX);
        moved = GWI_RING_PREFIX;
        cursor->done = GWI_RING_PREFIX;
        ready -= GWI_RING_PREFIX;
    }
    if (cursor->len <= limit) {
        uint64_t got = cursor->done - GWI_RING_PREFIX;
        size_t len = piece(cap, ready, cursor->len - got);
        if (len > 0)
            copy_out(data, cap, read + moved, (uint8_t *)buf + got, len);
        cursor->done += len;
        moved += len;
    }
    if (moved > 0)
        atomic_store(&ring->read, read + moved);
    return moved;
}
