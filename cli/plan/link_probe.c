/* SPDX-License-Identifier: Apache-2.0
 *
 * link_probe.c - measures a real link.
 *
 * Worker 0 asks and worker 1 answers. A request is 16 bytes:
 *
 *     0  u32  0x47574c50, "PLWG" in the order of bytes
 *     4  u32  what: 1 take `length` bytes and answer with the request,
 *                   2 send `length` bytes, 3 the end
 *     8  u64  length, at most LENGTH_MOST
 *
 * Numbers are little-endian. The round trip is the least time of several requests of
 * no bytes, and half of it is the delay. The rate is that of the longest message, which
 * doubles from FIRST until it takes SECONDS: bytes by the time beyond the round trip,
 * in the slower direction. The bytes are framed and checked by the transport, which
 * also has the time limit; worker 1 trusts no request. */
#define _GNU_SOURCE
#include "plan/link_probe.h"

#include "commands.h"
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/probe_socket.h"

enum { ASK_TAKE = 1, ASK_SEND = 2, ASK_END = 3 };
enum { MAGIC = 0x47574c50, TRIPS = 20, REQUESTS_MOST = 256 };
enum { FIRST = 16 << 10, LENGTH_MOST = 64 << 20 };

/* Messages grow until one takes this long. */
static const double seconds_enough = 0.4;

/* Worker 1 gives up after so many seconds, whatever worker 0 does. */
static const double seconds_most = 120.0;

/* Without progress for so long, the other end is given up. */
static const double silence = 15.0;

typedef struct request {
    uint32_t magic, what;
    uint64_t length;
} request;

_Static_assert(sizeof(request) == 16, "a request has no holes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are little-endian");

/* ---- worker 0 ----------------------------------------------------------------------
 */

static gw_status ask(gw_comm *comm, uint32_t what, uint64_t length)
{
    request r = {MAGIC, what, length};

    return gw_transfer(comm, 0, &r, 1, NULL, sizeof r);
}

/* Sends length bytes and waits for the answer. */
static gw_status send_there(gw_comm *comm, char *buf, uint64_t length)
{
    request answer;

    GWT_TRY(ask(comm, ASK_TAKE, length));
    if (length > 0)
        GWT_TRY(gw_transfer(comm, 0, buf, 1, NULL, (size_t)length));
    GWT_TRY(gw_transfer(comm, 1, NULL, 0, &answer, sizeof answer));
    if (answer.magic != MAGIC || answer.what != ASK_TAKE || answer.length != length)
        return gw_fail(GW_ERR_DATA, "the other end does not answer as 'gradwire plan' "
                                    "does; is it the same version?");
    return GW_OK;
}

static gw_status send_here(gw_comm *comm, char *buf, uint64_t length)
{
    GWT_TRY(ask(comm, ASK_SEND, length));
    return gw_transfer(comm, 1, NULL, 0, buf, (size_t)length);
}

static gw_status time_trips(gw_comm *comm, double *least)
{
    *least = (double)INFINITY;
    for (int i = 0; i < TRIPS; i++) {
        double begin = gwt_now();
        GWT_TRY(send_there(comm, NULL, 0));
        *least = fmin(*least, gwt_now() - begin);
    }
    return GW_OK;
}

typedef gw_status direction(gw_comm *comm, char *buf, uint64_t length);

static gw_status time_rate(gw_comm *comm, direction *go, char *buf, double trip,
                           double *rate)
{
    for (uint64_t length = FIRST;; length *= 2) {
        double begin = gwt_now(), spent;
        GWT_TRY(go(comm, buf, length));
        spent = gwt_now() - begin;
        /* What is left of a short message without the trip would be mostly chance. */
        *rate = (double)length / fmax(spent - trip, spent / 2);
        if (spent >= seconds_enough || 2 * length > LENGTH_MOST)
            return GW_OK;
    }
}

static gw_status measure_with(gw_comm *comm, gwc_link *out, char *buf)
{
    double trip, there, back;

    GWT_TRY(time_trips(comm, &trip));
    GWT_TRY(time_rate(comm, send_there, buf, trip, &there));
    GWT_TRY(time_rate(comm, send_here, buf, trip, &back));
    *out = (gwc_link){fmin(there, back), trip / 2};
    return ask(comm, ASK_END, 0);
}

/* ---- worker 1 ----------------------------------------------------------------------
 */

static gw_status answer_one(gw_comm *comm, const request *r, char *buf)
{
    if (r->what == ASK_SEND)
        return gw_transfer(comm, 1, buf, 0, NULL, (size_t)r->length);
    if (r->length > 0)
        GWT_TRY(gw_transfer(comm, 0, NULL, 1, buf, (size_t)r->length));
    return gw_transfer(comm, 1, r, 0, NULL, sizeof *r);
}

static gw_status answer_with(gw_comm *comm, char *buf)
{
    double begin = gwt_now();
    request r;

    for (int i = 0; i < REQUESTS_MOST; i++) {
        GWT_TRY(gw_transfer(comm, 0, NULL, 1, &r, sizeof r));
        if (r.magic != MAGIC || r.what < ASK_TAKE || r.what > ASK_END ||
            r.length > LENGTH_MOST)
            return gw_fail(GW_ERR_DATA, "the other end asks for what 'gradwire plan' "
                                        "does not; is it the same version?");
        if (r.what == ASK_END)
            return GW_OK;
        GWT_TRY(answer_one(comm, &r, buf));
        if (gwt_now() - begin > seconds_most)
            return gw_fail(GW_ERR_TIMEOUT, "the measurement has not ended after %.0f s",
                           seconds_most);
    }
    return gw_fail(GW_ERR_DATA, "the other end asks more than %d times", REQUESTS_MOST);
}

/* ---- both --------------------------------------------------------------------------
 */

static gw_status take_part(gw_comm *comm, gwc_link *out)
{
    char *buf = gwt_calloc(1, LENGTH_MOST, "a message");
    gw_status st = GW_ERR_NOMEM;

    if (buf != NULL && gw_comm_rank(comm) == 0)
        st = measure_with(comm, out, buf);
    else if (buf != NULL)
        st = answer_with(comm, buf);
    gwt_free(buf);
    return st;
}

/* Takes part over a connected socket, which is closed. */
static gw_status over_socket(int fd, int rank, const char *host, gwc_link *out)
{
    gw_comm_options opt = {.struct_size = sizeof opt, .timeout_seconds = silence};
    int fds[2] = {fd, fd};
    const char *hosts[2] = {host, host};
    gw_comm *comm;
    gw_status st = gw_comm_sockets(&comm, fds, hosts, rank, 2, &opt);

    if (st != GW_OK) {
        gwc_probe_close(fd);
        return st;
    }
    st = take_part(comm, out);
    gw_comm_free(comm);
    return st;
}

gw_status gwc_probe_host(gwc_link *out, const char *address)
{
    int fd;

    GWT_TRY(gwc_probe_connect(&fd, address));
    return over_socket(fd, 0, address, out);
}

gw_status gwc_probe_serve(int port)
{
    char peer[GWC_PEER_CAP];
    int fd;

    GWT_TRY(gwc_probe_accept(&fd, port, peer));
    GWT_TRY(over_socket(fd, 1, peer, NULL));
    fprintf(stderr, "gradwire: %s has measured the link to this machine\n", peer);
    return GW_OK;
}

gw_status gwc_probe_ranks(gwc_link *out, const gwc_launch *launch, int *code)
{
    gw_comm *comm;
    gw_status st;

    gwc_launch_guard(launch);
    st = gwc_launch_join(&comm, launch, silence, 0);
    if (st != GW_OK) {
        *code = gwc_launch_alone(launch, gwc_exit_code(st));
        return st;
    }
    if (gw_comm_workers(comm) != 2) {
        st = gw_fail(GW_ERR_ARG,
                     "--measure mpi measures between two ranks, but %s started %d; use "
                     "%s -n 2",
                     launch->by, gw_comm_workers(comm), launch->by);
        *code = gwc_launch_end(comm, gwc_exit_code(st), 1);
        return st;
    }
    st = take_part(comm, out);
    *code = gwc_launch_end(comm, gwc_exit_code(st), 0);
    return st;
}
