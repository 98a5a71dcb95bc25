/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets_life.c - who is alive, and what counts as progress.
 *
 * A worker that waits sends a sign of life to all others several times within the time
 * limit. When the limit has passed, all waiting workers were heard from recently, but
 * the one that they wait for, directly or indirectly, was not. Signs of life are not
 * progress: the time limit keeps running while they arrive.
 *
 * Progress means bytes of awaited messages, at a rate that every network reaches. A
 * worker that sends one byte now and then counts as silent. */
#define _GNU_SOURCE
#include "transport/sockets.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "limit.h"

/* Signs of life are given every 16th of the time limit, but within these bounds: a
 * step whose messages come within a quarter of a second goes without. */
#define SIGNS_PER_LIMIT   16.0
#define SHORTEST_INTERVAL 0.02
#define LONGEST_INTERVAL  0.25

/* Who was heard of within so many intervals is not the one to blame. */
#define FRESH_INTERVALS 4.0

/* Bytes per second of waiting. A modem of 1991 was faster; an honest worker is only
 * below it if its network is as good as down. Silence of more than this share of the
 * limit need not be made up for: a network may pause. */
#define LEAST_RATE   1024.0
#define LONGEST_OWED (1.0 / 8)

/* How long nothing of what was sent has to be acknowledged before a line is given up,
 * about what keep-alive probes take on an idle one. */
#define CUT_SECONDS 22.0
#define SOON        0.8

static double interval(const gwi_streams *s)
{
    double seconds = s->timeout / SIGNS_PER_LIMIT;

    if (seconds > LONGEST_INTERVAL)
        return LONGEST_INTERVAL;
    return seconds > SHORTEST_INTERVAL ? seconds : SHORTEST_INTERVAL;
}

/* ---- progress ----------------------------------------------------------- */

/* A socket takes more only once much of its buffer is free. That it becomes emptier
 * is progress before that. */
static void count_leaving(gwi_streams *s, gwi_stream_peer *p)
{
    int unsent = p->full ? gwi_stripes_queued(&p->io, SIOCOUTQ) : -1;

    if (unsent < 0)
        return;
    if (unsent < p->unsent)
        s->moved += (size_t)(p->unsent - unsent);
    p->unsent = unsent;
}

bool gwi_streams_progress(gwi_streams *s, double slept)
{
    double most = s->timeout * LONGEST_OWED;
    bool moved;

    for (int r = 0; r < s->workers; r++)
        count_leaving(s, &s->peers[r]);
    moved = s->moved > 0;
    s->owed = s->owed + slept < most ? s->owed + slept : most;
    s->owed -= (double)s->moved / LEAST_RATE;
    s->moved = 0;
    if (s->owed > 0)
        return false;
    s->owed = 0;
    return moved;
}

/* ---- signs of life ------------------------------------------------------ */

/* Behind a message that nobody asked for yet, signs cannot be read; but they make
 * what is unread grow. */
static void look_behind(gwi_stream_peer *p)
{
    uint64_t len;

    if (p->io.count == 0 || !gwi_stream_parked(p, &len))
        return;
    int unread = gwi_stripes_queued(&p->io, SIOCINQ);
    if (unread < 0)
        return;
    unread += (int)gwi_stripes_unread(&p->io);
    if (unread != p->unread)
        p->heard_at = gwi_now();
    p->unread = unread;
}

/* Whether a peer may be alive and still unable to say so: it is in the middle of a
 * message that nobody reads. */
static bool is_stuck(const gwi_stream_peer *p)
{
    uint64_t len;

    return gwi_stream_parked(p, &len) && (uint64_t)p->unread < len;
}

static int oldest(const gwi_streams *s, double before, bool stuck)
{
    int found = -1;

    for (int r = 0; r < s->workers; r++) {
        const gwi_stream_peer *p = &s->peers[r];
        if (p->io.count > 0 && !p->left && p->heard_at < before &&
            is_stuck(p) == stuck) {
            before = p->heard_at;
            found = r;
        }
    }
    return found;
}

int gwi_streams_suspect(void *ctx)
{
    gwi_streams *s = ctx;
    double fresh = gwi_now() - FRESH_INTERVALS * interval(s);

    for (int r = 0; r < s->workers; r++)
        look_behind(&s->peers[r]);
    int rank = oldest(s, fresh, false);
    return rank >= 0 ? rank : oldest(s, fresh, true);
}

/* ---- lines that are cut ------------------------------------------------- */

static bool ask_tcp(const gwi_stream_peer *p, int k, struct tcp_info *info)
{
    socklen_t len = sizeof *info;

    memset(info, 0, sizeof *info);
    return !p->left && !p->ended &&
           getsockopt(p->io.lines[k].io.fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

int gwi_stream_unsent(const gwi_stream_peer *p)
{
    struct tcp_info info;
    int sum = 0, unsent;

    for (int k = 0; k < p->io.count; k++)
        if (ask_tcp(p, k, &info) && info.tcpi_state != TCP_CLOSE &&
            ioctl(p->io.lines[k].io.fd, SIOCOUTQ, &unsent) == 0)
            sum += unsent;
    return sum;
}

/* Whether the host at the other end has acknowledged nothing for so long on one of the
 * lines to it, although something was sent again. A process that hangs there does not
 * hinder its host. */
static bool is_cut(const gwi_stream_peer *p, double seconds)
{
    struct tcp_info info;

    for (int k = 0; k < p->io.count; k++)
        if (ask_tcp(p, k, &info) && info.tcpi_unacked > 0 &&
            info.tcpi_retransmits > 0 && info.tcpi_last_ack_recv > 1000 * seconds)
            return true;
    return false;
}

/* Whether one of the lines to a peer has ended, and it has not ended in order. */
static bool is_torn(const gwi_stream_peer *p)
{
    uint64_t len;

    return !p->left && !gwi_stream_parked(p, &len) &&
           gwi_stripes_torn(&p->io, p->fed_at);
}

/* A line that is cut for long is the other worker's fault; if all of them are, it is
 * this one's, which must say so before the time limit makes it blame others. */
static gw_status check_lines(gwi_streams *s)
{
    double limit = gwi_limit_now(s->comm);
    int others = 0, cut = 0;

    limit = limit < CUT_SECONDS ? limit : CUT_SECONDS;
    for (int r = 0; r < s->workers; r++) {
        gwi_stream_peer *p = &s->peers[r];
        others += p->io.count > 0 && !p->left;
        cut += is_cut(p, SOON * limit);
        p->ended = p->ended || is_cut(p, CUT_SECONDS) || is_torn(p);
    }
    if (others > 1 && cut == others)
        return gw_fail(GW_ERR_PEER, "worker %d on host %s is cut off from all others",
                       s->rank, s->peers[s->rank].host);
    return GW_OK;
}

gw_status gwi_streams_live(gwi_streams *s, double slept)
{
    s->slept += slept;
    if (s->slept < interval(s))
        return GW_OK;
    s->slept = 0;
    for (int r = 0; r < s->workers; r++) {
        gwi_stream_sign(s, &s->peers[r]);
        look_behind(&s->peers[r]);
    }
    return check_lines(s);
}
