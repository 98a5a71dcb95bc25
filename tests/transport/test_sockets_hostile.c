/* SPDX-License-Identifier: Apache-2.0
 *
 * test_sockets_hostile.c - gw_comm_sockets() against a peer that has joined and sends
 * what it likes. Worker 0 is real; of the others the tests have the bare sockets. It
 * must end within its time limit, whatever comes, and say who is to blame; and it must
 * not give up on one that is merely slow. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"
#include "support_sockets.h"

/* How long a peer of these tests goes on at most, so that a worker that is never
 * satisfied makes a test fail and not hang. */
#define PATIENCE 20.0

enum { ROOM = 1 << 20, GOODBYE = 1, ABORT = 2, ALIVE = 3, BUSY = 4 };

typedef struct stranger {
    void (*act)(struct stranger *h);
    int fd; /* worker 1's end of the socket to worker 0 */
    double until;
    _Atomic int stop;
} stranger;

typedef struct scene {
    void (*act)(stranger *h);
    int awaited;    /* whom worker 0 waits for */
    size_t sends;   /* bytes that worker 0 sends to it; 0: it receives */
    double timeout; /* 0: PATIENCE, which no scene is meant to need */
    gw_status status;
    const char *message;
} scene;

/* ---- what a peer does --------------------------------------------------- */

static void put(stranger *h, const void *bytes, size_t len)
{
    (void)!send(h->fd, bytes, len, MSG_NOSIGNAL);
}

static void put_head(stranger *h, int kind, uint64_t len)
{
    uint8_t head[8];

    for (int i = 0; i < 7; i++)
        head[i] = (uint8_t)(len >> 8 * i);
    head[7] = (uint8_t)kind;
    put(h, head, sizeof head);
}

/* Sleeps; false once worker 0 has had enough, or the test. */
static int rest(stranger *h, double seconds)
{
    struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};

    nanosleep(&t, NULL);
    return !atomic_load(&h->stop) && gwi_now() < h->until;
}

static void two_goodbyes(stranger *h)
{
    put_head(h, GOODBYE, 0);
    put_head(h, GOODBYE, 0);
}

static void goodbye_now_and_then(stranger *h)
{
    while (rest(h, 0.02))
        put_head(h, GOODBYE, 0);
}

static void message_after_goodbye(stranger *h)
{
    uint8_t frames[9 + 8] = {0};

    frames[7] = GOODBYE;
    frames[8] = 1;
    put(h, frames, sizeof frames);
}

/* The connection stays open, as if more were to come. */
static void goodbye_that_stays(stranger *h)
{
    put_head(h, GOODBYE, 0);
    while (rest(h, 0.02))
        ;
}

static void goodbye_with_length(stranger *h)
{
    put_head(h, GOODBYE, 5);
}

static void alive_with_length(stranger *h)
{
    put_head(h, ALIVE, 1);
}

/* Only workers on an emulated link believe that others are busy with it. */
static void busy_without_link(stranger *h)
{
    double until = 1e300;

    put_head(h, BUSY, sizeof until);
    put(h, &until, sizeof until);
}

static void alive_flood(stranger *h)
{
    while (!atomic_load(&h->stop) && gwi_now() < h->until)
        put_head(h, ALIVE, 0);
}

static void alive_now_and_then(stranger *h)
{
    while (rest(h, 0.03))
        put_head(h, ALIVE, 0);
}

static void announce_too_much(stranger *h)
{
    put_head(h, 0, (uint64_t)4 << 30);
}

/* A long message at 50 bytes a second. */
static void drip(stranger *h)
{
    put_head(h, 0, ROOM);
    while (rest(h, 0.02))
        put(h, "", 1);
}

static void drip_heads(stranger *h)
{
    uint8_t head[8] = {0, 0, 0, 0, 0, 0, 0, ALIVE};

    for (int i = 0; rest(h, 0.02); i++)
        put(h, head + i % 8, 1);
}

/* 15 000 bytes at 5 kB a second. */
static void slow_but_steady(stranger *h)
{
    uint8_t piece[100] = {0};

    put_head(h, 0, 150 * sizeof piece);
    for (int i = 0; i < 150 && rest(h, 0.02); i++)
        put(h, piece, sizeof piece);
    while (rest(h, 0.02))
        ;
}

static void read_at(stranger *h, size_t at_once)
{
    uint8_t piece[100];

    while (rest(h, 0.02))
        (void)!recv(h->fd, piece, at_once, MSG_DONTWAIT);
}

static void slow_reader(stranger *h)
{
    read_at(h, 100);
}

static void reader_of_drops(stranger *h)
{
    read_at(h, 1);
}

static void reason_with_escapes(stranger *h)
{
    put_head(h, ABORT, 19);
    put(h,
        "\x1b[2Jall is \x9b"
        "31mwell",
        19);
}

static void reason_in_two_parts(stranger *h)
{
    put_head(h, ABORT, 9);
    put(h, "half ", 5);
    for (int i = 0; i < 10 && rest(h, 0.02); i++)
        ;
    put(h, "told", 4);
    while (rest(h, 0.02))
        ;
}

static void half_a_reason(stranger *h)
{
    put_head(h, ABORT, 9);
    put(h, "\x1b[2J", 4);
}

/* ---- playing a scene ---------------------------------------------------- */

static void *play(void *arg)
{
    stranger *h = arg;

    h->act(h);
    shutdown(h->fd, SHUT_WR);
    return NULL;
}

static gw_status exchange(gw_comm *comm, const scene *s, uint8_t *room)
{
    gwi_op *op = &comm->ops[0];

    PASS_ON(s->sends > 0 ? gwi_send(comm, op, s->awaited, room, s->sends)
                         : gwi_recv(comm, op, s->awaited, room, ROOM));
    return gwi_wait(comm, op);
}

/* Small buffers, so that a slow reader is felt at once. */
static void shrink(int fd)
{
    int len = 1;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &len, sizeof len);
}

static void run_scene(const scene *s)
{
    socket_group *group = socket_group_new(3);
    stranger h = {.act = s->act,
                  .fd = socket_group_fd(group, 1, 0),
                  .until = gwi_now() + PATIENCE};
    uint8_t *room = calloc(1, ROOM);
    pthread_t thread;
    gw_comm *comm;

    shrink(socket_group_fd(group, 0, 1));
    assert_run_ok(
        stream_comm_new(&comm, group, 0, s->timeout > 0 ? s->timeout : PATIENCE));
    assert_int_equal(pthread_create(&thread, NULL, play, &h), 0);
    gw_status st = exchange(comm, s, room);
    atomic_store(&h.stop, 1);
    pthread_join(thread, NULL);
    if (st != s->status ||
        strstr(st == GW_OK ? "" : gw_error_message(), s->message) == NULL)
        fail_msg("%s: %s instead of %s: %s", gw_status_name(st), gw_error_message(),
                 gw_status_name(s->status), s->message);
    gw_comm_free(comm);
    free(room);
    socket_group_free(group);
}

static void run_scenes(const scene *scenes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_scene(&scenes[i]);
}

#define RUN(scenes) run_scenes(scenes, sizeof(scenes) / sizeof *(scenes))

static void test_goodbye_is_the_end(void **state)
{
    static const char again[] = "worker 1 on host ? sent more data after its goodbye";
    static const scene scenes[] = {
        {.act = two_goodbyes, .awaited = 2, .status = GW_ERR_DATA, .message = again},
        {.act = goodbye_now_and_then,
         .awaited = 2,
         .status = GW_ERR_DATA,
         .message = again},
        {.act = message_after_goodbye,
         .awaited = 1,
         .status = GW_ERR_DATA,
         .message = again},
        {.act = goodbye_that_stays,
         .awaited = 1,
         .status = GW_ERR_PEER,
         .message = "worker 1 on host ? has ended"},
        {.act = goodbye_that_stays,
         .awaited = 1,
         .sends = ROOM,
         .status = GW_ERR_PEER,
         .message = "worker 1 on host ? has ended"},
    };

    (void)state;
    RUN(scenes);
}

static void test_malformed_frames(void **state)
{
    static const char none[] = "worker 1 on host ? sent a malformed frame";
    static const scene scenes[] = {
        {.act = goodbye_with_length,
         .awaited = 2,
         .status = GW_ERR_DATA,
         .message = none},
        {.act = alive_with_length,
         .awaited = 2,
         .status = GW_ERR_DATA,
         .message = none},
        {.act = busy_without_link,
         .awaited = 1,
         .status = GW_ERR_DATA,
         .message = none},
        {.act = announce_too_much,
         .awaited = 1,
         .status = GW_ERR_DATA,
         .message = "worker 1 sent 4294967296 bytes, expected at most 1048576"},
    };

    (void)state;
    RUN(scenes);
}

/* Signs of life are no progress, and a flood of them is none of life. */
static void test_signs_of_life_do_not_hold_up(void **state)
{
    static const scene scenes[] = {
        {.act = alive_flood,
         .awaited = 2,
         .status = GW_ERR_DATA,
         .message = "worker 1 on host ? sent too many signs of life"},
        {.act = alive_now_and_then,
         .awaited = 2,
         .timeout = 0.5,
         .status = GW_ERR_TIMEOUT,
         .message = "worker 2 on host ? has not answered for 0.5 s"},
        {.act = alive_now_and_then,
         .awaited = 1,
         .timeout = 0.5,
         .status = GW_ERR_TIMEOUT,
         .message = "has not answered for 0.5 s"},
        {.act = drip_heads,
         .awaited = 1,
         .timeout = 0.5,
         .status = GW_ERR_TIMEOUT,
         .message = "has not answered for 0.5 s"},
    };

    (void)state;
    RUN(scenes);
}

static void test_drops_are_no_progress(void **state)
{
    static const scene scenes[] = {
        {.act = drip,
         .awaited = 1,
         .timeout = 0.5,
         .status = GW_ERR_TIMEOUT,
         .message = "has not answered for 0.5 s"},
        {.act = reader_of_drops,
         .awaited = 1,
         .sends = ROOM,
         .timeout = 0.5,
         .status = GW_ERR_TIMEOUT,
         .message = "has not answered for 0.5 s"},
    };

    (void)state;
    RUN(scenes);
}

static void test_slow_is_not_silent(void **state)
{
    static const scene scenes[] = {
        {.act = slow_but_steady,
         .awaited = 1,
         .timeout = 1.5,
         .status = GW_OK,
         .message = ""},
        {.act = slow_reader,
         .awaited = 1,
         .sends = 15000,
         .timeout = 1.5,
         .status = GW_OK,
         .message = ""},
    };

    (void)state;
    RUN(scenes);
}

static void test_reasons(void **state)
{
    static const scene scenes[] = {
        {.act = reason_with_escapes,
         .awaited = 2,
         .status = GW_ERR_PEER,
         .message = "?[2Jall is ?31mwell"},
        {.act = reason_in_two_parts,
         .awaited = 2,
         .timeout = 5,
         .status = GW_ERR_PEER,
         .message = "half told"},
        {.act = half_a_reason,
         .awaited = 2,
         .status = GW_ERR_PEER,
         .message = "worker 1 on host ? is gone"},
    };

    (void)state;
    RUN(scenes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goodbye_is_the_end),
        cmocka_unit_test(test_malformed_frames),
        cmocka_unit_test(test_signs_of_life_do_not_hold_up),
        cmocka_unit_test(test_drops_are_no_progress),
        cmocka_unit_test(test_slow_is_not_silent),
        cmocka_unit_test(test_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
