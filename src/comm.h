/* SPDX-License-Identifier: Apache-2.0
 *
 * comm.h - the inside of a gw_comm: it posts operations on its transport, waits for
 * them with a time limit, and counts the traffic. Collectives use only this file. */
#ifndef GWI_COMM_H
#define GWI_COMM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base.h"
#include "copy.h"
#include "lease.h"

/* One posted send or receive. Its memory is the caller's and must stay in place
 * until the operation is done. */
typedef struct gwi_op {
    gw_request request;
    struct gwi_op *next; /* in gw_comm.active, oldest first */
    int peer;
    bool sends;
    bool pending;
    size_t len; /* bytes sent, or received once done */
} gwi_op;

/* Operations live here and not on a collective's stack: after a failure some stay
 * posted, and a transport may look at them until it is closed. A collective has at
 * most this many under way: a broadcast two for each bit of a rank, an all-to-all four
 * for each of 64 turns. */
enum { GWI_MIN_OPS = 34, GWI_MAX_OPS = 256 };

/* Memory that all workers of a comm see, an area for each: that of worker r begins at
 * base + r * bytes, on a cache line of its own. Messages order what is written there:
 * who has received one sees all that was written before it was sent. */
typedef struct gwi_gate gwi_gate;
typedef struct gwi_shared {
    uint8_t *base;
    size_t bytes;    /* 0: there is none */
    gwi_gate *gates; /* of each worker; NULL: not all are threads of one process */
} gwi_shared;

/* What threads say while they work in each other's vectors (direct_allreduce.c). */
struct gwi_gate {
    _Alignas(64) atomic_bool inside; /* this worker works in others' vectors */
    atomic_bool left;                /* nobody may work in this worker's any more */
    uint64_t sums;                   /* so far, the one under way included */
    _Atomic uint64_t note;           /* what it has found in them */
    _Atomic uint64_t noted_in;       /* that sum */
};

struct gw_comm {
    gw_transport table;
    void *ctx;
    gwi_lease *lease; /* whose turn it is */
    int rank, workers;
    double timeout;
    struct gw_limit *limit; /* NULL: it is not learned */
    uint64_t step;          /* of the sync that uses it; for messages only */
    gw_status broken;       /* GW_OK until the first failure */
    char reason[512];       /* of that failure */
    atomic_bool interrupted;
    gw_traffic traffic;
    bool in_memory; /* messages never leave the memory of this machine */
    gwi_shared shared;
    gwi_copier *copiers; /* [P], into it: by who reads; the own one is for all */
    size_t head_len;     /* bytes the transport puts before each message, counted too */
    gwi_op *active;
    gwi_op **active_end;
    gwi_op *ops; /* for collectives: 4 * workers of them, between the bounds above */
    void *scratch;
    size_t scratch_cap;

    gw_trace *trace; /* NULL: nobody is told */
    void *trace_arg;
    bool tracing;         /* inside a call of a sync */
    gw_activity activity; /* what it does while it does not wait */
    double since;         /* when that, or the last wait, began or ended */
};

/* Returns when it is this thread's turn to use the comm. */
static inline void gwi_comm_await(const gw_comm *c)
{
    gwi_lease_await(c->lease);
}

/* Whether a thread of a sync may use the comm beside its caller. A transport that waits
 * for one operation alone, as simulators do, moves time on for its caller's thread. */
static inline bool gwi_comm_lends(const gw_comm *c)
{
    return c->table.finish == NULL && !c->table.one_thread;
}

/* Posts. An op that is still pending must not be posted again. */
gw_status gwi_send(gw_comm *c, gwi_op *op, int to, const void *buf, size_t len);
gw_status gwi_recv(gw_comm *c, gwi_op *op, int from, void *buf, size_t cap);

/* Wait for one, or for n; an op that is not pending is done. */
gw_status gwi_wait(gw_comm *c, gwi_op *op);
gw_status gwi_wait_all(gw_comm *c, gwi_op *ops, size_t n);

/* Waits for a receive whose length both sides know. */
gw_status gwi_wait_exactly(gw_comm *c, gwi_op *op, size_t len);

/* Sends and receives at the same time, and waits for both. */
gw_status gwi_swap(gw_comm *c, int to, const void *out, size_t out_len, int from,
                   void *in, size_t in_len);

/* At least len bytes of scratch memory, kept from call to call, contents
 * undefined. NULL (after gw_fail) if there is no memory. */
void *gwi_comm_scratch(gw_comm *c, size_t len);

/* Tells comm and transport which step it is. */
void gwi_comm_set_step(gw_comm *c, uint64_t step);

/* GW_OK, or the failure that broke the comm. */
gw_status gwi_comm_usable(const gw_comm *c);

/* A call of a sync begins with an activity, goes over to another, and ends; for
 * whoever traces it. now is the time from which statistics are made, so that both
 * say the same. */
void gwi_trace_begin(gw_comm *c, gw_activity activity, double now);
void gwi_trace_next(gw_comm *c, gw_activity activity, double now);
void gwi_trace_end(gw_comm *c, double now);

/* Marks the comm as failed, tells the others, and returns status with the step
 * added to the thread's message. The first failure stays. */
gw_status gwi_comm_break(gw_comm *c, gw_status status);

#endif
