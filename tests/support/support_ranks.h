/* SPDX-License-Identifier: Apache-2.0
 *
 * support_ranks.h - runs a body on several ranks over any of the transports. Bodies
 * may run in other processes, so they report by status and message and not by
 * cmocka's assertions. */
#ifndef SUPPORT_RANKS_H
#define SUPPORT_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "gradwire.h"

typedef enum rank_kind {
    RANKS_THREADS,
    RANKS_PROCESSES,
    RANKS_SOCKETS,         /* the toy custom transport, threads over socketpairs */
    RANKS_SOCKETS_NO_WAIT, /* the same without a wait function */
    RANKS_STREAMS,         /* gw_comm_sockets() over socketpairs, threads */
    RANKS_KINDS
} rank_kind;

const char *rank_kind_name(rank_kind kind);

/* Runs body on every rank; link may be NULL, timeout 0 for the default. */
gw_status ranks_run_with(rank_kind kind, int workers, const char *link, double timeout,
                         gw_body *body, void *arg);

gw_status ranks_run(rank_kind kind, int workers, gw_body *body, void *arg);

/* The number of workers that a loop over all of them takes next: every one with gcc and
 * all instructions of this CPU. What sanitizers, clang and other instruction sets show
 * does not depend on each: they take 1 to 5 and then 9, and the thread sanitizer, which
 * makes threads slow, 1, 2, 3, 5 and 9. */
int ranks_more(int workers);

/* In a body: fails it with a message when cond is false. */
#define REQUIRE(cond, ...)                            \
    do {                                              \
        if (!(cond))                                  \
            return gw_fail(GW_ERR_DATA, __VA_ARGS__); \
    } while (0)

#define PASS_ON(call)           \
    do {                        \
        gw_status st_ = (call); \
        if (st_ != GW_OK)       \
            return st_;         \
    } while (0)

/* In a test: the run succeeded, or the message says why not. */
#define assert_run_ok(st)                                                \
    do {                                                                 \
        gw_status st_ = (st);                                            \
        if (st_ != GW_OK)                                                \
            fail_msg("%s: %s", gw_status_name(st_), gw_error_message()); \
    } while (0)

/* The seed of random tests, from GW_TEST_SEED or the clock; printed once. */
uint64_t test_seed(void);

/* A number that looks random, from seed and index alone. */
uint64_t test_random(uint64_t seed, uint64_t index);

/* A float between -1 and 1 likewise. */
float test_float(uint64_t seed, uint64_t index);

#endif
