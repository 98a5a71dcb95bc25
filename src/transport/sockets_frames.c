/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets_frames.c - sends and receives frames. Nothing received is trusted: a message
 * must fit into the room that was posted, nothing may follow a goodbye, and signs of
 * life must not come faster than a waiting worker sends them. */
#define _GNU_SOURCE
#include "transport/sockets.h"

#include <linux/sockios.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>

/* Frames that are taken from one peer before others get their turn. */
enum { FRAMES_PER_CALL = 64 };

/* Twice as many signs of life as a worker gives that waits all the time, and some
 * more: who sends faster wants to keep this one busy. They add up while this one
 * computes and does not read. */
#define SIGNS_PER_SECOND 100.0
#define SIGNS_AT_ONCE    64.0

/* ---- heads -------------------------------------------------------------- */

static void put_head(uint8_t head[GWI_HEAD_LEN], size_t len, gwi_frame_kind kind)
{
    for (int i = 0; i < GWI_HEAD_LEN - 1; i++)
        head[i] = (uint8_t)((uint64_t)len >> 8 * i);
    head[GWI_HEAD_LEN - 1] = (uint8_t)kind;
}

static uint64_t head_len(const uint8_t head[GWI_HEAD_LEN])
{
    uint64_t len = 0;

    for (int i = GWI_HEAD_LEN - 2; i >= 0; i--)
        len = len << 8 | head[i];
    return len;
}

static void finish_first(gwi_stream_queue *q)
{
    gwi_stream_op *op = q->first;

    q->first = op->next;
    if (q->first == NULL)
        q->end = &q->first;
    op->over = true;
}

static gw_status fail_gone(const gwi_streams *s, int rank)
{
    const gwi_stream_peer *p = &s->peers[rank];

    if (p->told && p->reason[0] != 0)
        return gw_fail(GW_ERR_PEER, "%s", p->reason);
    return gw_fail(GW_ERR_PEER, "worker %d on host %s %s", rank, p->host,
                   p->left ? "has ended" : "is gone");
}

static gw_status fail_malformed(gwi_stream_peer *p, int rank, const char *what)
{
    p->ended = true;
    return gw_fail(GW_ERR_DATA, "worker %d on host %s %s", rank, p->host, what);
}

/* ---- receiving ---------------------------------------------------------- */

/* Reads up to len bytes; 0 if none are there, or none will come (ended is set). */
static size_t take(gwi_stream_peer *p, void *to, size_t len)
{
    long n = gwi_stripes_read(&p->io, to, len);

    if (n > 0) {
        p->heard_at = gwi_now();
        return (size_t)n;
    }
    p->ended = p->ended || n < 0;
    return 0;
}

/* Reads on in a frame of len bytes that goes to `to`; true once it is complete. */
static bool take_body(gwi_stream_peer *p, void *to, size_t len)
{
    while (p->in_done < GWI_HEAD_LEN + len) {
        size_t at = p->in_done - GWI_HEAD_LEN;
        size_t n = take(p, (uint8_t *)to + at, len - at);
        if (n == 0)
            return false;
        p->in_done += n;
    }
    p->in_done = 0;
    return true;
}

static bool take_head(gwi_stream_peer *p)
{
    while (p->in_done < GWI_HEAD_LEN) {
        size_t n = take(p, p->in_head + p->in_done, GWI_HEAD_LEN - p->in_done);
        if (n == 0)
            return false;
        p->in_done += n;
    }
    return true;
}

static gw_status take_message(gwi_streams *s, int rank, bool *more)
{
    gwi_stream_peer *p = &s->peers[rank];
    uint64_t len = head_len(p->in_head);
    gwi_stream_op *op = p->recvs.first;
    size_t before = p->in_done;

    if (op == NULL)
        return GW_OK;
    if (len > op->len)
        return gw_fail(GW_ERR_DATA, "worker %d sent %llu bytes, expected at most %zu",
                       rank, (unsigned long long)len, op->len);
    *more = take_body(p, op->buf, (size_t)len);
    size_t came = (*more ? GWI_HEAD_LEN + (size_t)len : p->in_done) - before;
    s->moved += came;
    if (came > 0 || *more) {
        p->fed_at = p->heard_at;
        p->pauses = false;
    }
    if (*more) {
        op->got = (size_t)len;
        finish_first(&p->recvs);
    }
    return GW_OK;
}

static gw_status take_reason(gwi_stream_peer *p, size_t len)
{
    if (take_body(p, p->reason, len)) {
        p->reason[len] = 0;
        p->ended = p->told = true;
    }
    return GW_OK;
}

/* A sign of life is one by coming at all; a worker that is busy also says until when,
 * on the clock that all have in common. */
static gw_status take_sign(gwi_streams *s, int rank, size_t len, bool *more)
{
    gwi_stream_peer *p = &s->peers[rank];
    double until;

    if (!take_body(p, p->until, len))
        return GW_OK;
    *more = true;
    if (len > 0) {
        memcpy(&until, p->until, sizeof until);
        s->others_until =
            isfinite(until) && until > s->others_until ? until : s->others_until;
    }
    p->signs++;
    if ((double)p->signs > SIGNS_AT_ONCE + SIGNS_PER_SECOND * (p->heard_at - s->born))
        return fail_malformed(p, rank, "sent too many signs of life");
    return GW_OK;
}

/* After a goodbye there is nothing but the end. */
static gw_status take_end(gwi_stream_peer *p, int rank)
{
    uint8_t byte;

    return take(p, &byte, 1) == 0
               ? GW_OK
               : fail_malformed(p, rank, "sent more data after its goodbye");
}

/* One frame, or what there is of it; *more says whether to go on. */
static gw_status take_frame(gwi_streams *s, int rank, bool *more)
{
    gwi_stream_peer *p = &s->peers[rank];
    uint64_t len;

    *more = false;
    if (p->left)
        return take_end(p, rank);
    if (!take_head(p))
        return GW_OK;
    len = head_len(p->in_head);
    switch (p->in_head[GWI_HEAD_LEN - 1]) {
    case GWI_FRAME_MESSAGE:
        return take_message(s, rank, more);
    case GWI_FRAME_GOODBYE:
        *more = p->left = len == 0;
        break;
    case GWI_FRAME_ABORT:
        if (len < GWI_REASON_LEN)
            return take_reason(p, (size_t)len);
        break;
    case GWI_FRAME_ALIVE:
        if (len == 0)
            return take_sign(s, rank, 0, more);
        break;
    case GWI_FRAME_PAUSE:
        if (len == 0) {
            p->signs -= !p->pauses; /* one for each message is no flood */
            p->pauses = true;
            return take_sign(s, rank, 0, more);
        }
        break;
    case GWI_FRAME_BUSY:
        if (len == GWI_BUSY_LEN && s->linked)
            return take_sign(s, rank, GWI_BUSY_LEN, more);
        break;
    default:
        break;
    }
    return p->left ? GW_OK : fail_malformed(p, rank, "sent a malformed frame");
}

gw_status gwi_streams_receive(gwi_streams *s, int rank)
{
    gwi_stream_peer *p = &s->peers[rank];
    bool more = true;

    for (int i = 0; i < FRAMES_PER_CALL && more && !p->ended; i++)
        GWI_TRY(take_frame(s, rank, &more));
    if (p->told || ((p->ended || p->left) && p->recvs.first != NULL))
        return fail_gone(s, rank);
    return GW_OK;
}

bool gwi_stream_parked(const gwi_stream_peer *p, uint64_t *len)
{
    *len = head_len(p->in_head);
    return !p->left && p->in_done >= GWI_HEAD_LEN && p->recvs.first == NULL &&
           p->in_head[GWI_HEAD_LEN - 1] == GWI_FRAME_MESSAGE;
}

/* ---- sending ------------------------------------------------------------ */

/* Hands len bytes to the stream; returns how many it took. */
static size_t hand_over(gwi_stream_peer *p, void *bytes, size_t len)
{
    struct iovec part = {bytes, len};
    long n = gwi_stripes_write(&p->io, &part, 1);

    return n > 0 ? (size_t)n : 0;
}

void gwi_stream_flush(gwi_stream_peer *p)
{
    if (!p->ended)
        gwi_stripes_flush(&p->io);
}

/* Hands the rest of a sign of life and of the first message to the stream. */
static long push(gwi_stream_peer *p, const gwi_stream_op *op)
{
    size_t in_head = p->out_done < GWI_HEAD_LEN ? p->out_done : GWI_HEAD_LEN;
    size_t in_body = p->out_done - in_head;
    struct iovec parts[3] = {{p->sign + p->sign_done, p->sign_len - p->sign_done},
                             {p->out_head + in_head, GWI_HEAD_LEN - in_head},
                             {op->buf + in_body, op->len - in_body}};

    put_head(p->out_head, op->len, GWI_FRAME_MESSAGE);
    return gwi_stripes_write(&p->io, parts, 3);
}

/* Takes note of n bytes that went; true if they were the rest of the message. */
static bool pushed(gwi_streams *s, gwi_stream_peer *p, size_t n)
{
    size_t of_sign = p->sign_len - p->sign_done;

    of_sign = n < of_sign ? n : of_sign;
    p->sign_done += of_sign;
    if (p->sign_done == p->sign_len)
        p->sign_done = p->sign_len = 0;
    p->out_done += n - of_sign;
    s->moved += n - of_sign;
    if (p->out_done < GWI_HEAD_LEN + p->sends.first->len)
        return false;
    p->out_done = 0;
    p->untold = false;
    return true;
}

/* The socket takes nothing for now. One who has said goodbye will not read. */
static gw_status rest(const gwi_streams *s, int rank)
{
    gwi_stream_peer *p = &s->peers[rank];

    if (p->left)
        return fail_gone(s, rank);
    p->full = true;
    p->unsent = gwi_stripes_queued(&p->io, SIOCOUTQ);
    return GW_OK;
}

gw_status gwi_streams_send_on(gwi_streams *s, int rank)
{
    gwi_stream_peer *p = &s->peers[rank];

    p->full = false;
    while (p->sends.first != NULL) {
        long n = push(p, p->sends.first);
        if (n == 0)
            return rest(s, rank);
        if (n < 0) {
            /* Why it closed its end may be there to be read. */
            GWI_TRY(gwi_streams_receive(s, rank));
            p->ended = true;
            return fail_gone(s, rank);
        }
        if (pushed(s, p, (size_t)n))
            finish_first(&p->sends);
    }
    return GW_OK;
}

static void make_sign(const gwi_streams *s, gwi_stream_peer *p)
{
    bool busy = !p->untold && s->linked && s->busy_until > gwi_now();

    p->sign_done = 0;
    p->sign_len = busy ? GWI_HEAD_LEN + GWI_BUSY_LEN : GWI_HEAD_LEN;
    put_head(p->sign, p->sign_len - GWI_HEAD_LEN,
             busy        ? GWI_FRAME_BUSY
             : p->untold ? GWI_FRAME_PAUSE
                         : GWI_FRAME_ALIVE);
    memcpy(p->sign + GWI_HEAD_LEN, &s->busy_until, sizeof s->busy_until);
}

void gwi_stream_sign(const gwi_streams *s, gwi_stream_peer *p)
{
    if (p->io.count == 0 || p->ended || p->left || p->out_done > 0)
        return;
    bool pauses = p->sign_len == 0 && p->untold;
    if (p->sign_len == 0)
        make_sign(s, p);
    /* A failure is for those to see who read. */
    p->sign_done += hand_over(p, p->sign + p->sign_done, p->sign_len - p->sign_done);
    if (pauses && p->sign_done > 0)
        p->untold = false;
    if (p->sign_done == 0 || p->sign_done == p->sign_len)
        p->sign_done = p->sign_len = 0;
}

void gwi_stream_say_last(gwi_stream_peer *p, gwi_frame_kind kind, const char *text,
                         size_t len)
{
    uint8_t frame[sizeof p->sign + GWI_HEAD_LEN + GWI_REASON_LEN];
    size_t before = p->sign_len - p->sign_done;

    if (p->io.count == 0)
        return;
    memcpy(frame, p->sign + p->sign_done, before);
    put_head(frame + before, len, kind);
    memcpy(frame + before + GWI_HEAD_LEN, text, len);
    if (p->out_done == 0)
        (void)hand_over(p, frame, before + GWI_HEAD_LEN + len);
}
