/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_hub.c - members that can only call out: all mixtures of them meet and
 * exchange, through a hub where they must; they die, and so does the hub. */
#define _GNU_SOURCE
#include "members.h"

#include <string.h>

enum { MOST = 4, FLOATS = 300000 };

/* ---- all mixtures meet --------------------------------------------------------------
 */

/* Long messages between all pairs: each sends each other its rank. */
static gw_status exchange(gw_comm *comm)
{
    int workers = gw_comm_workers(comm), rank = gw_comm_rank(comm);
    size_t len = FLOATS * sizeof(float), lens[MOST];
    float *x = malloc(FLOATS * sizeof *x), *all = malloc(MOST * FLOATS * sizeof *all);

    for (int i = 0; i < FLOATS; i++)
        x[i] = (float)rank;
    gw_status st = gw_allgather(comm, x, len, all, len, lens);
    for (int r = 0; st == GW_OK && r < workers; r++)
        for (int i = 0; i < FLOATS; i++)
            if (all[(size_t)r * FLOATS + (size_t)i] != (float)r)
                st = gw_fail(GW_ERR_DATA, "float %d of worker %d is wrong", i, r);
    free(x);
    free(all);
    return st;
}

static gw_status meet_once(gw_group *group, member *m)
{
    gw_comm *comm;

    PASS_ON(enter(group, m, &comm));
    gw_status st = exchange(comm);
    if (st == GW_OK)
        st = exchange(comm);
    gw_comm_free(comm);
    return st;
}

static void meet(unsigned out_only, int plain)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = MOST, .max = MOST, .plain = plain};
    member members[MOST];

    as.act = meet_once;
    for (int i = 0; i < MOST; i++) {
        as.out_only = out_only >> i & 1;
        start(&members[i], &as, i);
    }
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, MOST);
    }
    gw_meeting_close(p.meeting);
}

/* With 15 nobody can be called, and the meeting passes on. */
static void test_all_mixtures_meet(void **state)
{
    (void)state;
    for (unsigned out_only = 1; out_only < 16; out_only++)
        meet(out_only, 0);
}

static void test_they_may_go_without_encryption(void **state)
{
    (void)state;
    meet(14, 1);
    meet(15, 1);
}

static void test_an_address_is_not_for_those_who_only_call_out(void **state)
{
    member as = {.meeting = "tcp://127.0.0.1:1", .min = 1, .max = 1, .out_only = 1};
    gw_group_options opt = options_of(&as);
    gw_group *group;

    (void)state;
    opt.port = 5;
    assert_int_equal(gw_group_join(&group, &opt), GW_ERR_ARG);
    assert_non_null(strstr(gw_error_message(), "only calls out"));
}

/* ---- one is gone --------------------------------------------------------------------
 */

static int gone;
static atomic_int joined;
static pthread_barrier_t all_have_joined;

/* One of them fails in its second step; the others meet again without it. */
static gw_status outlive(gw_group *group, member *m)
{
    gw_comm *comm;
    gw_status st;

    joined++;
    pthread_barrier_wait(&all_have_joined);
    PASS_ON(enter(group, m, &comm));
    st = exchange(comm);
    if (m->number == gone) {
        PASS_ON(st);
        gw_fail(GW_ERR_DATA, "this member has had enough");
        gw_comm_fail(comm, GW_ERR_DATA);
        gw_comm_free(comm);
        return GW_OK;
    }
    if (st == GW_OK)
        st = exchange(comm);
    REQUIRE(st == GW_ERR_PEER, "a member died, and the others see %s",
            gw_status_name(st));
    gw_comm_free(comm);
    PASS_ON(enter(group, m, &comm));
    st = exchange(comm);
    gw_comm_free(comm);
    return st;
}

/* Members join one after the other, so that the hub is known. */
static void lose_one(unsigned out_only, int who)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = MOST - 1, .max = MOST, .act = outlive};
    member members[MOST];

    gone = who;
    joined = 0;
    pthread_barrier_init(&all_have_joined, NULL, MOST);
    for (int i = 0; i < MOST; i++) {
        as.out_only = out_only >> i & 1;
        start(&members[i], &as, i);
        await_more(&joined, i);
    }
    for (int i = 0; i < MOST; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, i == who ? MOST : MOST - 1);
    }
    pthread_barrier_destroy(&all_have_joined);
    gw_meeting_close(p.meeting);
}

static void test_one_behind_the_hub_is_gone(void **state)
{
    (void)state;
    lose_one(14, 2); /* member 0 is the hub of 1, 2, 3 */
    lose_one(7, 0);  /* member 3 is */
}

static void test_the_hub_is_gone(void **state)
{
    (void)state;
    lose_one(12, 0); /* then member 1 is the hub */
    lose_one(14, 0); /* then the meeting is */
}

/* ---- the status says who is the hub
 * ---------------------------------------------------
 */

typedef struct seen {
    int hubs, out_only;
} seen;

static void see(void *arg, const char *line)
{
    seen *s = arg;

    s->hubs += strstr(line, " hub") != NULL;
    s->out_only += strstr(line, "127.0.0.1:0 runs") != NULL;
}

static gw_status look(gw_group *group, member *m)
{
    gw_group_options opt = options_of(m);
    seen s = {0, 0};
    gw_comm *comm;

    PASS_ON(enter(group, m, &comm));
    PASS_ON(exchange(comm));
    PASS_ON(gw_meeting_status(&opt, see, &s));
    PASS_ON(exchange(comm));
    gw_comm_free(comm);
    REQUIRE(s.hubs == 1 && s.out_only == 2, "%d hubs, %d", s.hubs, s.out_only);
    return GW_OK;
}

static void test_the_status_names_the_hub(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 3, .max = 3, .act = look}, members[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        as.out_only = i > 0;
        start(&members[i], &as, i);
    }
    for (int i = 0; i < 3; i++)
        await(&members[i]);
    gw_meeting_close(p.meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_mixtures_meet),
        cmocka_unit_test(test_they_may_go_without_encryption),
        cmocka_unit_test(test_an_address_is_not_for_those_who_only_call_out),
        cmocka_unit_test(test_one_behind_the_hub_is_gone),
        cmocka_unit_test(test_the_hub_is_gone),
        cmocka_unit_test(test_the_status_names_the_hub),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
