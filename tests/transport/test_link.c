/* SPDX-License-Identifier: Apache-2.0
 *
 * test_link.c - the emulated network. Modelled times are lower bounds that must
 * hold on any machine; how closely they are kept is measured by "gradwire bench
 * link", since a busy machine may be late. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "comm.h"
#include "transport/link.h"

static void test_parse(void **state)
{
    static const struct {
        const char *text;
        double rate, latency;
    } good[] = {
        {"1gbit", 125e6, 0},
        {"100mbit,50us", 12.5e6, 50e-6},
        {"10kbit,2ms", 1250, 2e-3},
        {"2.5gbit,0us", 312.5e6, 0},
        {"1e1mbit,1.5ms", 1.25e6, 1.5e-3},
    };
    static const char *const bad[] = {
        "",        "fast",      "1",        "1gb",        "0mbit",       "-1mbit",
        "1gbit,",  "1gbit,5",   "1gbit,5s", "1gbit,-5us", "1gbit,5us,",  "nanmbit",
        "infgbit", "1gbit 5us", ",50us",    "1mbitx",     "1gbit,50usx",
    };
    gwi_link_rate rate;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_run_ok(gwi_link_parse(good[i].text, &rate));
        assert_float_equal(rate.bytes_per_second, good[i].rate, 1e-3);
        assert_float_equal(rate.latency, good[i].latency, 1e-12);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (gwi_link_parse(bad[i], &rate) != GW_ERR_ARG)
            fail_msg("'%s' was taken for a link", bad[i]);
}

/* Messages to send at once, and the time until all are there. */
typedef struct transfer {
    const char *link;
    size_t len;
    int messages; /* from each sender */
    bool many_to_one;
    double modelled;
} transfer;

static gw_status send_all(gw_comm *c, const transfer *t, const char *buf)
{
    gwi_op ops[16];

    for (int m = 0; m < t->messages; m++)
        PASS_ON(gwi_send(c, &ops[m], 0, buf, t->len));
    return gwi_wait_all(c, ops, (size_t)t->messages);
}

static gw_status receive_all(gw_comm *c, const transfer *t, char *buf)
{
    gwi_op ops[16];
    size_t n = 0;

    for (int r = 1; r < gw_comm_workers(c); r++) {
        for (int m = 0; m < t->messages; m++, n++)
            PASS_ON(gwi_recv(c, &ops[n], r, buf + t->len * n, t->len));
    }
    return gwi_wait_all(c, ops, n);
}

static gw_status transfer_body(gw_comm *c, void *arg)
{
    const transfer *t = arg;
    char *buf = calloc(16, t->len);
    gw_status st;

    /* Nobody sends before worker 0 has come to the barrier. */
    double begin = gwi_now();
    PASS_ON(gw_barrier(c));
    st = gw_comm_rank(c) == 0 ? receive_all(c, t, buf) : send_all(c, t, buf);
    double seconds = gwi_now() - begin;
    free(buf);
    PASS_ON(st);
    if (gw_comm_rank(c) == 0) {
        REQUIRE(seconds >= 0.999 * t->modelled, "%s: %g s is faster than %g s", t->link,
                seconds, t->modelled);
    }
    return GW_OK;
}

static void test_transfers(void **state)
{
    transfer table[] = {
        {.link = "10mbit", .len = 12500, .messages = 1, .modelled = 10e-3},
        {.link = "100mbit", .len = 125000, .messages = 1, .modelled = 10e-3},
        {.link = "1gbit", .len = 1250000, .messages = 2, .modelled = 20e-3},
        {.link = "10gbit", .len = 2500000, .messages = 5, .modelled = 10e-3},
        {.link = "1gbit,5ms", .len = 1, .messages = 1, .modelled = 0},
        {.link = "10mbit,20ms", .len = 12500, .messages = 3, .modelled = 30e-3},
        /* Four senders share the receiver's interface. */
        {.link = "100mbit",
         .len = 62500,
         .messages = 2,
         .many_to_one = true,
         .modelled = 40e-3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int workers = table[i].many_to_one ? 5 : 2;
        assert_run_ok(ranks_run_with(RANKS_THREADS, workers, table[i].link, 0,
                                     transfer_body, &table[i]));
        assert_run_ok(ranks_run_with(RANKS_SOCKETS, workers, table[i].link, 0,
                                     transfer_body, &table[i]));
    }
}

/* A message there and back takes two latencies. */
static gw_status ping_body(gw_comm *c, void *arg)
{
    char byte[1] = {0};
    gwi_op op;
    double begin = gwi_now();

    (void)arg;
    if (gw_comm_rank(c) == 0) {
        PASS_ON(gwi_send(c, &op, 1, byte, 1));
        PASS_ON(gwi_wait(c, &op));
        PASS_ON(gwi_recv(c, &op, 1, byte, 1));
        PASS_ON(gwi_wait(c, &op));
        REQUIRE(gwi_now() - begin >= 40e-3, "a round trip took %g s",
                gwi_now() - begin);
        return GW_OK;
    }
    PASS_ON(gwi_recv(c, &op, 0, byte, 1));
    PASS_ON(gwi_wait(c, &op));
    PASS_ON(gwi_send(c, &op, 0, byte, 1));
    return gwi_wait(c, &op);
}

static void test_round_trip(void **state)
{
    (void)state;
    assert_run_ok(ranks_run_with(RANKS_PROCESSES, 2, "1gbit,20ms", 0, ping_body, NULL));
}

/* A message that is on its way for longer than the time limit is no silence, and
 * notes of the emulation are no traffic. */
static gw_status slow_body(gw_comm *c, void *arg)
{
    float x[1000] = {0};

    (void)arg;
    PASS_ON(gw_allreduce(c, x, 1000));
    REQUIRE(gw_comm_traffic(c).bytes_sent == 4004, "%llu bytes sent",
            (unsigned long long)gw_comm_traffic(c).bytes_sent);
    REQUIRE(gw_comm_traffic(c).messages_sent == 1, "several messages sent");
    REQUIRE(strcmp(gw_comm_transport(c), "link(local,32kbit)") == 0, "%s",
            gw_comm_transport(c));
    return GW_OK;
}

static void test_slow_is_not_silent(void **state)
{
    (void)state;
    assert_run_ok(ranks_run_with(RANKS_THREADS, 2, "32kbit", 0.3, slow_body, NULL));
}

/* Workers that wait for others, who wait for messages on their way: of a broadcast
 * from worker to worker, and of many between two that are short by themselves. */
static gw_status far_body(gw_comm *c, void *arg)
{
    char piece[800] = {0}, all[4000] = {0};

    (void)arg;
    PASS_ON(gw_broadcast(c, all, sizeof all, 0));
    for (int i = 0; i < 8; i++)
        PASS_ON(gw_transfer(c, 1, piece, 0, piece, sizeof piece));
    return gw_barrier(c);
}

static void test_waiting_for_slow_is_not_silent(void **state)
{
    static const rank_kind kinds[] = {RANKS_PROCESSES, RANKS_STREAMS};

    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_run_ok(ranks_run_with(kinds[i], 4, "64kbit", 0.5, far_body, NULL));
}

/* A worker that hangs on such a link is still found. */
static gw_status hanging_body(gw_comm *c, void *arg)
{
    char all[1000] = {0};

    PASS_ON(gw_broadcast(c, all, sizeof all, 0));
    if (gw_comm_rank(c) == 2)
        raise(SIGSTOP);
    return far_body(c, arg);
}

static void test_silent_on_slow_link_is_named(void **state)
{
    (void)state;
    assert_int_equal(
        ranks_run_with(RANKS_PROCESSES, 3, "64kbit", 0.5, hanging_body, NULL),
        GW_ERR_TIMEOUT);
    assert_non_null(strstr(gw_error_message(), "worker 2 on host"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_slow_is_not_silent),
        cmocka_unit_test(test_waiting_for_slow_is_not_silent),
        cmocka_unit_test(test_silent_on_slow_link_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
