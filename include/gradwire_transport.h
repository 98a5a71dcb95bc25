/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_transport.h - the table of functions that a transport of one's own fills in.
 * gradwire.h includes this file.
 *
 * A transport moves messages between the workers of one job: it posts sends and
 * receives and reports when they are done. gradwire builds everything else on top.
 * Messages from one worker to another arrive in the order in which they were sent: the
 * n-th message matches the n-th receive posted for that worker. There are no tags. */
#ifndef GRADWIRE_TRANSPORT_H
#define GRADWIRE_TRANSPORT_H

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for one posted operation. gradwire owns the memory, and the transport may store
 * there whatever it needs. gradwire zeroes it before each send or recv, and neither
 * moves nor reuses it until test() has returned GW_OK or a failure. */
typedef struct gw_request {
    void *pointer[4];
    uint64_t word[4];
} gw_request;

/* The functions of a caller's own engine (MPI, a process group, sockets). gradwire
 * calls them from one thread at a time, with the ctx given to gw_comm_new(). They must
 * not block unless their comment allows it; close() may block briefly. A negative
 * status, which they describe with gw_fail(), breaks the comm for good. */
struct gw_transport {
    size_t struct_size; /* sizeof(gw_transport); later versions add functions at the end
                         * and accept tables without them */
    const char *name;   /* for reports; must outlive the comm */

    /* Begins to send len bytes to rank `to`. buf stays valid and unchanged until test()
     * reports that the operation is over. A message may be empty (len 0), and it
     * arrives like any other. Returns GW_OK once the send is posted. */
    gw_status (*send)(void *ctx, int to, const void *buf, size_t len, gw_request *req);

    /* Begins to receive the next message from rank `from` into buf, which has room for
     * cap bytes. test() fails with GW_ERR_DATA if the message is longer. Returns GW_OK
     * once the receive is posted. */
    gw_status (*recv)(void *ctx, int from, void *buf, size_t cap, gw_request *req);

    /* Makes progress on req. Returns GW_OK when the operation is over, GW_PENDING
     * before that, or a failure. When a receive is over, *len is the length of the
     * message; a send leaves *len alone. Before gradwire sleeps, it tests everything it
     * has posted, in the order of posting. It does not test req again after GW_OK or a
     * failure. */
    gw_status (*test)(void *ctx, gw_request *req, size_t *len);

    /* Sleeps until a posted operation may have changed, but for at most `seconds`. It
     * may return early. Returns GW_OK if posted operations made progress, otherwise
     * GW_PENDING. Only time that ends with GW_PENDING counts towards the time limit.
     * Optional: if NULL, gradwire sleeps for short, growing times between tests. */
    gw_status (*wait)(void *ctx, double seconds);

    /* Returns the rank of a worker that is known to be gone, or -1. gradwire asks at
     * most every 50 ms, while it waits. Optional. */
    int (*lost)(void *ctx);

    /* Returns the rank of the worker that most likely keeps everybody waiting, or -1 if
     * the transport cannot tell. gradwire asks once, when the time limit has passed.
     * Optional: if NULL, gradwire names the peer of the oldest pending operation. */
    int (*suspect)(void *ctx);

    /* Returns the host that rank runs on, for error messages, or NULL if it is not
     * known. Optional. */
    const char *(*host)(void *ctx, int rank);

    /* Called when a step begins, so that the transport can report how far a worker got.
     * Optional. */
    void (*step)(void *ctx, uint64_t step);

    /* Called once if this worker fails, with the reason. The transport passes it on, so
     * that the other workers need not wait for the time limit. Optional. */
    void (*abort)(void *ctx, const char *reason);

    /* Called by gw_comm_free(). Operations may still be posted. The transport must not
     * touch their buffers after close() has returned. Optional. */
    void (*close)(void *ctx);

    /* Replaces x (n floats) with its sum over the workers, using the engine's own
     * all-reduce. Every worker calls it with the same n while nothing is posted. It may
     * block. Optional: if NULL, gradwire sums with messages, which gives the same bits
     * on every transport. An engine may sum in any order, so its bits may differ. */
    gw_status (*allreduce)(void *ctx, float *x, size_t n);

    /* Blocks until req is over, however long that takes. It returns what test()
     * returns, but never GW_PENDING, and need not make progress on other operations.
     * Optional: if it is given, gradwire waits only with finish(), and there is no time
     * limit. It is for engines that cannot fall silent and where polling many
     * operations is expensive. */
    gw_status (*finish)(void *ctx, gw_request *req, size_t *len);

    /* Tells the other workers that this one is busy with messages on an emulated link
     * (gw_comm_link()) until the time `until`, in seconds of the monotonic clock of the
     * machine they share. Until then their wait() returns GW_OK, so that the time does
     * not count towards the time limit. gradwire calls it with 0 when a link is set; a
     * worker without a link ignores what the others tell. Optional: if NULL, a worker
     * that waits for a slow message may look dead to those that wait for it. */
    void (*busy)(void *ctx, double until);

    /* 1: only the thread that calls gradwire may use the transport. Exchanges that
     * would run beside their caller (delay=1) then run inside the call that begins
     * them. */
    int one_thread;

    /* If tell is not 0, tells the other workers that this one pauses. Returns how many
     * other workers have said so and have sent no message since. Optional: if NULL, the
     * time limit is never learned. */
    int (*pause)(void *ctx, int tell);
};

#ifdef __cplusplus
}
#endif

#endif
