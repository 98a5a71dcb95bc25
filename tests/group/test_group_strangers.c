/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_strangers.c - who does not know the key gets nowhere, whatever it sends,
 * and keeps nobody out. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gradwire_group.h"

enum { CROWD = 200 };

static const char KEY[] = "the key of this test";

static gw_meeting *open_meeting(char text[64])
{
    gw_meeting_options opt = {
        .struct_size = sizeof opt, .listen = "127.0.0.1:0", .key = KEY};
    gw_meeting *meeting;

    assert_run_ok(gw_meeting_open(&meeting, &opt));
    snprintf(text, 64, "tcp://127.0.0.1:%d", gw_meeting_port(meeting));
    return meeting;
}

static gw_group_options as_member(const char *text)
{
    return (gw_group_options){.struct_size = sizeof(gw_group_options),
                              .meeting = text,
                              .key = KEY,
                              .min_workers = 2,
                              .max_workers = 2,
                              .timeout_seconds = 60};
}

static int call(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Waits until the other side has ended the connection. */
static void await_end(int fd)
{
    char rest[4096];
    ssize_t n;

    do
        n = recv(fd, rest, sizeof rest, 0);
    while (n > 0);
    close(fd);
}

static void count_members(void *arg, const char *line)
{
    *(int *)arg += strncmp(line, "member ", 7) == 0;
}

static int members_at(const char *text)
{
    gw_group_options opt = as_member(text);
    int count = 0;

    assert_run_ok(gw_meeting_status(&opt, count_members, &count));
    return count;
}

/* ---- the wrong key, the wrong terms
 * ---------------------------------------------------- */

static void test_another_key_is_turned_away(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    gw_group_options opt = as_member(text);
    gw_group *group;

    (void)state;
    opt.key = "the key of that test";
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "same job and key"));
    opt.key = KEY;
    opt.job = "another";
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_PEER);
    opt.job = NULL;
    opt.key = "too short";
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_ARG);
    opt.key = KEY;
    opt.meeting = "udp://127.0.0.1:1";
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_ARG);
    assert_int_equal(members_at(text), 0);
    gw_meeting_close(meeting);
}

static void test_other_terms_are_refused(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    gw_group_options opt = as_member(text);
    gw_group *first, *second;

    (void)state;
    assert_run_ok(gw_group_join(&first, &opt));
    opt.max_workers = 3;
    assert_int_equal(gw_group_join(&second, &opt), GW_ERR_MISMATCH);
    assert_non_null(strstr(gw_error_message(), "this job has 2 workers"));
    opt.max_workers = 2;
    opt.plain = 1;
    assert_int_equal(gw_group_join(&second, &opt), GW_ERR_MISMATCH);
    assert_int_equal(members_at(text), 1);
    gw_group_leave(first);
    gw_meeting_close(meeting);
}

/* ---- garbage, crowds, replays
 * ------------------------------------------------------------ */

static void test_garbage_ends_the_connection(void **state)
{
    static const char hello[] = "GET / HTTP/1.1\r\nHost: gradwire\r\n\r\n";
    char text[64], noise[2000];
    gw_meeting *meeting = open_meeting(text);

    (void)state;
    for (int turn = 0; turn < 50; turn++) {
        int fd = call(gw_meeting_port(meeting));
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (char)test_random(7, (uint64_t)turn * sizeof noise + i);
        const char *what = turn == 0 ? hello : noise;
        (void)!send(fd, what, turn == 0 ? strlen(hello) : sizeof noise, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        await_end(fd);
    }
    assert_int_equal(members_at(text), 0);
    gw_meeting_close(meeting);
}

/* Connections that say nothing have few places: a member still gets in at once. */
static void test_a_silent_crowd_keeps_nobody_out(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    gw_group_options opt = as_member(text);
    gw_group *group;
    int fds[CROWD];

    (void)state;
    for (int i = 0; i < CROWD; i++)
        fds[i] = call(gw_meeting_port(meeting));
    assert_run_ok(gw_group_join(&group, &opt));
    assert_int_equal(members_at(text), 1);
    for (int i = 0; i < CROWD; i++)
        close(fds[i]);
    gw_group_leave(group);
    gw_meeting_close(meeting);
}

/* ---- a thousand, while a job runs ------------------------------------------------ */

enum { THOUSAND = 1000 };

typedef struct pair {
    const char *text;
    pthread_t threads[2];
    atomic_int steps, ends;
    atomic_int failed, view;
} pair;

/* A member that steps until the test ends. */
static void *run_member(void *arg)
{
    pair *p = arg;
    gw_group_options opt = as_member(p->text);
    gw_group *group;
    gw_comm *comm = NULL;
    float ends = 0;
    gw_status st = gw_group_join(&group, &opt);

    if (st == GW_OK)
        st = gw_group_next(group, &comm);
    while (st == GW_OK && ends == 0) {
        ends = (float)p->ends;
        st = gw_allreduce(comm, &ends, 1);
        p->steps++;
        p->failed += gw_group_due(group);
    }
    p->failed += st != GW_OK;
    p->view = (int)gw_group_view(group);
    gw_comm_free(comm);
    gw_group_leave(group);
    return NULL;
}

static void await_steps(pair *p, int more)
{
    for (int from = p->steps; p->steps < from + more && p->failed == 0;)
        usleep(1000);
    assert_int_equal(p->failed, 0);
}

/* As much as this process may have open. */
static void allow_files(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur > 2 * THOUSAND);
}

/* Strangers say nothing, send a handshake byte by byte, or send noise. */
static void pester(int fd, int i, int turn)
{
    static const unsigned char hello[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01,
                                          0x00, 0x01, 0xfc, 0x03, 0x03};
    unsigned char noise[64];

    if (i % 3 == 1 && turn < (int)sizeof hello)
        (void)!send(fd, &hello[turn], 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (size_t k = 0; k < sizeof noise; k++)
        noise[k] = (unsigned char)test_random(11, (uint64_t)(i * 100 + turn) * 64 + k);
    if (i % 3 == 2)
        (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Nobody who runs notices them, and each is turned away though it never ends its
 * connection. */
static void test_a_thousand_strangers_disturb_nobody(void **state)
{
    static pair p;
    static int fds[THOUSAND];
    char text[64];
    gw_meeting *meeting = open_meeting(text);

    (void)state;
    allow_files();
    p.text = text;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&p.threads[i], NULL, run_member, &p), 0);
    await_steps(&p, 10);
    for (int i = 0; i < THOUSAND; i++) {
        fds[i] = call(gw_meeting_port(meeting));
        pester(fds[i], i, 0);
    }
    for (int turn = 1; turn < 10; turn++) {
        for (int i = 0; i < THOUSAND; i++)
            pester(fds[i], i, turn);
        await_steps(&p, 10);
    }
    for (int i = 0; i < THOUSAND; i++)
        await_end(fds[i]);
    assert_int_equal(members_at(text), 2);
    await_steps(&p, 10);
    p.ends = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(p.threads[i], NULL);
    assert_int_equal(p.failed, 0);
    assert_int_equal(p.view, 1);
    gw_meeting_close(meeting);
}

/* ---- at the port of a member ------------------------------------------------------
 */

enum { FLOOD = 300 };

typedef struct trio {
    const char *text;
    pthread_t threads[3];
    atomic_int steps[4]; /* by the number of workers */
    atomic_int ends, failed;
} trio;

/* Steps in one view after the other until the test ends. */
static gw_status work(gw_group *group, trio *t)
{
    float words[2] = {0, 0}; /* it ends, a view is due */
    gw_status st = GW_OK;
    gw_comm *comm;

    while (words[0] == 0 && (st == GW_OK || gw_group_lost(st))) {
        PASS_ON(gw_group_next(group, &comm));
        do {
            words[0] = (float)t->ends;
            words[1] = (float)gw_group_due(group);
            st = gw_allreduce(comm, words, 2);
            t->steps[gw_comm_workers(comm)] += st == GW_OK;
        } while (st == GW_OK && words[0] == 0 && words[1] == 0);
        gw_comm_free(comm);
    }
    return st;
}

static void *run_one_of_three(void *arg)
{
    trio *t = arg;
    gw_group_options opt = as_member(t->text);
    gw_group *group;

    opt.max_workers = 3;
    gw_status st = gw_group_join(&group, &opt);
    if (st == GW_OK)
        st = work(group, t);
    t->failed += st != GW_OK;
    gw_group_leave(group);
    return NULL;
}

static void find_port(void *arg, const char *line)
{
    if (*(int *)arg == 0)
        (void)sscanf(line, "member %*u %*s %*[^:]:%d runs", (int *)arg);
}

static int port_of_first(const char *text)
{
    gw_group_options opt = as_member(text);
    int port = 0;

    assert_run_ok(gw_meeting_status(&opt, find_port, &port));
    assert_true(port > 0);
    return port;
}

/* Members take callers only while they connect with each other, so nobody may answer
 * for now. */
static int begin_call(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    (void)!connect(fd, (struct sockaddr *)&at, sizeof at);
    return fd;
}

static void await_count(const trio *t, const atomic_int *count, int than)
{
    while (*count <= than && t->failed == 0)
        usleep(1000);
    assert_int_equal(t->failed, 0);
}

static void test_strangers_at_a_member_keep_nobody_out(void **state)
{
    static trio t;
    static int fds[FLOOD];
    char text[64];
    gw_meeting *meeting = open_meeting(text);

    (void)state;
    t.text = text;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t.threads[i], NULL, run_one_of_three, &t), 0);
    await_count(&t, &t.steps[2], 10);
    int port = port_of_first(text);
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = begin_call(port);
        pester(fds[i], i, 0);
    }
    await_count(&t, &t.steps[2], t.steps[2] + 10);
    assert_int_equal(pthread_create(&t.threads[2], NULL, run_one_of_three, &t), 0);
    for (int turn = 1; t.steps[3] == 0 && t.failed == 0; turn++) {
        for (int i = 0; i < FLOOD; i++)
            pester(fds[i], i, turn);
        usleep(1000);
    }
    await_count(&t, &t.steps[3], 100);
    t.ends = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(t.threads[i], NULL);
    assert_int_equal(t.failed, 0);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    gw_meeting_close(meeting);
}

/* ---- replays --------------------------------------------------------------------- */

typedef struct relay {
    int listener, port, to; /* the meeting's port */
    char recorded[8192];
    size_t len;
} relay;

/* Passes one connection on and records what the caller sends. */
static void *run_relay(void *arg)
{
    relay *r = arg;
    int near = accept(r->listener, NULL, NULL), far = call(r->to);
    struct pollfd polls[2] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    char bytes[4096];

    for (;;) {
        poll(polls, 2, -1);
        for (int i = 0; i < 2; i++) {
            if (polls[i].revents == 0)
                continue;
            ssize_t n = recv(polls[i].fd, bytes, sizeof bytes, 0);
            if (n <= 0) {
                close(near);
                close(far);
                return NULL;
            }
            if (i == 0 && r->len + (size_t)n <= sizeof r->recorded) {
                memcpy(r->recorded + r->len, bytes, (size_t)n);
                r->len += (size_t)n;
            }
            (void)!send(polls[1 - i].fd, bytes, (size_t)n, MSG_NOSIGNAL);
        }
    }
}

static void open_relay(relay *r)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(r->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(r->listener, 1), 0);
    getsockname(r->listener, (struct sockaddr *)&at, &len);
    r->port = ntohs(at.sin_port);
}

/* A member joins through the relay. Sent again, its bytes join nobody. */
static void test_a_recorded_handshake_is_worth_nothing(void **state)
{
    static relay r;
    char text[64], by_relay[64];
    gw_meeting *meeting = open_meeting(text);
    gw_group_options opt = as_member(by_relay);
    gw_group *group;
    pthread_t thread;

    (void)state;
    r.to = gw_meeting_port(meeting);
    open_relay(&r);
    snprintf(by_relay, sizeof by_relay, "tcp://127.0.0.1:%d", r.port);
    pthread_create(&thread, NULL, run_relay, &r);
    assert_run_ok(gw_group_join(&group, &opt));
    gw_group_leave(group);
    pthread_join(thread, NULL);
    close(r.listener);
    assert_true(r.len > 100);

    int fd = call(gw_meeting_port(meeting));
    (void)!send(fd, r.recorded, r.len, MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    await_end(fd);
    assert_int_equal(members_at(text), 0);
    gw_meeting_close(meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_key_is_turned_away),
        cmocka_unit_test(test_other_terms_are_refused),
        cmocka_unit_test(test_garbage_ends_the_connection),
        cmocka_unit_test(test_a_silent_crowd_keeps_nobody_out),
        cmocka_unit_test(test_a_thousand_strangers_disturb_nobody),
        cmocka_unit_test(test_strangers_at_a_member_keep_nobody_out),
        cmocka_unit_test(test_a_recorded_handshake_is_worth_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
