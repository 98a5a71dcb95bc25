/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_tls.c - what encryption costs: bytes through a connection between two members,
 * against 1 GB in a second of one core. Times are those of each thread's processor, so
 * other programs do not count; the copies through the socket do. */
#define _GNU_SOURCE
#include "bench.h"

#include "tls.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

enum { CHUNK = 1 << 20, BYTES = 512 << 20, BYTES_QUICK = 8 << 20, ROUNDS = 5 };

typedef struct end {
    gwg_conn *conn;
    size_t bytes;
    gw_status (*move)(struct end *e, char *chunk, size_t *done);
    double seconds; /* of its thread's processor */
    gw_status status;
} end;

static double thread_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(const end *e, short events)
{
    struct pollfd p = {.fd = gwg_conn_fd(e->conn), .events = events};

    poll(&p, 1, 1000);
}

static gw_status settle(end *e, long n, size_t *done, short events)
{
    if (n < 0)
        return gw_fail(GW_ERR_PEER, "the other end is gone");
    *done += (size_t)n;
    if (n == 0)
        nap(e, events);
    return GW_OK;
}

static size_t next_len(const end *e, size_t done)
{
    return e->bytes - done < CHUNK ? e->bytes - done : CHUNK;
}

static gw_status send_some(end *e, char *chunk, size_t *done)
{
    struct iovec part = {chunk, next_len(e, *done)};

    if (part.iov_len > 0)
        return settle(e, gwg_conn_write(e->conn, &part, 1), done, POLLOUT);
    (void)gwg_conn_write(e->conn, &part, 0); /* what is encrypted and not sent yet */
    nap(e, POLLOUT);
    return GW_OK;
}

static gw_status receive_some(end *e, char *chunk, size_t *done)
{
    return settle(e, gwg_conn_read(e->conn, chunk, next_len(e, *done)), done, POLLIN);
}

static int is_over(const end *e, size_t done)
{
    return done == e->bytes && gwg_conn_unsent(e->conn) == 0;
}

static void *run_end(void *arg)
{
    end *e = arg;
    char *chunk = calloc(1, CHUNK);
    size_t done = 0;

    e->status = chunk != NULL ? GW_PENDING : GW_ERR_NOMEM;
    while (e->status == GW_PENDING &&
           (e->status = gwg_conn_shake(e->conn)) == GW_PENDING)
        nap(e, gwg_conn_events(e->conn));
    e->seconds = thread_seconds();
    while (e->status == GW_OK && !is_over(e, done))
        e->status = e->move(e, chunk, &done);
    e->seconds = thread_seconds() - e->seconds;
    free(chunk);
    return NULL;
}

static gw_status run_pair(end ends[2])
{
    pthread_t other;

    if (pthread_create(&other, NULL, run_end, &ends[1]) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot start a thread");
    run_end(&ends[0]);
    pthread_join(other, NULL);
    return ends[0].status != GW_OK ? ends[0].status : ends[1].status;
}

/* One connection, and so many bytes through it. */
static gw_status try_once(gwg_tls *tls, size_t bytes, double seconds[2])
{
    end ends[2] = {{.bytes = bytes, .move = send_some},
                   {.bytes = bytes, .move = receive_some}};
    int fd[2];
    gw_status st = GW_OK;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot open sockets: %s", strerror(errno));
    for (int i = 0; i < 2; i++) {
        gw_status made =
            gwg_conn_new(&ends[i].conn, tls, fd[i], i == 0 ? GWG_CALLS : GWG_ANSWERS);
        st = st == GW_OK ? made : st;
    }
    if (st == GW_OK)
        st = run_pair(ends);
    for (int i = 0; i < 2; i++) {
        seconds[i] = ends[i].seconds;
        if (ends[i].conn != NULL)
            gwg_conn_free(ends[i].conn);
    }
    return st;
}

static void add_row(gwb_sheet *sheet, const char *name, size_t bytes, double seconds)
{
    gwb_row row = gwb_row_new("tls", bytes, "%s", name);

    row.bytes = 1;
    row.seconds = seconds;
    row.rate = 1e-9 * (double)bytes / seconds;
    row.unit = "GB/s";
    row.limit = "1 GB/s per core";
    row.limit_seconds = 1e-9 * (double)bytes;
    row.ratio = row.median = row.seconds / row.limit_seconds;
    row.target = 1.0;
    gwb_sheet_add(sheet, &row);
}

static gw_status run(gwb_sheet *sheet)
{
    size_t bytes = sheet->set->quick ? BYTES_QUICK : BYTES;
    double best[2] = {0, 0}, now[2] = {0, 0};
    gwg_tls *tls;
    gw_status st = gwg_tls_new(&tls, "bench", "the key of a benchmark");

    for (int i = 0; st == GW_OK && i < ROUNDS; i++) {
        st = try_once(tls, bytes, now);
        for (int k = 0; k < 2; k++)
            best[k] = i == 0 || now[k] < best[k] ? now[k] : best[k];
    }
    gwg_tls_free(tls);
    GWI_TRY(st);
    add_row(sheet, "send, encrypted", bytes, best[0]);
    add_row(sheet, "receive, encrypted", bytes, best[1]);
    return GW_OK;
}

const gwb_group gwb_group_tls = {
    .name = "tls",
    .summary = "encrypted connections, per core",
    .by_default = 0,
    .run = run,
};
