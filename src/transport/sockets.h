/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets.h - the inside of the transport over stream sockets.
 *
 *     sockets.c         the table, waiting, making one
 *     sockets_frames.c  bytes of frames, in and out
 *     sockets_stripes.c the bytes of several connections to one worker, as one stream
 *     sockets_plain.c   the bytes of a connection that nobody encrypts
 *     sockets_life.c    signs of life, whom to blame, cut connections
 *     sockets_fork.c    what becomes of sockets in a forked child
 *
 *     frame:  8 bytes, little-endian: length (7 bytes), kind (the highest byte);
 *             then as many bytes as the length says
 *
 *     stripes, over n connections, each direction by itself:
 *             64 KiB on the first, 64 KiB on the second, ... then the first again */
#ifndef GWI_SOCKETS_H
#define GWI_SOCKETS_H

#include <poll.h>
#include <stdbool.h>

#include "base.h"
#include "gradwire_streams.h"

enum { GWI_HEAD_LEN = 8, GWI_BUSY_LEN = 8, GWI_REASON_LEN = 512, GWI_HOST_LEN = 64 };

typedef enum gwi_frame_kind {
    GWI_FRAME_MESSAGE = 0,
    GWI_FRAME_GOODBYE = 1, /* ends in order; only the end of the stream may follow */
    GWI_FRAME_ABORT = 2,   /* has failed; the reason, less than GWI_REASON_LEN bytes */
    GWI_FRAME_ALIVE = 3,   /* waits itself, and is not the one to blame */
    GWI_FRAME_BUSY = 4,    /* the same on an emulated link, and until when (f64) */
    GWI_FRAME_PAUSE = 5,   /* is alive, and sends nothing for longer than usual */
} gwi_frame_kind;

/* What is kept in a gw_request. */
typedef struct gwi_stream_op {
    struct gwi_stream_op *next; /* of the same peer and direction */
    uint8_t *buf;
    size_t len; /* of the message to send, or the room for one */
    size_t got; /* length of the message received */
    int peer;
    bool sends, over;
} gwi_stream_op;

_Static_assert(sizeof(gwi_stream_op) <= sizeof(gw_request), "an op fits a request");

typedef struct gwi_stream_queue {
    gwi_stream_op *first, **end;
} gwi_stream_queue;

/* One connection to a peer. */
typedef struct gwi_line {
    gw_stream io; /* moves the bytes */
    bool over;    /* its end was seen, and it is not read now */
} gwi_line;

/* All connections to a peer. */
typedef struct gwi_stripes {
    gwi_line *lines;          /* [count] */
    int count;                /* 0: none */
    int in, out;              /* whose turn it is to be read and written */
    size_t in_done, out_done; /* bytes of its stripe; 0 with one connection */
    double over_at;           /* when the end of one was seen; 0: of none */
} gwi_stripes;

typedef struct gwi_stream_peer {
    gwi_stripes io;
    gwi_stream_queue sends, recvs;
    uint8_t out_head[GWI_HEAD_LEN], in_head[GWI_HEAD_LEN], until[GWI_BUSY_LEN];
    size_t out_done, in_done; /* bytes of the current frame moved, head included */
    uint8_t sign[GWI_HEAD_LEN + GWI_BUSY_LEN];
    size_t sign_done, sign_len; /* a sign of life that is half sent; else both 0 */
    bool full;                  /* the last send could not go on */
    bool ended;                 /* nothing more will come */
    bool left;                  /* it said goodbye */
    bool told;                  /* it said why it failed */
    int unsent;                 /* bytes in the socket when it was last seen full */
    int unread;                 /* bytes behind a head that nobody asked for yet */
    double heard_at;            /* when anything last came from it */
    double fed_at;              /* when bytes of a message did */
    uint64_t signs;             /* of life that have come */
    bool pauses;                /* it says so, and has sent nothing since */
    bool untold;                /* that this worker pauses */
    char reason[GWI_REASON_LEN];
    char host[GWI_HOST_LEN];
} gwi_stream_peer;

/* One worker's end: found through gw_comm.ctx. */
typedef struct gwi_streams {
    int rank, workers;
    bool aborted;
    bool foreign;           /* this is a forked child, the sockets are its parent's */
    bool linked;            /* an emulated link lies over it */
    gw_comm *comm;          /* whose transport this is */
    double timeout;         /* seconds, as the comm has it */
    double born;            /* when it was made */
    double slept;           /* seconds since something was posted or a sign was given */
    double owed;            /* seconds of waiting that no bytes have made up for */
    size_t moved;           /* bytes of messages since that was last added up */
    double busy_until;      /* this worker, with messages on an emulated link */
    double others_until;    /* the others likewise, as they tell */
    gwi_stream_peer *peers; /* [workers] */
    struct pollfd *polls;   /* one for each connection, by rank */
    struct gwi_streams *next, **link; /* in the list of sockets_fork.c */
} gwi_streams;

/* ---- sockets_frames.c ----------------------------------------------------------- */

/* Take what has come from a peer, as far as it was asked for, or a bounded part of
 * it; and send what is posted for it. */
gw_status gwi_streams_receive(gwi_streams *s, int rank);
gw_status gwi_streams_send_on(gwi_streams *s, int rank);

/* Sends a sign of life to a peer, unless a message is half sent or there is no room:
 * pause if that is untold, busy to one that knows the link, else alive. */
void gwi_stream_sign(const gwi_streams *s, gwi_stream_peer *p);

/* Sends a last frame if no message is half sent. What the stream does not take is not
 * sent: nothing may block here. */
void gwi_stream_say_last(gwi_stream_peer *p, gwi_frame_kind kind, const char *text,
                         size_t len);

/* Sends on what the stream has taken and not handed to the socket. */
void gwi_stream_flush(gwi_stream_peer *p);

/* Whether a message has begun to come that nobody has asked for yet, and its length. */
bool gwi_stream_parked(const gwi_stream_peer *p, uint64_t *len);

/* ---- sockets_stripes.c ---------------------------------------------------------- */

/* As in gw_stream, for all connections to a peer. */
long gwi_stripes_read(gwi_stripes *l, void *buf, size_t len);
long gwi_stripes_write(gwi_stripes *l, const struct iovec *parts, int count);
void gwi_stripes_flush(gwi_stripes *l);

/* Bytes that the next read gets though poll() does not show them, and bytes that were
 * taken and not handed to sockets. */
size_t gwi_stripes_unread(const gwi_stripes *l);
size_t gwi_stripes_unsent(const gwi_stripes *l);

/* Bytes in the sockets of all connections, by SIOCINQ or SIOCOUTQ; -1: not known. */
int gwi_stripes_queued(const gwi_stripes *l, unsigned long request);

/* Fills polls[count] with what to wait for. Then takes note of ends that poll() has
 * seen, and returns whether any has seen anything. */
void gwi_stripes_ask(const gwi_stripes *l, struct pollfd *polls, bool reads, bool full);
bool gwi_stripes_seen(gwi_stripes *l, const struct pollfd *polls);

/* Whether a connection has ended long before the others: nothing has come since. */
bool gwi_stripes_torn(const gwi_stripes *l, double fed_at);

/* No other end of the stream will be seen before what was sent is read. */
void gwi_stripes_shut(gwi_stripes *l);
void gwi_stripes_drain(gwi_stripes *l);
void gwi_stripes_close(gwi_stripes *l);

/* ---- sockets_plain.c ------------------------------------------------------------ */

/* The stream whose bytes are those of the socket. */
gw_stream gwi_stream_plain(int fd);

/* ---- sockets_life.c ------------------------------------------------------------- */

/* Told after each sleep: gives signs of life now and then. A failure if this worker
 * is cut off from all others. */
gw_status gwi_streams_live(gwi_streams *s, double slept);

/* Whether bytes have moved fast enough since the last call to count as progress. */
bool gwi_streams_progress(gwi_streams *s, double slept);

/* How many bytes have not arrived yet at the host of a peer that reads them; 0 if they
 * cannot be lost on the way, or nobody will read them. */
int gwi_stream_unsent(const gwi_stream_peer *p);

/* gw_transport.suspect */
int gwi_streams_suspect(void *ctx);

/* ---- sockets_fork.c ------------------------------------------------------------- */

/* From the first to the second call, a child that is forked closes its copies of the
 * sockets without a word. GW_ERR_NOMEM. */
gw_status gwi_streams_guard(gwi_streams *s);
void gwi_streams_unguard(gwi_streams *s);

#endif
