/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_streams.c - members with several connections to each other: they exchange
 * the same, go on when one dies, and agree on how many there are. A member that knows
 * the key and greets with wrong numbers, or twice, or with what was said before, is not
 * let in. */
#define _GNU_SOURCE
#include "members.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "talk.h"

enum { MOST = 4, FLOATS = 200000, STREAMS = 3 };

static gw_meeting *open_meeting(char text[64])
{
    gw_meeting_options opt = {.struct_size = sizeof opt,
                              .listen = "127.0.0.1:0",
                              .key = MEMBERS_KEY,
                              .timeout_seconds = 100};
    gw_meeting *meeting;

    assert_run_ok(gw_meeting_open(&meeting, &opt));
    snprintf(text, 64, "tcp://127.0.0.1:%d", gw_meeting_port(meeting));
    return meeting;
}

/* ---- they exchange ----------------------------------------------------------------
 */

/* Every member sends its rank to all others, in messages longer than a stripe. */
static gw_status exchange(gw_comm *comm)
{
    int workers = gw_comm_workers(comm), rank = gw_comm_rank(comm);
    size_t len = FLOATS * sizeof(float), lens[MOST];
    float *x = malloc(len), *all = malloc(MOST * len);

    for (int i = 0; i < FLOATS; i++)
        x[i] = (float)(rank + i);
    gw_status st = gw_allgather(comm, x, len, all, len, lens);
    for (int r = 0; st == GW_OK && r < workers; r++)
        for (int i = 0; i < FLOATS; i++)
            if (all[(size_t)r * FLOATS + (size_t)i] != (float)(r + i))
                st = gw_fail(GW_ERR_DATA, "float %d of worker %d is wrong", i, r);
    free(x);
    free(all);
    return st;
}

static gw_status meet_once(gw_group *group, member *m)
{
    gw_comm *comm;
    gw_status st;

    PASS_ON(enter(group, m, &comm));
    st = exchange(comm);
    for (int turn = 0; st == GW_OK && turn < 3; turn++)
        st = exchange(comm);
    gw_comm_free(comm);
    return st;
}

static void meet(int streams, int plain, unsigned out_only)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    member as = {.meeting = text, .min = MOST, .max = MOST, .plain = plain};
    member members[MOST];

    as.act = meet_once;
    as.streams = streams;
    for (int i = 0; i < MOST; i++) {
        as.out_only = out_only >> i & 1;
        start(&members[i], &as, i);
    }
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, MOST);
    }
    gw_meeting_close(meeting);
}

static void test_members_have_several_connections(void **state)
{
    (void)state;
    meet(STREAMS, 0, 0);
    meet(STREAMS, 1, 0);
    meet(16, 0, 0);
}

/* Those who only call out have one connection through the hub, and several to others.
 */
static void test_a_hub_passes_on_one(void **state)
{
    (void)state;
    meet(STREAMS, 0, 6);
    meet(STREAMS, 0, 14);
    meet(STREAMS, 1, 15);
}

/* ---- one dies ---------------------------------------------------------------------
 */

static atomic_int steps;

static gw_status step_until_view(gw_group *group, member *m)
{
    gw_comm *comm = NULL;
    gw_status st = GW_OK;
    int yes;

    while (m->workers != STREAMS - 1 && (st == GW_OK || gw_group_lost(st))) {
        if (comm == NULL || st != GW_OK || gw_group_due(group)) {
            gw_comm_free(comm);
            comm = NULL;
            PASS_ON(enter(group, m, &comm));
        }
        st = vote(comm, 0, &yes);
        steps++;
        if (m->number == 0 && steps > 100)
            break; /* leaves without a word to the others of its comm */
    }
    gw_comm_free(comm);
    return gw_group_lost(st) ? GW_OK : st;
}

static void test_the_others_go_on(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    member as = {.meeting = text, .min = STREAMS - 1, .max = STREAMS};
    member members[STREAMS];

    (void)state;
    as.act = step_until_view;
    as.streams = 2;
    for (int i = 0; i < STREAMS; i++)
        start(&members[i], &as, i);
    for (int i = 0; i < STREAMS; i++)
        await(&members[i]);
    gw_meeting_close(meeting);
}

/* ---- they agree -------------------------------------------------------------------
 */

static void count_members(void *arg, const char *line)
{
    *(int *)arg += strncmp(line, "member ", 7) == 0;
}

static void test_another_number_is_refused(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(text);
    member as = {.meeting = text, .min = 2, .max = 2, .streams = 2};
    gw_group_options opt = options_of(&as);
    member members[2];
    gw_group *group;

    (void)state;
    as.act = meet_once;
    start(&members[0], &as, 0);
    for (int there = 0; there == 0; usleep(1000)) /* the first one sets the terms */
        assert_run_ok(gw_meeting_status(&opt, count_members, &there));
    opt.streams = STREAMS;
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_MISMATCH);
    assert_non_null(strstr(gw_error_message(), "2 connections per pair"));
    assert_non_null(strstr(gw_error_message(), "3 connections per pair"));
    opt.streams = 17;
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_ARG);
    start(&members[1], &as, 1);
    for (int i = 0; i < 2; i++)
        await(&members[i]);
    gw_meeting_close(meeting);
}

/* ---- far away ----------------------------------------------------------------------
 */

/* A socket that takes nothing yet, such as one that is connecting, does not end a
 * handshake: it goes on once the socket takes something. */
static void test_a_handshake_waits_for_its_socket(void **state)
{
    gwg_conn *ends[2];
    gwg_tls *tls;
    char junk[4096] = {0};
    gw_status st[2] = {GW_PENDING, GW_PENDING};
    ssize_t n;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    while (send(pair[0], junk, sizeof junk, 0) > 0)
        continue;
    assert_run_ok(gwg_tls_new(&tls, "job", MEMBERS_KEY));
    assert_run_ok(gwg_conn_new(&ends[0], tls, pair[0], GWG_CALLS));
    for (int turn = 0; turn < 5; turn++) {
        assert_int_equal(gwg_conn_shake(ends[0]), GW_PENDING);
        assert_true(gwg_conn_events(ends[0]) & POLLOUT);
    }
    do
        n = recv(pair[1], junk, sizeof junk, 0);
    while (n > 0);
    assert_run_ok(gwg_conn_new(&ends[1], tls, pair[1], GWG_ANSWERS));
    for (int turn = 0; turn < 20; turn++)
        for (int i = 0; i < 2; i++)
            st[i] = st[i] == GW_PENDING ? gwg_conn_shake(ends[i]) : st[i];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(st[i], GW_OK);
        gwg_conn_free(ends[i]);
    }
    gwg_tls_free(tls);
}

/* ---- one that knows the key, and is hostile -----------------------------------------
 */

/* A member that speaks to the meeting and to others by hand. */
typedef struct intruder {
    gwg_tls *tls;
    gwg_talk meeting;
    gwg_address victim;
    unsigned long long view, id, victim_id;
} intruder;

static void put_line(gwg_talk *t, const char *line)
{
    assert_run_ok(gwg_talk_put(t, "%s", line));
    while (t->out_len > 0 || gwg_conn_unsent(t->conn) > 0)
        assert_run_ok(gwg_talk_send(t));
}

/* Returns whether a line came before the end of the connection. */
static int take_line(gwg_talk *t, char line[GWG_LINE_CAP])
{
    gw_status st;

    while ((st = gwg_talk_take(t, line)) == GW_PENDING) {
        struct pollfd p = {.fd = gwg_conn_fd(t->conn), .events = POLLIN};
        poll(&p, 1, 100);
    }
    return st == GW_OK;
}

static gwg_talk call(const intruder *x, const gwg_address *at)
{
    gwg_conn *conn;
    gw_status st;
    int fd;

    assert_run_ok(gwg_connect(at, 60, &fd));
    assert_run_ok(gwg_conn_new(&conn, x->tls, fd, GWG_CALLS));
    while ((st = gwg_conn_shake(conn)) == GW_PENDING) {
        struct pollfd p = {.fd = fd, .events = gwg_conn_events(conn)};
        poll(&p, 1, 100);
    }
    assert_run_ok(st);
    return gwg_talk_over(conn);
}

/* Joins and enters a view as the second of two members. */
static void intrude(intruder *x, int port)
{
    gwg_address at = {.host = "127.0.0.1"};
    char line[GWG_LINE_CAP];
    int named = 0;

    snprintf(at.port, sizeof at.port, "%d", port);
    assert_run_ok(gwg_tls_new(&x->tls, "job", MEMBERS_KEY));
    x->meeting = call(x, &at);
    put_line(&x->meeting, "join 3 2 2 0 3 0 - x 00000000000000aa 0 0 0");
    assert_true(take_line(&x->meeting, line));
    assert_int_equal(sscanf(line, "welcome %llu", &x->id), 1);
    put_line(&x->meeting, "next 0 0");
    while (named < 2) {
        unsigned long long id;
        gwg_address where;
        assert_true(take_line(&x->meeting, line));
        (void)sscanf(line, "view %llu", &x->view);
        if (sscanf(line, "member %llu %255s %7s", &id, where.host, where.port) != 3)
            continue;
        named++;
        if (id != x->id) {
            x->victim = where;
            x->victim_id = id;
        }
    }
}

/* Greets with something that is not a greeting of this member: nobody answers. */
static void greet_badly(const intruder *x, const char *format, int stream, int streams)
{
    char line[GWG_LINE_CAP], text[GWG_LINE_CAP];
    gwg_talk t = call(x, &x->victim);

    snprintf(text, sizeof text, format, x->view, x->id, x->victim_id, stream, streams);
    put_line(&t, text);
    assert_false(take_line(&t, line));
    gwg_talk_end(&t);
}

static gwg_talk greet_well(const intruder *x, int stream)
{
    char line[GWG_LINE_CAP], text[GWG_LINE_CAP];
    gwg_talk t = call(x, &x->victim);

    snprintf(text, sizeof text, "peer %llu %llu %llu %d %d", x->view, x->id,
             x->victim_id, stream, STREAMS);
    put_line(&t, text);
    assert_true(take_line(&t, line));
    snprintf(text, sizeof text, "peer %llu %llu %llu %d %d", x->view, x->victim_id,
             x->id, stream, STREAMS);
    assert_string_equal(line, text);
    return t;
}

static gw_status vote_once(gw_group *group, member *m)
{
    gw_comm *comm;
    int yes;

    PASS_ON(enter(group, m, &comm));
    gw_status st = vote(comm, 1, &yes);
    gw_comm_free(comm);
    return st;
}

static void greet_in_all_wrong_ways(const intruder *x)
{
    static const int wrong[][2] = {{3, 3}, {-1, 3}, {0, 2},       {0, 4},
                                   {2, 1}, {0, 0},  {1 << 30, 3}, {0, -3}};

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        greet_badly(x, "peer %llu %llu %llu %d %d", wrong[i][0], wrong[i][1]);
    greet_badly(x, "peer %llu %llu %llu", 0, 0);
    greet_badly(x, "peer %llu %llu %llu %d %d 0", 0, 3);
    greet_badly(x, "peer 9%llu %llu %llu %d %d", 0, 3);
    greet_badly(x, "peer %llu 9%llu %llu %d %d", 0, 3);
    greet_badly(x, "peer %llu %llu 9%llu %d %d", 0, 3);
}

/* A connection that is greeted for twice is the newer one; the older one ends. */
static void test_greetings_are_checked(void **state)
{
    char text[64], line[GWG_LINE_CAP];
    gw_meeting *meeting = open_meeting(text);
    member m, as = {.meeting = text, .min = 2, .max = 2, .streams = STREAMS};
    gwg_talk talks[STREAMS];
    intruder x = {0};

    (void)state;
    as.act = vote_once;
    start(&m, &as, 0);
    intrude(&x, gw_meeting_port(meeting));
    greet_in_all_wrong_ways(&x);
    gwg_talk old = greet_well(&x, 1);
    talks[1] = greet_well(&x, 1);
    assert_false(take_line(&old, line));
    talks[0] = greet_well(&x, 0);
    greet_in_all_wrong_ways(&x);
    talks[2] = greet_well(&x, 2);
    /* What was a greeting is a malformed frame now. */
    snprintf(line, sizeof line, "peer %llu %llu %llu 0 3", x.view, x.id, x.victim_id);
    put_line(&talks[0], line);
    pthread_join(m.thread, NULL);
    assert_int_equal(m.status, GW_ERR_DATA);
    for (int k = 0; k < STREAMS; k++)
        gwg_talk_end(&talks[k]);
    gwg_talk_end(&old);
    gwg_talk_end(&x.meeting);
    gwg_tls_free(x.tls);
    gw_meeting_close(meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_have_several_connections),
        cmocka_unit_test(test_a_hub_passes_on_one),
        cmocka_unit_test(test_the_others_go_on),
        cmocka_unit_test(test_another_number_is_refused),
        cmocka_unit_test(test_a_handshake_waits_for_its_socket),
        cmocka_unit_test(test_greetings_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
