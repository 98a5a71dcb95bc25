/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_views.c - members of a job meet, exchange, die, join and leave. */
#define _GNU_SOURCE
#include "members.h"

#include <math.h>
#include <string.h>

enum { MOST = 4, FLOATS = 200000 };

/* Members that must enter the same view join first and then pass this. */
static pthread_barrier_t all_have_joined;

/* ---- exchanging
 * -------------------------------------------------------------------------- */

/* Adds 1 to every sum, so all know how many took part. */
static gw_status count_workers(gw_comm *comm)
{
    float *x = malloc(FLOATS * sizeof *x), expected = (float)gw_comm_workers(comm);

    for (int i = 0; i < FLOATS; i++)
        x[i] = 1;
    gw_status st = gw_allreduce(comm, x, FLOATS);
    for (int i = 0; st == GW_OK && i < FLOATS; i++)
        if (x[i] != expected)
            st = gw_fail(GW_ERR_DATA, "a sum is %g", x[i]);
    free(x);
    return st;
}

static void report(gw_group *group, uint64_t step)
{
    gw_group_report(group,
                    &(gw_group_progress){.struct_size = sizeof(gw_group_progress),
                                         .step = step,
                                         .loss = 0.5,
                                         .samples = NAN,
                                         .bytes_sent = 1000});
}

static gw_status meet_once(gw_group *group, member *m)
{
    gw_comm *comm;

    PASS_ON(enter(group, m, &comm));
    gw_status st = count_workers(comm);
    gw_comm_free(comm);
    return st;
}

static void meet(int workers, int plain)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = workers, .max = workers, .plain = plain};
    member members[MOST];
    int seen = 0;

    as.act = meet_once;
    for (int i = 0; i < workers; i++)
        start(&members[i], &as, i);
    for (int i = 0; i < workers; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, workers);
        seen |= 1 << members[i].rank;
    }
    assert_int_equal(seen, (1 << workers) - 1);
    gw_meeting_close(p.meeting);
}

static void test_members_meet(void **state)
{
    (void)state;
    for (int workers = 1; workers <= MOST; workers++)
        meet(workers, 0);
}

static void test_members_may_go_without_encryption(void **state)
{
    (void)state;
    meet(3, 1);
}

/* ---- one dies
 * ------------------------------------------------------------------------------ */

/* Member 0 fails in its second step. The others go on in the next view without it. */
static gw_status outlive(gw_group *group, member *m)
{
    gw_comm *comm;
    gw_status st;

    pthread_barrier_wait(&all_have_joined);
    PASS_ON(enter(group, m, &comm));
    st = count_workers(comm);
    if (m->number == 0) {
        PASS_ON(st);
        gw_fail(GW_ERR_DATA, "member 0 has had enough");
        gw_comm_fail(comm, GW_ERR_DATA);
        gw_comm_free(comm);
        return GW_OK;
    }
    /* Those who are late see it in the first step. */
    if (st == GW_OK)
        st = count_workers(comm);
    REQUIRE(st == GW_ERR_PEER, "a member died, and the others see %s",
            gw_status_name(st));
    gw_comm_free(comm);
    PASS_ON(enter(group, m, &comm));
    st = count_workers(comm);
    gw_comm_free(comm);
    return st;
}

static void test_survivors_go_on(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = MOST - 1, .max = MOST, .act = outlive};
    member members[MOST];

    (void)state;
    pthread_barrier_init(&all_have_joined, NULL, MOST);
    for (int i = 0; i < MOST; i++)
        start(&members[i], &as, i);
    for (int i = 0; i < MOST; i++)
        await(&members[i]);
    for (int i = 1; i < MOST; i++)
        assert_int_equal(members[i].workers, MOST - 1);
    pthread_barrier_destroy(&all_have_joined);
    gw_meeting_close(p.meeting);
}

/* ---- one joins later
 * --------------------------------------------------------------------------- */

/* Steps until MOST workers have made some together, changing views when one is due. */
static gw_status grow(gw_group *group, member *m)
{
    gw_comm *comm;
    int together = 0;

    PASS_ON(enter(group, m, &comm));
    while (together < 3) {
        float due = (float)gw_group_due(group);
        PASS_ON(count_workers(comm));
        together += gw_comm_workers(comm) == MOST;
        /* All leave the view after the same step. */
        PASS_ON(gw_allreduce(comm, &due, 1));
        if (due > 0) {
            gw_comm_free(comm);
            PASS_ON(enter(group, m, &comm));
        }
        report(group, 7);
    }
    gw_comm_free(comm);
    return GW_OK;
}

static void test_joiners_enter(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = MOST, .act = grow}, members[MOST];

    (void)state;
    for (int i = 0; i < MOST; i++)
        start(&members[i], &as, i);
    for (int i = 0; i < MOST; i++)
        await(&members[i]);
    for (int i = 0; i < MOST; i++)
        assert_int_equal(members[i].workers, MOST);
    gw_meeting_close(p.meeting);
}

/* ---- a worker that was started otherwise --------------------------------------------
 */

static atomic_int training, over;

/* A step; in the next view once more if somebody is gone. */
static gw_status make_step(gw_group *group, gw_training *t, float *grad)
{
    gw_status st = gw_sync_gradient(t->sync, grad);

    while (gw_group_lost(st)) {
        PASS_ON(gw_group_enter(group, t));
        st = gw_sync_gradient(t->sync, grad);
    }
    PASS_ON(st);
    return gw_group_due(group) ? gw_group_enter(group, t) : GW_OK;
}

/* Trains until all have heard that it is over. */
static gw_status train(gw_group *group, member *m)
{
    const gw_tensor tensor = {.name = "w", .rows = 1, .cols = 2};
    float params[2] = {0, 0}, grad[2] = {0, 0};
    gw_layout *layout;

    PASS_ON(gw_layout_new(&layout, &tensor, 1));
    gw_training t = {.struct_size = sizeof t,
                     .spec = m->number == 2 ? "topk:0.5" : "dense",
                     .layout = layout,
                     .params = params};
    gw_status st = gw_group_enter(group, &t);
    training += st == GW_OK;
    while (st == GW_OK && grad[0] == 0) {
        grad[0] = (float)over;
        st = make_step(group, &t, grad);
    }
    if (st == GW_OK)
        m->workers = gw_comm_workers(t.comm);
    gw_training_end(&t);
    gw_layout_free(layout);
    return st;
}

static void test_another_spec_harms_nobody(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = 3, .act = train}, members[3];

    (void)state;
    training = over = 0;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    while (training < 2)
        usleep(1000);
    start(&members[2], &as, 2);
    pthread_join(members[2].thread, NULL);
    assert_int_equal(members[2].status, GW_ERR_MISMATCH);
    if (strstr(members[2].message, "uses 'topk:") == NULL ||
        strstr(members[2].message, "uses 'dense'") == NULL)
        fail_msg("%s", members[2].message);
    over = 1;
    for (int i = 0; i < 2; i++) {
        await(&members[i]);
        assert_int_equal(members[i].workers, 2);
    }
    gw_meeting_close(p.meeting);
}

/* ---- the meeting itself
 * ------------------------------------------------------------------------- */

static atomic_int entered, closed;

/* Steps until the meeting is closed, and once more after that. */
static gw_status work_on(gw_group *group, member *m)
{
    gw_comm *comm;
    float ends = 0;

    PASS_ON(enter(group, m, &comm));
    entered++;
    while (ends == 0) {
        ends = (float)closed;
        PASS_ON(count_workers(comm));
        PASS_ON(gw_allreduce(comm, &ends, 1));
    }
    report(group, 1);
    REQUIRE(gw_group_due(group) == 0, "a new view is due without a meeting");
    PASS_ON(count_workers(comm));
    gw_comm_free(comm);
    return GW_OK;
}

static void test_work_goes_on_without_the_meeting(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = 2, .act = work_on}, members[2];
    gw_group *group;

    (void)state;
    entered = closed = 0;
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    while (entered < 2)
        usleep(1000);
    gw_meeting_close(p.meeting);
    closed = 1;
    for (int i = 0; i < 2; i++)
        await(&members[i]);
    gw_group_options late = options_of(&as);
    assert_int_equal(gw_group_join(&group, &late), GW_ERR_PEER);
    assert_non_null(strstr(gw_error_message(), "nobody answers"));
    assert_null(group);
}

typedef struct heard {
    int lines, reports;
} heard;

static void count_lines(void *arg, const char *line)
{
    heard *h = arg;

    assert_true(strncmp(line, "job ", 4) == 0 || strncmp(line, "member ", 7) == 0);
    h->lines++;
    h->reports += strstr(line, " waits 7 0 0.5 nan 1000") != NULL;
}

static void test_status_lists_members(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = 2};
    gw_group_options opt = options_of(&as);
    gw_group *group;
    heard h = {0};

    (void)state;
    assert_run_ok(gw_group_join(&group, &opt));
    report(group, 7);
    while (h.reports == 0) {
        h.lines = 0;
        assert_run_ok(gw_meeting_status(&opt, count_lines, &h));
        assert_int_equal(h.lines, 2);
    }
    gw_group_leave(group);
    gw_meeting_close(p.meeting);
}

static void test_waiting_can_be_interrupted(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = 2};
    gw_group_options opt = options_of(&as);
    gw_group *group;
    gw_comm *comm;

    (void)state;
    assert_run_ok(gw_group_join(&group, &opt));
    gw_group_interrupt(group);
    assert_int_equal(gw_group_next(group, &comm), GW_ERR_STOPPED);
    assert_null(comm);
    gw_group_leave(group);
    gw_meeting_close(p.meeting);
}

/* Two that are all there are: one has left, and the other one is about to. */
static gw_status wait_to_leave(gw_group *group, member *m)
{
    gw_comm *comm;

    pthread_barrier_wait(&all_have_joined);
    PASS_ON(enter(group, m, &comm));
    gw_comm_free(comm);
    if (m->number == 1) /* it leaves at once, and the other one is too few */
        return GW_OK;
    gw_group_leaving(group);
    for (int i = 0; i < 2; i++) {
        gw_status st = gw_group_next(group, &comm);
        REQUIRE(st == GW_ERR_STOPPED, "a member that leaves and has no others sees %s",
                gw_status_name(st));
    }
    return GW_OK;
}

static void test_leavers_do_not_wait_for_more(void **state)
{
    place p = open_place();
    member as = {.meeting = p.text, .min = 2, .max = 2, .act = wait_to_leave};
    gw_group_options opt = options_of(&as);
    member members[2];
    gw_group *group;
    gw_comm *comm;

    (void)state;
    assert_run_ok(gw_group_join(&group, &opt));
    gw_group_leaving(group);
    assert_int_equal(gw_group_next(group, &comm), GW_ERR_STOPPED);
    gw_group_leave(group);
    pthread_barrier_init(&all_have_joined, NULL, 2);
    for (int i = 0; i < 2; i++)
        start(&members[i], &as, i);
    for (int i = 0; i < 2; i++)
        await(&members[i]);
    pthread_barrier_destroy(&all_have_joined);
    gw_meeting_close(p.meeting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_meet),
        cmocka_unit_test(test_members_may_go_without_encryption),
        cmocka_unit_test(test_survivors_go_on),
        cmocka_unit_test(test_joiners_enter),
        cmocka_unit_test(test_another_spec_harms_nobody),
        cmocka_unit_test(test_work_goes_on_without_the_meeting),
        cmocka_unit_test(test_status_lists_members),
        cmocka_unit_test(test_waiting_can_be_interrupted),
        cmocka_unit_test(test_leavers_do_not_wait_for_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
