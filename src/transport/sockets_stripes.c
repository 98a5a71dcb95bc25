/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets_stripes.c - several connections to one worker carry the bytes of one stream.
 *
 * A connection over a long fat link carries no more than its window in each round trip.
 * Several have several windows. The stream is cut into stripes of equal length, which
 * the connections carry in turns, so both sides know where each byte is, and nothing
 * need be said about it. With one connection there are no stripes.
 *
 * Only the connection whose turn it is is read. It tells when the stream has ended. If
 * another one ends first, the worker may have ended in order, and what it has sent is
 * still on its way; or the connection was broken, and the worker is lost as soon as it
 * is the broken one's turn, or nothing has come for some seconds. */
#define _GNU_SOURCE
#include "transport/sockets.h"

#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Four records of TLS. Windows of those who need several connections are larger, so all
 * of them are in use. */
enum { STRIPE = 1 << 16, MOST_PARTS = 4 };

/* How long what was sent may take after the end of another connection. A lost packet
 * is sent again after less than a second. */
#define TORN_SECONDS 3.0

/* ---- bytes -------------------------------------------------------------- */

/* Takes note of n bytes that went through the connection *turn. */
static void advance(const gwi_stripes *l, int *turn, size_t *done, size_t n)
{
    if (l->count == 1)
        return;
    *done += n;
    if (*done < STRIPE)
        return;
    *done = 0;
    *turn = (*turn + 1) % l->count;
}

long gwi_stripes_read(gwi_stripes *l, void *buf, size_t len)
{
    const gw_stream *io = &l->lines[l->in].io;
    size_t left = STRIPE - l->in_done;
    long n = io->read(io->ctx, buf, l->count > 1 && len > left ? left : len);

    if (n > 0)
        advance(l, &l->in, &l->in_done, (size_t)n);
    return n;
}

/* Copies at most `most` bytes of parts, from byte `skip` on, to cut. Returns how many
 * parts it made; *len is their length. */
static int cut_parts(struct iovec cut[MOST_PARTS], const struct iovec *parts, int count,
                     size_t skip, size_t most, size_t *len)
{
    int n = 0;

    *len = 0;
    for (int i = 0; i < count && n < MOST_PARTS && *len < most; i++) {
        size_t from = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        size_t left = parts[i].iov_len - from;
        skip -= from;
        if (left == 0)
            continue;
        left = left < most - *len ? left : most - *len;
        cut[n++] = (struct iovec){(uint8_t *)parts[i].iov_base + from, left};
        *len += left;
    }
    return n;
}

long gwi_stripes_write(gwi_stripes *l, const struct iovec *parts, int count)
{
    struct iovec cut[MOST_PARTS];
    size_t taken = 0, len;

    if (l->count == 1)
        return l->lines[0].io.write(l->lines[0].io.ctx, parts, count);
    for (;;) {
        const gw_stream *io = &l->lines[l->out].io;
        int pieces = cut_parts(cut, parts, count, taken, STRIPE - l->out_done, &len);
        if (pieces == 0)
            return (long)taken;
        long n = io->write(io->ctx, cut, pieces);
        if (n <= 0)
            return taken > 0 ? (long)taken : n;
        taken += (size_t)n;
        advance(l, &l->out, &l->out_done, (size_t)n);
        if ((size_t)n < len)
            return (long)taken;
    }
}

static void note_end(gwi_stripes *l, int k)
{
    l->lines[k].over = true;
    if (l->over_at == 0)
        l->over_at = gwi_now();
}

void gwi_stripes_flush(gwi_stripes *l)
{
    for (int k = 0; k < l->count; k++) {
        gwi_line *line = &l->lines[k];
        if (!line->over && line->io.unsent(line->io.ctx) > 0 &&
            line->io.write(line->io.ctx, NULL, 0) < 0 && l->count > 1)
            note_end(l, k);
    }
}

size_t gwi_stripes_unread(const gwi_stripes *l)
{
    const gw_stream *io = &l->lines[l->in].io;

    return io->unread(io->ctx);
}

size_t gwi_stripes_unsent(const gwi_stripes *l)
{
    size_t sum = 0;

    for (int k = 0; k < l->count; k++)
        sum += l->lines[k].over ? 0 : l->lines[k].io.unsent(l->lines[k].io.ctx);
    return sum;
}

int gwi_stripes_queued(const gwi_stripes *l, unsigned long request)
{
    int sum = 0, n;

    for (int k = 0; k < l->count; k++) {
        if (ioctl(l->lines[k].io.fd, request, &n) != 0)
            return -1;
        sum += n;
    }
    return sum;
}

/* ---- waiting ------------------------------------------------------------ */

void gwi_stripes_ask(const gwi_stripes *l, struct pollfd *polls, bool reads, bool full)
{
    for (int k = 0; k < l->count; k++) {
        const gwi_line *line = &l->lines[k];
        bool leaves = line->io.unsent(line->io.ctx) > 0 || (full && k == l->out);
        short events = (short)((reads && k == l->in ? POLLIN : 0) |
                               (reads && k != l->in ? POLLRDHUP : 0) |
                               (leaves && !line->over ? POLLOUT : 0));
        /* An end would be reported for ever. */
        bool asks = events != 0 && (k == l->in || !line->over);
        polls[k] = (struct pollfd){.fd = asks ? line->io.fd : -1, .events = events};
    }
}

bool gwi_stripes_seen(gwi_stripes *l, const struct pollfd *polls)
{
    bool seen = false;

    for (int k = 0; k < l->count; k++) {
        seen = seen || polls[k].revents != 0;
        if (k != l->in && (polls[k].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0)
            note_end(l, k);
    }
    return seen;
}

bool gwi_stripes_torn(const gwi_stripes *l, double fed_at)
{
    double since = fed_at > l->over_at ? fed_at : l->over_at;

    return l->over_at > 0 && gwi_now() - since > TORN_SECONDS;
}

/* ---- the end ------------------------------------------------------------ */

void gwi_stripes_shut(gwi_stripes *l)
{
    for (int k = 0; k < l->count; k++)
        shutdown(l->lines[k].io.fd, SHUT_WR);
}

/* Reads what is left: closing a socket with unread bytes would make the other end
 * lose those it has not read. */
void gwi_stripes_drain(gwi_stripes *l)
{
    char rest[4096];

    for (int k = 0; k < l->count; k++)
        for (int i = 0; i < 64 && recv(l->lines[k].io.fd, rest, sizeof rest, 0) > 0;
             i++)
            ;
}

void gwi_stripes_close(gwi_stripes *l)
{
    for (int k = 0; k < l->count; k++) {
        const gw_stream *io = &l->lines[k].io;
        io->release(io->ctx);
        close(io->fd);
    }
}
