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
#include <stdio.h>
#include <string.h>
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
    assert_non_null(strstr(gw_error_message(), "this job has 2 to 2 workers"));
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
        cmocka_unit_test(test_a_recorded_handshake_is_worth_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
