/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_end.h - the inside of libgradwire-mpi: one worker's end of the transport.
 *
 *     mpi_comm.c      making and closing it, the table
 *     mpi_messages.c  posting sends and receives, and seeing them come to an end
 *     mpi_wait.c      sleeping in between
 *     mpi_control.c   what ends tell each other besides: failures, signs of life
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
 * shorter, perhaps empty: so the receiver, who only knows how much room there is,
 * sees where it ends, nothing is longer than MPI's counts allow, and a message that
 * takes minutes shows that it moves. Nearly all are a single part. */
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

/* Operations with one peer in one direction of which parts are still to be posted:
 * later ones must wait, or parts would mix. */
typedef struct gwm_queue {
    gwm_op *first, *last;
} gwm_queue;

/* What an end tells another. */
typedef enum gwm_kind {
    GWM_PING = 1,     /* asks for a sign of life */
    GWM_PONG = 2,     /* the answer */
    GWM_LEFT = 3,     /* the answer of one that has come to its end */
    GWM_FAREWELL = 4, /* has failed */
    GWM_BUSY = 5,     /* waits for a message on an emulated link, and until when */
} gwm_kind;

typedef struct gwm_word {
    int kind;
    double until;                /* of one that is busy */
    char reason[GWM_REASON_CAP]; /* of a farewell */
} gwm_word;

typedef struct gwm_letter gwm_letter;

typedef struct gwm_end {
    MPI_Comm comm;
    int rank, workers;
    size_t part;
    double timeout;
    bool blocking, broken, closing;
    bool one_thread; /* MPI allows but the thread that made this */
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

    gwm_letter *letters; /* on their way */
    bool *heard;         /* [workers]: has given a sign of life since asked */
    int failed_rank;     /* who said farewell, or -1 */
    char failed_reason[GWM_REASON_CAP];
    int left_rank;       /* who answered that it has ended, or -1 */
    double looked_at;    /* when words were last looked for */
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

/* Lets MPI work, with wait until a part is over, and takes note of those that are;
 * *moved says whether there were any. */
gw_status gwm_sweep(gwm_end *e, bool wait, bool *moved);

/* Room for at least n requests. */
gw_status gwm_reserve(gwm_end *e, int n);

/* ---- mpi_wait.c ------------------------------------------------------------------ */

gw_status gwm_wait(void *ctx, double seconds);

/* What is done between two looks, the turn-th time: giving the core away, later naps
 * that grow. */
void gwm_rest(int turn, double at_most);

/* ---- mpi_control.c --------------------------------------------------------------- */

/* Looks for words of others and answers; does not block. */
gw_status gwm_listen(gwm_end *e);

/* Asks one worker for a sign of life. */
void gwm_ask(gwm_end *e, int rank);

int gwm_suspect(void *ctx);
void gwm_abort(void *ctx, const char *reason);
void gwm_busy(void *ctx, double until);

/* Gives letters a moment to leave, and forgets them. */
void gwm_letters_close(gwm_end *e);

#endif
