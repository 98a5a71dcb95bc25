/* SPDX-License-Identifier: Apache-2.0
 *
 * support_ranks.c - runs a body on several ranks over any of the transports. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "support_sockets.h"

static gw_status make_sockets(gw_comm **out, socket_group *group, int rank,
                              double timeout)
{
    return socket_comm_new(out, group, rank, 0, timeout);
}

static gw_status make_sockets_no_wait(gw_comm **out, socket_group *group, int rank,
                                      double timeout)
{
    return socket_comm_new(out, group, rank, 1, timeout);
}

/* How each kind makes the comm of a rank, out of the socket pairs of all ranks;
 * gw_local_run() makes those that have no function here. */
static const struct {
    const char *name;
    gw_status (*make)(gw_comm **out, socket_group *group, int rank, double timeout);
} kinds[RANKS_KINDS] = {
    [RANKS_THREADS] = {"threads", NULL},
    [RANKS_PROCESSES] = {"processes", NULL},
    [RANKS_SOCKETS] = {"sockets", make_sockets},
    [RANKS_SOCKETS_NO_WAIT] = {"sockets without wait", make_sockets_no_wait},
    [RANKS_STREAMS] = {"streams", stream_comm_new},
};

const char *rank_kind_name(rank_kind kind)
{
    return kinds[kind].name;
}

/* ---- threads over sockets ----------------------------------------------- */

typedef struct socket_rank {
    socket_group *group;
    const char *link;
    gw_body *body;
    void *arg;
    double timeout;
    int rank;
    rank_kind kind;
    pthread_t thread;
    gw_status status;
    char message[512];
} socket_rank;

static void *socket_thread(void *arg)
{
    socket_rank *r = arg;
    gw_comm *comm = NULL;

    r->status = kinds[r->kind].make(&comm, r->group, r->rank, r->timeout);
    if (r->status == GW_OK && r->link != NULL)
        r->status = gw_comm_link(comm, r->link);
    if (r->status == GW_OK)
        r->status = r->body(comm, r->arg);
    snprintf(r->message, sizeof r->message, "%s", gw_error_message());
    gw_comm_free(comm);
    return NULL;
}

static gw_status run_sockets(int workers, rank_kind kind, const char *link,
                             double timeout, gw_body *body, void *arg)
{
    socket_group *group = socket_group_new(workers);
    socket_rank *ranks = calloc((size_t)workers, sizeof *ranks);
    gw_status st = GW_OK;

    for (int r = 0; r < workers; r++) {
        ranks[r] = (socket_rank){.group = group,
                                 .link = link,
                                 .body = body,
                                 .arg = arg,
                                 .timeout = timeout,
                                 .rank = r,
                                 .kind = kind};
        pthread_create(&ranks[r].thread, NULL, socket_thread, &ranks[r]);
    }
    for (int r = 0; r < workers; r++)
        pthread_join(ranks[r].thread, NULL);
    for (int r = workers - 1; r >= 0; r--)
        if (ranks[r].status != GW_OK)
            st = gw_fail(ranks[r].status, "%s", ranks[r].message);
    free(ranks);
    socket_group_free(group);
    return st;
}

/* ---- any ---------------------------------------------------------------- */

gw_status ranks_run_with(rank_kind kind, int workers, const char *link, double timeout,
                         gw_body *body, void *arg)
{
    gw_local_options opt = {.struct_size = sizeof opt,
                            .workers = workers,
                            .spawn = kind == RANKS_THREADS ? GW_SPAWN_THREADS
                                                           : GW_SPAWN_PROCESSES,
                            .timeout_seconds = timeout,
                            .link = link};

    if (kinds[kind].name == NULL)
        return gw_fail(GW_ERR_ARG, "no line in `kinds` for kind %d", (int)kind);
    if (kinds[kind].make == NULL)
        return gw_local_run(&opt, body, arg);
    return run_sockets(workers, kind, link, timeout, body, arg);
}

gw_status ranks_run(rank_kind kind, int workers, gw_body *body, void *arg)
{
    return ranks_run_with(kind, workers, NULL, 0, body, arg);
}

/* ---- random numbers ---------------------------------------------------------------
 */

uint64_t test_seed(void)
{
    static uint64_t seed;

    if (seed == 0) {
        const char *text = getenv("GW_TEST_SEED");
        if (text == NULL)
            text = getenv("GW_DEFAULT_SEED");
        seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
        print_message("GW_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    return seed;
}

uint64_t test_random(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + index * 0xbf58476d1ce4e5b9u + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

float test_float(uint64_t seed, uint64_t index)
{
    return (float)(int32_t)test_random(seed, index) * 0x1p-31f;
}

/* ---- how many ----------------------------------------------------------------------
 */

#if defined(__SANITIZE_ADDRESS__) || defined(__clang__)
enum { TAKES_ALL = 0 };
#else
enum { TAKES_ALL = 1 };
#endif

int ranks_more(int workers)
{
#if defined(__SANITIZE_THREAD__)
    return workers + (workers < 3 ? 1 : workers - 1);
#else
    bool all = TAKES_ALL && getenv("GW_CPU_OFF") == NULL;

    return workers == 5 && !all ? 9 : workers + 1;
#endif
}
