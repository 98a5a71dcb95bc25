/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sockets_blame.c - when one of four workers hangs, or its network is cut, all
 * others name that one over gw_comm_sockets(), whomever they wait for themselves. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <errno.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "comm.h"
#include "support_sockets.h"

enum { WORKERS = 4, LONG = 1 << 22 };

typedef struct player player;

/* One job. All begin at the same time, since each takes as long as the time limit. */
typedef struct play {
    const char *what;
    gw_status (*act)(gw_comm *comm, player *p);
    int hangs; /* the rank that hangs after a first exchange; -1: none */
    bool tcp;  /* rank 3 is cut off after it */
    int fds[WORKERS][WORKERS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int given_up; /* workers that have ended */
    struct player {
        struct play *play;
        int rank;
        pthread_t thread;
        gw_status status;
        char message[512];
        char *buf; /* LONG bytes */
    } players[WORKERS];
} play;

/* ---- hanging ------------------------------------------------------------ */

static void give_up(play *p)
{
    pthread_mutex_lock(&p->lock);
    p->given_up++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* Does nothing, as a process that is stopped, until all others have ended. */
static gw_status hang(play *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->given_up < WORKERS - 1)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return GW_OK;
}

#define HANG_HERE(p)                       \
    do {                                   \
        if ((p)->rank == (p)->play->hangs) \
            return hang((p)->play);        \
    } while (0)

/* ---- what they do meanwhile --------------------------------------------- */

static gw_status in_a_ring(gw_comm *c, player *p)
{
    float x[100] = {0};

    HANG_HERE(p);
    for (;;)
        PASS_ON(gw_allreduce(c, x, 100));
}

/* Sockets fill up, and messages are half sent. */
static gw_status in_a_ring_of_long_messages(gw_comm *c, player *p)
{
    HANG_HERE(p);
    for (;;)
        PASS_ON(gw_allreduce(c, (float *)(void *)p->buf, LONG / sizeof(float)));
}

static gw_status down_a_tree(gw_comm *c, player *p)
{
    HANG_HERE(p);
    for (;;)
        for (int root = 0; root < WORKERS; root++)
            PASS_ON(gw_broadcast(c, p->buf, LONG, root));
}

static gw_status sync_steps(gw_sync *sync, player *p)
{
    float grad[500];

    for (int step = 0;; step++) {
        for (int i = 0; i < 500; i++)
            grad[i] = (float)(i * (p->rank + step));
        if (step == 3)
            HANG_HERE(p);
        PASS_ON(gw_sync_gradient(sync, grad));
    }
}

static gw_status by_gtopk(gw_comm *c, player *p)
{
    gw_tensor tensor = {.name = "x", .rows = 1, .cols = 500};
    gw_layout *layout;
    gw_sync *sync;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_status st = gw_sync_new(&sync, "gtopk:0.1", layout, c, NULL);
    if (st == GW_OK) {
        st = sync_steps(sync, p);
        gw_sync_free(sync);
    }
    gw_layout_free(layout);
    return st;
}

static gw_status wait_for(gw_comm *c, player *p, int from)
{
    PASS_ON(gwi_recv(c, &c->ops[0], from, p->buf, LONG));
    return gwi_wait(c, &c->ops[0]);
}

/* A chain 2 - 1 - 0 - 3 of waits; and before it hangs, worker 3 sends worker 2 what
 * it does not ask for: behind that, no sign of life could be read. */
static gw_status behind_a_message(gw_comm *c, player *p, size_t len)
{
    gwi_op *op = &c->ops[1];

    if (p->rank != 3)
        return wait_for(c, p, p->rank == 0 ? 3 : p->rank - 1);
    PASS_ON(gwi_send(c, op, 2, p->buf, len));
    HANG_HERE(p);
    return GW_OK;
}

static gw_status behind_a_short_message(gw_comm *c, player *p)
{
    return behind_a_message(c, p, 10);
}

static gw_status behind_a_long_message(gw_comm *c, player *p)
{
    return behind_a_message(c, p, LONG);
}

/* Worker 1 is alive, and has sent worker 2 a message that it does not ask for. */
static gw_status innocent_behind(gw_comm *c, player *p, size_t len)
{
    HANG_HERE(p);
    if (p->rank == 1)
        PASS_ON(gwi_send(c, &c->ops[1], 2, p->buf, len));
    return wait_for(c, p, p->rank == 0 ? 3 : 0);
}

static gw_status innocent_behind_a_short_message(gw_comm *c, player *p)
{
    return innocent_behind(c, p, 10);
}

static gw_status innocent_behind_a_long_message(gw_comm *c, player *p)
{
    return innocent_behind(c, p, LONG);
}

/* Worker 2 has ended in order long ago, and is not to blame. */
static gw_status after_one_has_left(gw_comm *c, player *p)
{
    HANG_HERE(p);
    if (p->rank == 2)
        return GW_OK;
    return wait_for(c, p, p->rank == 0 ? 3 : 0);
}

/* ---- cutting a line ----------------------------------------------------- */

/* From now on the kernel throws away all that comes for this socket, unseen, as if
 * the wire were cut: nothing is acknowledged. */
static bool deafen(int fd)
{
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {.len = 1, .filter = &none};

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* Rings of the others go on waiting for worker 3, which waits itself. */
static gw_status on_a_cut_line(gw_comm *c, player *p)
{
    float x[100] = {0};

    for (int r = 0; r < WORKERS; r++) {
        int other = p->rank == 3 ? r : 3;
        if (other != p->rank && (p->rank == 3 || r == 3))
            REQUIRE(deafen(p->play->fds[p->rank][other]), "no filter: %s",
                    strerror(errno));
    }
    for (;;)
        PASS_ON(gw_allreduce(c, x, 100));
}

/* ---- playing ------------------------------------------------------------ */

static void connect_all(play *p)
{
    for (int a = 0; a < WORKERS; a++) {
        p->fds[a][a] = -1;
        for (int b = a + 1; b < WORKERS; b++) {
            int pair[2];
            assert_int_equal(
                p->tcp ? tcp_pair(pair) : socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            p->fds[a][b] = pair[0];
            p->fds[b][a] = pair[1];
        }
    }
}

static gw_status perform(gw_comm *comm, player *p)
{
    PASS_ON(gw_barrier(comm));
    return p->play->act(comm, p);
}

static void *run_player(void *arg)
{
    static const char *const hosts[WORKERS] = {"a", "b", "c", "d"};
    gw_comm_options opt = {.struct_size = sizeof opt, .timeout_seconds = 2};
    player *p = arg;
    gw_comm *comm = NULL;

    p->buf = calloc(1, LONG);
    p->status =
        gw_comm_sockets(&comm, p->play->fds[p->rank], hosts, p->rank, WORKERS, &opt);
    if (p->status == GW_OK)
        p->status = perform(comm, p);
    snprintf(p->message, sizeof p->message, "%s", gw_error_message());
    give_up(p->play);
    gw_comm_free(comm);
    free(p->buf);
    return NULL;
}

static void begin(play *p)
{
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    connect_all(p);
    for (int r = 0; r < WORKERS; r++) {
        p->players[r].play = p;
        p->players[r].rank = r;
        pthread_create(&p->players[r].thread, NULL, run_player, &p->players[r]);
    }
}

static const char *expected(const play *p, int rank)
{
    if (p->tcp)
        return rank == 3 ? "worker 3 on host d is cut off from all others"
                         : "worker 3 on host d";
    return p->hangs == 3 ? "worker 3 on host d has not answered for 2 s"
                         : "worker 1 on host b has not answered for 2 s";
}

/* How many workers of a job named another one than they should have. */
static int end(play *p)
{
    int wrong = 0;

    for (int r = 0; r < WORKERS; r++)
        pthread_join(p->players[r].thread, NULL);
    for (int r = 0; r < WORKERS; r++) {
        const player *one = &p->players[r];
        if (one->status == GW_OK || strstr(one->message, expected(p, r)) != NULL)
            continue;
        print_message("%s, worker %d: %s\n", p->what, r, one->message);
        wrong++;
    }
    return wrong;
}

static void test_the_right_one_is_named(void **state)
{
    static play plays[] = {
        {.what = "ring", .act = in_a_ring, .hangs = 3},
        {.what = "ring", .act = in_a_ring, .hangs = 1},
        {.what = "long ring", .act = in_a_ring_of_long_messages, .hangs = 3},
        {.what = "long ring", .act = in_a_ring_of_long_messages, .hangs = 1},
        {.what = "tree", .act = down_a_tree, .hangs = 3},
        {.what = "tree", .act = down_a_tree, .hangs = 1},
        {.what = "gtopk", .act = by_gtopk, .hangs = 3},
        {.what = "gtopk", .act = by_gtopk, .hangs = 1},
        {.what = "behind a short one", .act = behind_a_short_message, .hangs = 3},
        {.what = "behind a long one", .act = behind_a_long_message, .hangs = 3},
        {.what = "innocent, short", .act = innocent_behind_a_short_message, .hangs = 3},
        {.what = "innocent, long", .act = innocent_behind_a_long_message, .hangs = 3},
        {.what = "one has left", .act = after_one_has_left, .hangs = 3},
        {.what = "cut off", .act = on_a_cut_line, .hangs = -1, .tcp = true},
    };
    size_t n = sizeof plays / sizeof *plays;
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < n; i++)
        begin(&plays[i]);
    for (size_t i = 0; i < n; i++)
        wrong += end(&plays[i]);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_right_one_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
