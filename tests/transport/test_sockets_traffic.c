/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sockets_traffic.c - what gw_comm_traffic() counts on sockets is what passes a
 * proxy between the workers, heads of frames included. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS = 3, HEAD = 8, FLOATS = 3000 };

/* One direction of a connection. */
typedef struct wire {
    int in, out;
    uint64_t messages, bytes; /* of frames of kind 0, with their heads; others
                               * are not counted */
    pthread_t thread;
} wire;

typedef struct rank {
    int number;
    int fds[WORKERS];
    gw_traffic traffic;
    gw_stats stats;
    gw_status status;
    pthread_t thread;
} rank;

/* ---- the proxy ---------------------------------------------------------- */

/* Passes len bytes on; false at the end of the stream. */
static bool pass(const wire *w, uint8_t *bytes, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = recv(w->in, bytes + done, len - done, 0);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    for (size_t done = 0; done < len;) {
        ssize_t n = send(w->out, bytes + done, len - done, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

static bool pass_body(const wire *w, uint64_t len)
{
    uint8_t piece[4096];

    while (len > 0) {
        size_t n = len < sizeof piece ? (size_t)len : sizeof piece;
        if (!pass(w, piece, n))
            return false;
        len -= n;
    }
    return true;
}

static void *run_wire(void *arg)
{
    wire *w = arg;
    uint8_t head[HEAD];

    while (pass(w, head, HEAD)) {
        uint64_t len = 0;
        for (int i = HEAD - 2; i >= 0; i--)
            len = len << 8 | head[i];
        if (!pass_body(w, len))
            break;
        w->messages += head[HEAD - 1] == 0;
        w->bytes += head[HEAD - 1] == 0 ? HEAD + len : 0;
    }
    shutdown(w->out, SHUT_WR);
    return NULL;
}

/* ---- the workers -------------------------------------------------------- */

static gw_status train(gw_comm *comm, gw_sync *sync)
{
    float grad[FLOATS];

    for (int step = 0; step < 5; step++) {
        for (int i = 0; i < FLOATS; i++)
            grad[i] = (float)((i * 37 + step + gw_comm_rank(comm)) % 101);
        PASS_ON(gw_sync_gradient(sync, grad));
    }
    PASS_ON(gw_allreduce(comm, grad, FLOATS));
    return gw_barrier(comm);
}

static gw_status work(gw_comm *comm, rank *r)
{
    gw_tensor tensor = {.name = "x", .rows = 1, .cols = FLOATS};
    gw_layout *layout;
    gw_sync *sync;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(&sync, "gtopk:0.01", layout, comm, NULL);
    if (st == GW_OK) {
        st = train(comm, sync);
        r->stats = gw_sync_stats(sync);
        gw_sync_free(sync);
    }
    gw_layout_free(layout);
    return st;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    gw_comm *comm = NULL;

    r->status = gw_comm_sockets(&comm, r->fds, NULL, r->number, WORKERS, NULL);
    if (r->status != GW_OK)
        return NULL;
    r->status = work(comm, r);
    r->traffic = gw_comm_traffic(comm);
    gw_comm_free(comm);
    return NULL;
}

/* ---- both --------------------------------------------------------------- */

static void lay_wires(rank *ranks, wire wires[WORKERS][WORKERS])
{
    for (int a = 0; a < WORKERS; a++) {
        for (int b = a + 1; b < WORKERS; b++) {
            int near[2], far[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, near), 0);
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, far), 0);
            ranks[a].fds[b] = near[0];
            ranks[b].fds[a] = far[0];
            wires[a][b] = (wire){.in = near[1], .out = far[1]};
            wires[b][a] = (wire){.in = far[1], .out = near[1]};
        }
    }
}

static void run_all(rank *ranks, wire wires[WORKERS][WORKERS])
{
    for (int a = 0; a < WORKERS; a++) {
        for (int b = 0; b < WORKERS; b++)
            if (a != b)
                pthread_create(&wires[a][b].thread, NULL, run_wire, &wires[a][b]);
        ranks[a].number = a;
        pthread_create(&ranks[a].thread, NULL, run_rank, &ranks[a]);
    }
    for (int a = 0; a < WORKERS; a++)
        pthread_join(ranks[a].thread, NULL);
    for (int a = 0; a < WORKERS; a++)
        for (int b = 0; b < WORKERS; b++)
            if (a != b)
                pthread_join(wires[a][b].thread, NULL);
    for (int a = 0; a < WORKERS; a++)
        for (int b = a + 1; b < WORKERS; b++) {
            close(wires[a][b].in);
            close(wires[a][b].out);
        }
}

static void check_rank(const rank *r, wire wires[WORKERS][WORKERS])
{
    uint64_t sent = 0, received = 0, messages = 0;

    for (int b = 0; b < WORKERS; b++) {
        sent += wires[r->number][b].bytes;
        messages += wires[r->number][b].messages;
        received += wires[b][r->number].bytes;
    }
    assert_int_equal(r->status, GW_OK);
    assert_int_equal(r->traffic.bytes_sent, sent);
    assert_int_equal(r->traffic.bytes_received, received);
    assert_int_equal(r->traffic.messages_sent, messages);
    assert_true(r->stats.bytes_sent > HEAD * r->stats.messages_sent);
}

static void test_counters_are_what_passes(void **state)
{
    static rank ranks[WORKERS];
    static wire wires[WORKERS][WORKERS];

    (void)state;
    lay_wires(ranks, wires);
    run_all(ranks, wires);
    for (int r = 0; r < WORKERS; r++)
        check_rank(&ranks[r], wires);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters_are_what_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
