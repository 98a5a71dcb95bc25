/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_end.h - the inside of libgradwire-mpi: one worker's end of the transport.
 *
 *     mpi_comm.c      making and closing it, the table
 *     mpi_messages.c  posting sends and receives, and seeing them come to an end
 *     mpi_wait.c      sleeping in between
 *     mpi_control.c   control messages: failures, signs of life
 */
#ifndef GWM_MPI_END_H
#define GWM_MPI_END_H

#include "gradwire_mpi.h"

#include <pthread.h>
#include <stdbool.h>

enum { GWM_TAG_DATA = 1, GWM_TAG_CONTROL = 2, GWM_REASON_CAP = 440 };

#define GWM_TRY(call)           \
    do {                        \
        gw_status st_ = (call); \
        if (st_ != GW_OK)       \
            return st_;         \
    } while (0)

/* One posted send or receive, kept in a gw_request.
 *
 * On the wire a message is cut into parts of e->part bytes and a last one that is
 * shorter and may be empty. So the receiver, which knows only how much room it has,
 * sees where the message ends; no part is longer than MPI's counts allow; and a message
 * that takes minutes shows progress. Nearly all messages have a single part. */
typedef struct gwm_op {
    struct gwm_op *next; /* behind it in its queue */
    unsigned char *buf;
    size_t len;    /* to send, or room to receive */
    size_t posted; /* bytes of parts that were handed to MPI */
    size_t moved;  /* bytes of parts that are over */
    int peer, flying /* parts that MPI has now */;
    bool sends, all_posted, over;
} gwm_op;

_Static_assert(sizeof(gwm_op) <= sizeof(gw_request), "an operation fits its place");

/* Operations with one peer in one direction that still have parts to post. Later
 * operations must wait, or their parts would mix. */
typedef struct gwm_queue {
    gwm_op *first, *last;
} gwm_queue;

/* The kinds of control messages. */
typedef enum gwm_kind {
    GWM_PING = 1,   /* asks for a sign of life */
    GWM_PONG = 2,   /* the answer */
    GWM_LEFT = 3,   /* the answer of a worker that has ended */
    GWM_FAILED = 4, /* the sender has failed */
    GWM_BUSY =
        5, /* the sender waits for a message on an emulated link until a given time */
} gwm_kind;

typedef struct gwm_control {
    int kind;
    double until;                /* of GWM_BUSY */
    char reason[GWM_REASON_CAP]; /* of GWM_FAILED */
} gwm_control;

typedef struct gwm_outgoing gwm_outgoing;

typedef struct gwm_end {
    MPI_Comm comm;
    int rank, workers;
    size_t part;
    double timeout;
    bool blocking, broken, closing;
    bool one_thread; /* MPI allows only the thread that made this end */
    pthread_t thread;
    char *hosts; /* workers * MPI_MAX_PROCESSOR_NAME */

    /* What MPI has: `flying` requests and the operation that each is a part of, in
     * the order of posting. The others take what MPI_Testsome() says. */
    int flying, cap;
    MPI_Request *requests;
    gwm_op **owners, **done;
    int *finished;
    MPI_Status *statuses;
    gwm_queue *queues; /* [2 * workers]: sends, then receives */

    gwm_outgoing *outgoing; /* control messages that have not left yet */
    bool *heard;            /* [workers]: has given a sign of life since asked */
    int failed_rank;        /* the worker that failed, or -1 */
    char failed_reason[GWM_REASON_CAP];
    int left_rank;       /* who answered that it has ended, or -1 */
    double looked_at;    /* when control messages were last polled for */
    double moved_at;     /* when something was posted or over */
    double asked_at;     /* when somebody was last asked for a sign of life */
    bool linked;         /* an emulated link lies over it */
    double others_until; /* they are busy with it, as they tell */
} gwm_end;

/* Seconds of a clock that only goes forward. */
double gwm_now(void);

/* What MPI says about an error, as a failure of `doing`. */
gw_status gwm_fail_mpi(const gwm_end *e, int code, const char *doing);

/* ---- mpi_messages.c ------------------------------------------------------------- */

gw_status gwm_send(void *ctx, int to, const void *buf, size_t len, gw_request *req);
gw_status gwm_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req);
gw_status gwm_test(void *ctx, gw_request *req, size_t *len);

/* Blocks until req is over; for ends that are `blocking`. */
gw_status gwm_finish(void *ctx, gw_request *req, size_t *len);

/* Lets MPI make progress and records the parts that are over. With wait, it blocks
 * until a part is over. *moved tells whether any part was over. */
gw_status gwm_sweep(gwm_end *e, bool wait, bool *moved);

/* Makes room for at least n requests. */
gw_status gwm_reserve(gwm_end *e, int n);

/* ---- mpi_wait.c ------------------------------------------------------------------ */

gw_status gwm_wait(void *ctx, double seconds);

/* Rests between two polls: at first it gives the core away, in later turns it sleeps
 * for growing times. */
void gwm_rest(int turn, double at_most);

/* ---- mpi_control.c --------------------------------------------------------------- */

/* Receives and answers control messages. It does not block. */
gw_status gwm_listen(gwm_end *e);

/* Asks one worker for a sign of life. */
void gwm_ask(gwm_end *e, int rank);

int gwm_suspect(void *ctx);
void gwm_abort(void *ctx, const char *reason);
void gwm_busy(void *ctx, double until);

/* Waits briefly for control messages to leave, and forgets them. */
void gwm_control_close(gwm_end *e);

#endif
