/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_relay.c - what a relay passes on arrives whole, in order, and takes no
 * more memory than it should; it does so for those whom it should, and children of its
 * process have no part in it. */
#define _GNU_SOURCE
#include "members.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "address.h"
#include "relay.h"

/* ---- who may talk through the meeting
 * ----------------------------------------------- */

static void dial(gwg_talk *talk, gwg_tls *tls, const char *meeting)
{
    gwg_address at;
    gwg_conn *conn;
    gw_status st;
    int fd;

    assert_run_ok(gwg_address_parse(meeting + strlen("tcp://"), &at));
    assert_run_ok(gwg_connect_begin(&at, &fd));
    assert_run_ok(gwg_conn_new(&conn, tls, fd, GWG_CALLS));
    while ((st = gwg_conn_shake(conn)) == GW_PENDING)
        poll(&(struct pollfd){.fd = fd, .events = gwg_conn_events(conn)}, 1, -1);
    assert_run_ok(st);
    *talk = gwg_talk_over(conn);
}

static void hear(gwg_talk *talk, char line[GWG_LINE_CAP])
{
    gw_status st;

    while ((st = gwg_talk_take(talk, line)) == GW_PENDING)
        poll(&(struct pollfd){.fd = gwg_conn_fd(talk->conn), .events = POLLIN}, 1, -1);
    assert_run_ok(st);
}

/* The key alone is not enough: the meeting passes bytes on for its view. */
static void test_the_meeting_serves_its_own_view(void **state)
{
    place p = open_place();
    char line[GWG_LINE_CAP];
    gwg_talk talk;
    gwg_tls *tls;

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    for (int view = 0; view < 2; view++) {
        dial(&talk, tls, p.text);
        assert_run_ok(gwg_talk_put(&talk, "relay %d 1 2", view));
        assert_run_ok(gwg_talk_send(&talk));
        hear(&talk, line);
        assert_string_equal(line, "refused there is no such view");
        gwg_talk_end(&talk);
    }
    gw_meeting_close(p.meeting);
    gwg_tls_free(tls);
}

/* ---- many call at once
 * ------------------------------------------------------------------ */

enum { CALLERS = 8, CALLS = 80 }; /* 8 workers make 28 pairs, for which 56 call */

static gw_group *waiting;

static gw_status wait_for_all(gw_group *group, member *m)
{
    gw_comm *comm;

    waiting = group;
    gw_status st = gw_group_next(group, &comm);
    REQUIRE(st == GW_ERR_STOPPED, "member %d ended with %s", m->number,
            gw_status_name(st));
    return GW_OK;
}

/* A worker that only calls out, and never does. */
static void join_silently(gwg_talk *talk, gwg_tls *tls, const char *meeting, int number)
{
    dial(talk, tls, meeting);
    assert_run_ok(gwg_talk_put(talk, "join 3 %d %d 0 1 0 - caller%d %016x 0 0 0",
                               CALLERS + 1, CALLERS + 1, number, number + 1));
    assert_run_ok(gwg_talk_put(talk, "next 0 0"));
    assert_run_ok(gwg_talk_send(talk));
}

static int port_of_the_hub(gwg_talk *talk)
{
    char line[GWG_LINE_CAP];
    int port = 0;

    while (port == 0) {
        hear(talk, line);
        (void)!sscanf(line, "member %*u %*s %d", &port);
    }
    return port;
}

/* All calls of a view come at once. None of them is hung up on while it shakes hands,
 * to make room for the next: that one would be, too. */
static void test_all_may_call_at_once(void **state)
{
    place p = open_place();
    member hub, as = {.meeting = p.text,
                      .min = CALLERS + 1,
                      .max = CALLERS + 1,
                      .act = wait_for_all};
    gwg_talk callers[CALLERS], last;
    int calls[CALLS];
    char text[64];
    gwg_address at;
    gwg_tls *tls;

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    start(&hub, &as, 0);
    for (int i = 0; i < CALLERS; i++)
        join_silently(&callers[i], tls, p.text, i);
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", port_of_the_hub(&callers[0]));
    assert_run_ok(gwg_address_parse(text + strlen("tcp://"), &at));
    for (int i = 0; i < CALLS; i++)
        assert_run_ok(gwg_connect_begin(&at, &calls[i]));
    dial(&last, tls, text); /* when it is in, so are those before it */
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(poll(&(struct pollfd){.fd = calls[i], .events = POLLIN}, 1, 0),
                         0);
    gw_group_interrupt(waiting);
    await(&hub);
    for (int i = 0; i < CALLS; i++)
        close(calls[i]);
    for (int i = 0; i < CALLERS; i++)
        gwg_talk_end(&callers[i]);
    gwg_talk_end(&last);
    gw_meeting_close(p.meeting);
    gwg_tls_free(tls);
}

/* ---- what a relay passes on
 * ------------------------------------------------------------ */

typedef struct ends {
    gwg_talk caller, hub; /* both ends of one connection to a relay */
} ends;

static void open_ends(ends *e, gwg_tls *tls)
{
    gwg_conn *a, *b;
    gw_status sa = GW_PENDING, sb = GW_PENDING;
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    assert_run_ok(gwg_conn_new(&a, tls, fd[0], GWG_CALLS));
    assert_run_ok(gwg_conn_new(&b, tls, fd[1], GWG_ANSWERS));
    while (sa == GW_PENDING || sb == GW_PENDING) {
        sa = gwg_conn_shake(a);
        sb = gwg_conn_shake(b);
    }
    assert_run_ok(sa);
    assert_run_ok(sb);
    *e = (ends){gwg_talk_over(a), gwg_talk_over(b)};
}

/* Returns the bare socket of a caller that has been told that the other is there. */
static int await_relayed(ends *e)
{
    char line[GWG_LINE_CAP];

    hear(&e->caller, line);
    assert_string_equal(line, "relayed");
    int fd = gwg_conn_detach(e->caller.conn);
    assert_true(fd >= 0);
    return fd;
}

static void open_pair(gwg_relay *relay, gwg_tls *tls, int fd[2], int inside[2])
{
    ends a, b;

    open_ends(&a, tls);
    open_ends(&b, tls);
    if (inside != NULL) {
        inside[0] = gwg_conn_fd(a.hub.conn);
        inside[1] = gwg_conn_fd(b.hub.conn);
    }
    assert_run_ok(gwg_relay_take(relay, &a.hub, &(gwg_pair){7, 1, 2}));
    assert_int_equal(gwg_relay_pairs(relay, 7), 0);
    assert_run_ok(gwg_relay_take(relay, &b.hub, &(gwg_pair){7, 2, 1}));
    assert_int_equal(gwg_relay_pairs(relay, 7), 1);
    assert_int_equal(gwg_relay_pairs(relay, 8), 0);
    fd[0] = await_relayed(&a);
    fd[1] = await_relayed(&b);
}

/* Byte i of what is sent. */
static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 2654435761u >> 13);
}

/* Sends until nothing has been taken for a while, which is not forever. */
static size_t send_much(int fd)
{
    unsigned char bytes[1000];
    size_t sent = 0;
    int idle = 0;

    while (idle < 20) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = byte_at(sent + i);
        ssize_t n = send(fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            sent += (size_t)n;
            idle = 0;
        } else {
            idle++;
            usleep(5000);
        }
        assert_true(sent < (size_t)64 << 20);
    }
    return sent;
}

static size_t receive_all(int fd, size_t most)
{
    unsigned char bytes[4096];
    size_t got = 0;

    while (got < most) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        poll(&p, 1, -1);
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        if (n == 0)
            break;
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], byte_at(got + (size_t)i));
        got += n > 0 ? (size_t)n : 0;
    }
    return got;
}

/* A reader that waits makes its sender wait; then all arrives, and the end does, too.
 */
static void test_a_slow_reader_slows_its_sender(void **state)
{
    gwg_relay *relay;
    gwg_tls *tls;
    int fd[2];

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_relay_new(&relay));
    open_pair(relay, tls, fd, NULL);
    size_t sent = send_much(fd[0]);
    assert_true(sent > 1 << 16);
    /* The other direction goes on meanwhile. */
    unsigned char back[1000];
    for (size_t i = 0; i < sizeof back; i++)
        back[i] = byte_at(i);
    assert_int_equal(send(fd[1], back, sizeof back, 0), sizeof back);
    assert_int_equal(receive_all(fd[0], sizeof back), sizeof back);
    close(fd[0]);
    assert_int_equal(receive_all(fd[1], SIZE_MAX), sent);
    close(fd[1]);
    while (gwg_relay_pairs(relay, 7) > 0)
        usleep(1000);
    gwg_relay_free(relay, 100);
    gwg_tls_free(tls);
}

/* A relay that is to be released goes on until its pairs have ended. */
static void *free_relay(void *relay)
{
    gwg_relay_free(relay, 100);
    return NULL;
}

static void test_a_relay_ends_after_its_pairs(void **state)
{
    gwg_relay *relay;
    gwg_tls *tls;
    pthread_t thread;
    int fd[2];

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_relay_new(&relay));
    open_pair(relay, tls, fd, NULL);
    pthread_create(&thread, NULL, free_relay, relay);
    usleep(50000);
    assert_int_equal(send(fd[0], (unsigned char[]){byte_at(0)}, 1, 0), 1);
    assert_int_equal(receive_all(fd[1], 1), 1);
    close(fd[0]);
    assert_int_equal(receive_all(fd[1], 1), 0);
    close(fd[1]);
    pthread_join(thread, NULL);
    gwg_tls_free(tls);
}

/* Whether the other side ends the connection; it must not take seconds. */
static int ends_soon(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&p, 1, 10000) == 1 && recv(fd, &byte, 1, 0) == 0;
}

/* One that calls again takes its own place; one that is gone or says too much is of no
 * use to the other, who is told by an end. */
static void test_callers_that_are_of_no_use(void **state)
{
    gwg_relay *relay;
    gwg_tls *tls;
    ends first, again, other;

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_relay_new(&relay));
    open_ends(&first, tls);
    open_ends(&again, tls);
    open_ends(&other, tls);
    assert_run_ok(gwg_relay_take(relay, &first.hub, &(gwg_pair){7, 1, 2}));
    assert_run_ok(gwg_relay_take(relay, &again.hub, &(gwg_pair){7, 1, 2}));
    assert_int_equal(gwg_talk_move(&first.caller), GW_ERR_PEER);
    gwg_talk_end(&again.caller);
    assert_int_equal(gwg_relay_take(relay, &other.hub, &(gwg_pair){7, 2, 1}),
                     GW_ERR_PEER);
    assert_int_equal(gwg_relay_pairs(relay, 7), 0);
    gwg_talk_end(&first.caller);
    gwg_talk_end(&other.caller);
    gwg_relay_free(relay, 100);
    gwg_tls_free(tls);
}

/* One that calls again has lost its connection, which the hub may not have noticed. The
 * other one must hear of it, or it would go on with the old pair and never call. */
static void test_who_calls_again_ends_the_old_pair(void **state)
{
    gwg_relay *relay;
    gwg_tls *tls;
    ends again;
    int fd[2];

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_relay_new(&relay));
    open_pair(relay, tls, fd, NULL);
    open_ends(&again, tls);
    assert_run_ok(gwg_relay_take(relay, &again.hub, &(gwg_pair){7, 2, 1}));
    assert_int_equal(gwg_relay_pairs(relay, 7), 0);
    assert_true(ends_soon(fd[0]));
    close(fd[0]);
    close(fd[1]);
    gwg_talk_end(&again.caller);
    gwg_relay_free(relay, 100);
    gwg_tls_free(tls);
}

static int is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Runs act in a child and returns what it ends with. */
static int in_child(int (*act)(const int *inside), const int *inside)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(act(inside));
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int are_open(const int *inside)
{
    return is_open(inside[0]) + is_open(inside[1]);
}

/* Its own files now have the numbers that the pair had. */
static int has_own_files(const int *inside)
{
    if (are_open(inside) > 0 || dup2(0, inside[0]) < 0 || dup2(0, inside[1]) < 0)
        return -1;
    return in_child(are_open, inside);
}

/* A child that outlives the hub must not keep pairs open, and what it opens itself is
 * none of the relay's business. */
static void test_children_have_no_pairs(void **state)
{
    gwg_relay *relay;
    gwg_tls *tls;
    int fd[2], inside[2];

    (void)state;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_relay_new(&relay));
    open_pair(relay, tls, fd, inside);
    assert_int_equal(in_child(are_open, inside), 0);
    assert_int_equal(in_child(has_own_files, inside), 2);
    assert_int_equal(send(fd[0], (unsigned char[]){byte_at(0)}, 1, 0), 1);
    assert_int_equal(receive_all(fd[1], 1), 1);
    close(fd[0]);
    close(fd[1]);
    gwg_relay_free(relay, 100);
    gwg_tls_free(tls);
}

/* A hub that cannot open enough files says so at once. It would wait in vain. */
static void test_a_hub_needs_open_files(void **state)
{
    struct rlimit before, few;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = 100;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    gw_status enough = gwg_relay_check(49), too_many = gwg_relay_check(50);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(enough, GW_OK);
    assert_int_equal(too_many, GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "may have 100"));
}

static void test_lines_to_a_hub(void **state)
{
    static const char *const bad[] = {"relay",        "relay 1 2",    "relay 1 2 2",
                                      "relay 1 2 3 ", "relay 1 2 3x", "relay x 2 3"};
    gwg_pair pair;

    (void)state;
    assert_run_ok(gwg_pair_read("relay 1 2 3", &pair));
    assert_true(pair.view == 1 && pair.from == 2 && pair.to == 3);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(gwg_pair_read(bad[i], &pair), GW_ERR_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_meeting_serves_its_own_view),
        cmocka_unit_test(test_all_may_call_at_once),
        cmocka_unit_test(test_a_slow_reader_slows_its_sender),
        cmocka_unit_test(test_a_relay_ends_after_its_pairs),
        cmocka_unit_test(test_callers_that_are_of_no_use),
        cmocka_unit_test(test_who_calls_again_ends_the_old_pair),
        cmocka_unit_test(test_children_have_no_pairs),
        cmocka_unit_test(test_a_hub_needs_open_files),
        cmocka_unit_test(test_lines_to_a_hub),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
