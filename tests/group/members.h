/* SPDX-License-Identifier: Apache-2.0
 *
 * members.h - members of a job as threads, for tests of meetings. */
#ifndef TESTS_MEMBERS_H
#define TESTS_MEMBERS_H

#include "support_ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gradwire_group.h"

#define MEMBERS_KEY "the key of this test"

typedef struct place {
    gw_meeting *meeting;
    char text[64]; /* tcp://127.0.0.1:PORT */
} place;

static inline place open_place(void)
{
    gw_meeting_options opt = {.struct_size = sizeof opt,
                              .listen = "127.0.0.1:0",
                              .key = MEMBERS_KEY,
                              .timeout_seconds = 100};
    place p;

    assert_run_ok(gw_meeting_open(&p.meeting, &opt));
    snprintf(p.text, sizeof p.text, "tcp://127.0.0.1:%d", gw_meeting_port(p.meeting));
    return p;
}

typedef struct member {
    int number;
    const char *meeting;
    int min, max, plain, out_only, streams, learns;
    double timeout; /* 0: 100 s */
    void (*tell)(void *arg, const char *line);
    gw_status (*act)(gw_group *group, struct member *m);
    pthread_t thread;
    gw_status status;
    char message[512];
    int rank, workers; /* in its last view */
    uint64_t view;
} member;

static inline gw_group_options options_of(const member *m)
{
    return (gw_group_options){.struct_size = sizeof(gw_group_options),
                              .meeting = m->meeting,
                              .key = MEMBERS_KEY,
                              .address = m->out_only ? NULL : "127.0.0.1",
                              .out_only = m->out_only,
                              .plain = m->plain,
                              .streams = m->streams,
                              .learn_timeout = m->learns,
                              .min_workers = m->min,
                              .max_workers = m->max,
                              .tell = m->tell,
                              .timeout_seconds = m->timeout > 0 ? m->timeout : 100};
}

static inline void *run_member(void *arg)
{
    member *m = arg;
    gw_group_options opt = options_of(m);
    gw_group *group;

    m->status = gw_group_join(&group, &opt);
    if (m->status == GW_OK)
        m->status = m->act(group, m);
    snprintf(m->message, sizeof m->message, "%s",
             m->status != GW_OK ? gw_error_message() : "");
    gw_group_leave(group);
    return NULL;
}

static inline void start(member *m, const member *as, int number)
{
    *m = *as;
    m->number = number;
    assert_int_equal(pthread_create(&m->thread, NULL, run_member, m), 0);
}

static inline void await(member *m)
{
    pthread_join(m->thread, NULL);
    if (m->status != GW_OK)
        fail_msg("member %d: %s", m->number, m->message);
}

static inline gw_status enter(gw_group *group, member *m, gw_comm **comm)
{
    PASS_ON(gw_group_next(group, comm));
    m->rank = gw_comm_rank(*comm);
    m->workers = gw_comm_workers(*comm);
    m->view = gw_group_view(group);
    return GW_OK;
}

/* Returns in *sum how many members said yes. */
static inline gw_status vote(gw_comm *comm, int yes, int *sum)
{
    float x = yes != 0;

    PASS_ON(gw_allreduce(comm, &x, 1));
    *sum = (int)x;
    return GW_OK;
}

static inline void await_more(atomic_int *number, int than)
{
    while (*number <= than)
        usleep(1000);
}

#endif
