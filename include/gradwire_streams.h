/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_streams.h - a gw_comm over connections whose bytes the caller moves, for
 * instance because it encrypts them. Use gw_comm_sockets() for plain sockets. */
#ifndef GRADWIRE_STREAMS_H
#define GRADWIRE_STREAMS_H

#include <sys/uio.h>

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One connection to another worker. gradwire calls its functions from one thread at a
 * time. None of them may block. */
typedef struct gw_stream {
    int fd;    /* a connected stream socket; gradwire polls it, asks TCP about it, shuts
                * it down and closes it, but does not read from or write to it while the
                * connection is in use */
    void *ctx; /* given to the functions */

    /* Reads up to len bytes. Returns how many, 0 if none are there yet, or -1 if none
     * will come any more. */
    long (*read)(void *ctx, void *buf, size_t len);

    /* Takes bytes of the parts, in order, to send them. Returns how many, 0 if none can
     * be taken yet, or -1 if the connection is broken. Bytes that were taken are the
     * stream's own: the caller may change them. A call with count 0 sends on what was
     * taken earlier. */
    long (*write)(void *ctx, const struct iovec *parts, int count);

    /* Return how many bytes were taken from the socket and not read yet, and how many
     * were taken by write() and not handed to the socket yet. */
    size_t (*unread)(void *ctx);
    size_t (*unsent)(void *ctx);

    /* Releases ctx. gradwire calls it before it closes fd. A forked child does not call
     * it. */
    void (*release)(void *ctx);
} gw_stream;

/* Makes a comm like gw_comm_sockets(), over streams[r] to worker r instead of a bare
 * socket; streams[rank] is ignored. The streams are copied. On success the comm owns
 * them and their sockets. On failure *out is NULL, and the caller still owns them.
 * Fails with GW_ERR_ARG or GW_ERR_NOMEM. */
GW_API gw_status gw_comm_streams(gw_comm **out, const gw_stream *streams,
                                 const char *const *hosts, int rank, int workers,
                                 const gw_comm_options *opt);

/* Most connections to one worker. */
enum { GW_MOST_STRIPES = 64 };

/* The same over several connections to each worker, for links that carry more in a
 * round trip than the window of one: streams[r] are the counts[r] connections to worker
 * r, 1 to GW_MOST_STRIPES, which both sides have in the same order. They carry the
 * bytes in turns. The end of one is the end of all. */
GW_API gw_status gw_comm_striped(gw_comm **out, const gw_stream *const *streams,
                                 const int *counts, const char *const *hosts, int rank,
                                 int workers, const gw_comm_options *opt);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_STREAMS_H */
