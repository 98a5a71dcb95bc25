/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_away.c - a meeting ends and is opened again: those who run do not notice,
 * nobody joins meanwhile, and then the job goes on where it was. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gradwire_group.h"

enum { MOST = 3 };

static const char KEY[] = "the key of this test";

static gw_meeting *open_meeting(int port)
{
    char listen[32];
    gw_meeting_options opt = {.struct_size = sizeof opt, .key = KEY};
    gw_meeting *meeting;

    snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    opt.listen = listen;
    assert_run_ok(gw_meeting_open(&meeting, &opt));
    return meeting;
}

typedef struct member {
    int number, port;
    int min, max;
    gw_status (*act)(gw_group *group, struct member *m);
    pthread_t thread;
    gw_status status;
    char message[512];
    int rank, workers; /* in its last view */
    uint64_t view;
} member;

static gw_group_options options_of(const member *m, char text[64])
{
    snprintf(text, 64, "tcp://127.0.0.1:%d", m->port);
    return (gw_group_options){.struct_size = sizeof(gw_group_options),
                              .meeting = text,
                              .key = KEY,
                              .address = "127.0.0.1",
                              .min_workers = m->min,
                              .max_workers = m->max,
                              .timeout_seconds = 100};
}

static void *run_member(void *arg)
{
    member *m = arg;
    char text[64];
    gw_group_options opt = options_of(m, text);
    gw_group *group;

    m->status = gw_group_join(&group, &opt);
    if (m->status == GW_OK)
        m->status = m->act(group, m);
    snprintf(m->message, sizeof m->message, "%s",
             m->status != GW_OK ? gw_error_message() : "");
    gw_group_leave(group);
    return NULL;
}

static void start(member *m, const member *as, int number)
{
    *m = *as;
    m->number = number;
    assert_int_equal(pthread_create(&m->thread, NULL, run_member, m), 0);
}

static void await(member *m)
{
    pthread_join(m->thread, NULL);
    if (m->status != GW_OK)
        fail_msg("member %d: %s", m->number, m->message);
}

static gw_status enter(gw_group *group, member *m, gw_comm **comm)
{
    PASS_ON(gw_group_next(group, comm));
    m->rank = gw_comm_rank(*comm);
    m->workers = gw_comm_workers(*comm);
    m->view = gw_group_view(group);
    return GW_OK;
}

/* Returns in *sum how many members said yes. */
static gw_status vote(gw_comm *comm, int yes, int *sum)
{
    float x = yes != 0;

    PASS_ON(gw_allreduce(comm, &x, 1));
    *sum = (int)x;
    return GW_OK;
}

/* ---- one joins once the meeting is back ---------------------------------------------
 */

static atomic_int steps, running;

/* Two members step until a third is with them. */
static gw_status work(gw_group *group, member *m)
{
    gw_comm *comm;
    int due = 0;

    PASS_ON(enter(group, m, &comm));
    running++;
    while (m->workers < MOST) {
        PASS_ON(vote(comm, gw_group_due(group), &due));
        steps++;
        if (due == 0)
            continue;
        gw_comm_free(comm);
        PASS_ON(enter(group, m, &comm));
    }
    gw_comm_free(comm);
    return GW_OK;
}

static void await_more(atomic_int *number, int than)
{
    while (*number <= than)
        usleep(1000);
}

static void test_a_meeting_that_is_back_goes_on(void **state)
{
    gw_meeting *meeting = open_meeting(0);
    member as = {.port = gw_meeting_port(meeting), .min = 2, .max = MOST, .act = work};
    member members[MOST];
    gw_group_options late;
    gw_group *group;
    char text[64];

    (void)state;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    await_more(&running, 1);
    gw_meeting_close(meeting);
    late = options_of(&as, text);
    assert_int_equal(gw_group_join(&group, &late), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "nobody answers"));
    await_more(&steps, steps + 100);

    /* Whoever is new may come before the others are back. It does not start alone. */
    meeting = open_meeting(as.port);
    start(&members[2], &as, 2);
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, MOST);
        assert_int_equal(members[i].view, 2);
    }
    assert_int_equal(members[2].rank, 2);
    gw_meeting_close(meeting);
}

/* ---- one dies while the meeting is away
 * -----------------------------------------------
 */

static atomic_int away;
static pthread_barrier_t all_have_joined;

/* Member 0 ends once the meeting is away. The others wait for the next view. */
static gw_status outlive(gw_group *group, member *m)
{
    gw_comm *comm;
    int sum = 0;
    gw_status st = GW_OK;

    pthread_barrier_wait(&all_have_joined);
    PASS_ON(enter(group, m, &comm));
    running++;
    while (st == GW_OK && !(m->number == 0 && away))
        st = vote(comm, 1, &sum);
    gw_comm_free(comm);
    running--;
    if (m->number == 0)
        return GW_OK;
    PASS_ON(enter(group, m, &comm));
    st = vote(comm, 1, &sum);
    gw_comm_free(comm);
    return st;
}

static void test_survivors_wait_for_the_meeting(void **state)
{
    gw_meeting *meeting = open_meeting(0);
    member as = {
        .port = gw_meeting_port(meeting), .min = 2, .max = MOST, .act = outlive};
    member members[MOST];

    (void)state;
    running = 0;
    pthread_barrier_init(&all_have_joined, NULL, MOST);
    for (int i = 0; i < MOST; i++)
        start(&members[i], &as, i);
    await_more(&running, MOST - 1);
    gw_meeting_close(meeting);
    away = 1;
    while (running > 0)
        usleep(1000);
    meeting = open_meeting(as.port);
    for (int i = 0; i < MOST; i++)
        await(&members[i]);
    for (int i = 1; i < MOST; i++)
        assert_int_equal(members[i].workers, MOST - 1);
    assert_int_equal(members[1].view, 2);
    assert_int_equal(members[2].view, 2);
    pthread_barrier_destroy(&all_have_joined);
    gw_meeting_close(meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_meeting_that_is_back_goes_on),
        cmocka_unit_test(test_survivors_wait_for_the_meeting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
