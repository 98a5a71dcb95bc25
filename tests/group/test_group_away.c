/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_away.c - a meeting ends and is opened again: those who run do not notice,
 * nobody joins meanwhile, and then the job goes on where it was. */
#define _GNU_SOURCE
#include "group.h"
#include "members.h"

#include <string.h>

enum { MOST = 3 };

/* At a port, or any; writes how members call it. */
static gw_meeting *open_meeting(int port, char text[64])
{
    char listen[32];
    gw_meeting_options opt = {.struct_size = sizeof opt, .key = MEMBERS_KEY};
    gw_meeting *meeting;

    snprintf(listen, sizeof listen, "127.0.0.1:%d", port);
    opt.listen = listen;
    assert_run_ok(gw_meeting_open(&meeting, &opt));
    snprintf(text, 64, "tcp://127.0.0.1:%d", gw_meeting_port(meeting));
    return meeting;
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
    /* Nobody leaves before the third has entered, too: it would wait for a second. */
    PASS_ON(vote(comm, 1, &due));
    gw_comm_free(comm);
    return GW_OK;
}

static void test_a_meeting_that_is_back_goes_on(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(0, text);
    int port = gw_meeting_port(meeting);
    member as = {.meeting = text, .min = 2, .max = MOST, .act = work};
    member members[MOST];
    gw_group_options late;
    gw_group *group;

    (void)state;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    await_more(&running, 1);
    gw_meeting_close(meeting);
    late = options_of(&as);
    assert_int_equal(gw_group_join(&group, &late), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "nobody answers"));
    await_more(&steps, steps + 100);

    /* Whoever is new may come before the others are back. It does not start alone. */
    meeting = open_meeting(port, text);
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
    char text[64];
    gw_meeting *meeting = open_meeting(0, text);
    int port = gw_meeting_port(meeting);
    member as = {.meeting = text, .min = 2, .max = MOST, .act = outlive};
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
    meeting = open_meeting(port, text);
    for (int i = 0; i < MOST; i++)
        await(&members[i]);
    for (int i = 1; i < MOST; i++)
        assert_int_equal(members[i].workers, MOST - 1);
    assert_int_equal(members[1].view, 2);
    assert_int_equal(members[2].view, 2);
    pthread_barrier_destroy(&all_have_joined);
    gw_meeting_close(meeting);
}

/* ---- one member alone, whose meeting is away
 * ------------------------------------------ */

static atomic_int waits_told, tries_told;

static void note(void *arg, const char *line)
{
    (void)arg;
    waits_told += strncmp(line, "waiting for the meeting, away since 2", 37) == 0;
    tries_told += strstr(line, "; asking for another view") != NULL;
}

/* One that has been in a view; it joins at its leisure, and then has a time limit of a
 * second. */
static gw_meeting *open_for_one(char text[64], member *as, gw_group **group)
{
    gw_meeting *meeting = open_meeting(0, text);
    gw_group_options opt;
    gw_comm *comm;

    *as = (member){.meeting = text, .min = 1, .max = 2, .tell = note};
    opt = options_of(as);
    assert_run_ok(gw_group_join(group, &opt));
    assert_run_ok(gw_group_next(*group, &comm));
    gw_comm_free(comm);
    (*group)->self.timeout = 1;
    waits_told = tries_told = 0;
    return meeting;
}

static void *enter_again(void *arg)
{
    const gw_tensor tensor = {.name = "w", .rows = 1, .cols = 2};
    float params[2] = {1, 2};
    gw_training t = {.struct_size = sizeof t, .spec = "dense", .params = params};
    gw_layout *layout;

    assert_run_ok(gw_layout_new(&layout, &tensor, 1));
    t.layout = layout;
    gw_status st = gw_group_enter(arg, &t);
    gw_training_end(&t);
    gw_layout_free(layout);
    return st == GW_OK ? NULL : arg;
}

static void test_the_wait_has_no_time_limit(void **state)
{
    char text[64];
    member as;
    gw_group *group;
    gw_meeting *meeting = open_for_one(text, &as, &group);
    int port = gw_meeting_port(meeting);
    pthread_t thread;
    void *failed;

    (void)state;
    gw_meeting_close(meeting);
    assert_int_equal(pthread_create(&thread, NULL, enter_again, group), 0);
    await_more(&waits_told, 0);
    usleep(2500000);
    meeting = open_meeting(port, text);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(gw_group_view(group), 2);
    assert_int_equal(waits_told, 1);
    gw_group_leave(group);
    gw_meeting_close(meeting);
}

static void test_leavers_do_not_wait_for_the_meeting(void **state)
{
    char text[64];
    member as;
    gw_group *group;
    gw_comm *comm;
    gw_meeting *meeting = open_for_one(text, &as, &group);

    (void)state;
    gw_meeting_close(meeting);
    gw_group_leaving(group);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gw_group_next(group, &comm), GW_ERR_STOPPED);
        assert_non_null(strstr(gw_error_message(), "does not answer"));
    }
    gw_group_leave(group);
}

static void test_who_has_met_nobody_gives_up(void **state)
{
    char text[64];
    gw_meeting *meeting = open_meeting(0, text);
    member as = {.meeting = text, .min = 2, .max = 2};
    gw_group_options opt = options_of(&as);
    gw_group *group;
    gw_comm *comm;

    (void)state;
    assert_run_ok(gw_group_join(&group, &opt));
    group->self.timeout = 1;
    gw_meeting_close(meeting);
    assert_int_equal(gw_group_next(group, &comm), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "has met no other yet"));
    gw_group_leave(group);
}

/* ---- a joiner that hangs while others connect with it -------------------------------
 */

static void *take_next(void *arg)
{
    gw_comm *comm;
    gw_status st = gw_group_next(arg, &comm);

    gw_comm_free(comm);
    return st == GW_OK ? NULL : arg;
}

static void test_a_joiner_that_hangs_ends_nobody(void **state)
{
    char text[64];
    member as;
    gw_group *group, *hangs;
    gw_meeting *meeting = open_for_one(text, &as, &group);
    gw_group_options opt = options_of(&as);
    pthread_t thread;
    void *failed;

    (void)state;
    assert_run_ok(gw_group_join(&hangs, &opt));
    gwg_link_ask(hangs->link, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, take_next, group), 0);
    await_more(&tries_told, 0);
    gw_group_leave(hangs);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(gw_group_view(group), 3);
    gw_group_leave(group);
    gw_meeting_close(meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_meeting_that_is_back_goes_on),
        cmocka_unit_test(test_survivors_wait_for_the_meeting),
        cmocka_unit_test(test_the_wait_has_no_time_limit),
        cmocka_unit_test(test_leavers_do_not_wait_for_the_meeting),
        cmocka_unit_test(test_who_has_met_nobody_gives_up),
        cmocka_unit_test(test_a_joiner_that_hangs_ends_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
