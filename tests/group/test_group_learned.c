/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_learned.c - time limits that follow the usual time of a round: what is
 * learned and when, that those who pause are waited for, and that who is silent without
 * a word is given up long before the fixed limit. */
#define _GNU_SOURCE
#include "members.h"

#include <string.h>

#include "comm.h"
#include "support_sockets.h"

/* The least limit, of limit.c, and a silence that is well above it. */
#define LEAST  5.0
#define SILENT 7.0

/* The fixed limit of all comms here; nothing may come near it. */
#define FIXED 200.0

/* ---- what is learned ---------------------------------------------------------------
 */

enum { ROUNDS = 12 };

typedef struct learner {
    gw_comm *comm;
    gw_limit *limit;
    pthread_t thread;
    double nap;              /* before the sixth round */
    double seen[ROUNDS + 1]; /* the limit before each round */
    gw_status status;
} learner;

static void *run_learner(void *arg)
{
    learner *l = arg;
    float x = 1;

    for (int i = 0; i < ROUNDS && l->status == GW_OK; i++) {
        l->seen[i] = gw_limit_seconds(l->limit);
        if (i == 6 && l->nap > 0)
            usleep((useconds_t)(l->nap * 1e6));
        gwi_comm_set_step(l->comm, (uint64_t)i + 1);
        l->status = gw_allreduce(l->comm, &x, 1);
    }
    l->seen[ROUNDS] = gw_limit_seconds(l->limit);
    return NULL;
}

/* Both begin with a limit that is not learned, and one that is silent for a second
 * makes it eight. */
static void test_the_rule(void **state)
{
    socket_group *group = socket_group_new(2);
    learner l[2] = {0};

    (void)state;
    assert_non_null(group);
    for (int r = 0; r < 2; r++) {
        assert_run_ok(stream_comm_new(&l[r].comm, group, r, FIXED));
        assert_run_ok(gw_limit_new(&l[r].limit));
        assert_run_ok(gw_comm_learn(l[r].comm, l[r].limit));
        assert_int_equal(gw_comm_learn(l[r].comm, l[r].limit), GW_ERR_ARG);
    }
    l[0].nap = 1;
    for (int r = 0; r < 2; r++)
        assert_int_equal(pthread_create(&l[r].thread, NULL, run_learner, &l[r]), 0);
    for (int r = 0; r < 2; r++) {
        pthread_join(l[r].thread, NULL);
        assert_int_equal(l[r].status, GW_OK);
        for (int i = 0; i < 8; i++)
            assert_true(l[r].seen[i] == 0);
        assert_true(l[r].seen[ROUNDS] >= 8 && l[r].seen[ROUNDS] < FIXED);
        gw_comm_free(l[r].comm);
        gw_limit_free(l[r].limit);
    }
    gw_limit_free(NULL);
    socket_group_free(group);
}

static void test_transports_without_pauses_do_not_learn(void **state)
{
    socket_group *group = socket_group_new(2);
    gw_limit *limit;
    gw_comm *comm;

    (void)state;
    assert_run_ok(socket_comm_new(&comm, group, 0, 0, FIXED));
    assert_run_ok(gw_limit_new(&limit));
    assert_int_equal(gw_comm_learn(comm, limit), GW_ERR_ARG);
    gw_comm_pause(comm);
    gw_comm_free(comm);
    gw_limit_free(limit);
    socket_group_free(group);
}

/* ---- three jobs, at the same time
 * ---------------------------------------------------- */

typedef struct job {
    gw_meeting *meeting;
    char text[64];
    member members[3];
} job;

static void begin_job(job *j, const member *like, double patience)
{
    gw_meeting_options opt = {.struct_size = sizeof opt,
                              .listen = "127.0.0.1:0",
                              .key = MEMBERS_KEY,
                              .timeout_seconds = patience};
    member as = *like;

    assert_run_ok(gw_meeting_open(&j->meeting, &opt));
    snprintf(j->text, sizeof j->text, "tcp://127.0.0.1:%d",
             gw_meeting_port(j->meeting));
    as.meeting = j->text;
    for (int i = 0; i < 3; i++) {
        as.learns = i < like->learns;
        as.timeout = as.learns ? FIXED : 4 * LEAST;
        start(&j->members[i], &as, i);
    }
}

static void end_job(job *j)
{
    for (int i = 0; i < 3; i++)
        pthread_join(j->members[i].thread, NULL);
    gw_meeting_close(j->meeting);
}

/* Rounds until the limit is learned; then worker 2 is silent. */
static gw_status be_silent(gw_group *group, member *m, int pauses)
{
    gw_status st = GW_OK;
    gw_comm *comm;
    int yes;

    PASS_ON(enter(group, m, &comm));
    for (uint64_t i = 1; i <= 2 * ROUNDS && st == GW_OK; i++) {
        gwi_comm_set_step(comm, i);
        if (i == ROUNDS && m->rank == 2 && pauses)
            gw_comm_pause(comm);
        if (i == ROUNDS && m->rank == 2)
            usleep((useconds_t)(SILENT * 1e6));
        st = vote(comm, 1, &yes);
    }
    gw_comm_free(comm);
    return st;
}

static gw_status pause_for_long(gw_group *group, member *m)
{
    return be_silent(group, m, 1);
}

static gw_status say_nothing(gw_group *group, member *m)
{
    return be_silent(group, m, 0);
}

static atomic_int hung, without, over;

/* Rounds of one view, until a view of all follows that without the one that hangs. */
static gw_status rounds(gw_group *group, const member *m, gw_comm *comm, int *yes)
{
    gw_status st = GW_OK;

    for (uint64_t i = 1; st == GW_OK && *yes < 3 && !over && !gw_group_due(group);
         i++) {
        gwi_comm_set_step(comm, i);
        if (i == ROUNDS && m->rank == 2 && !hung) {
            hung = 1;
            await_more(&without, 1);
        }
        st = vote(comm, hung && m->workers == 3, yes);
    }
    return gw_group_lost(st) ? GW_OK : st;
}

/* One hangs until the others have a view without it, and comes back. */
static gw_status hang_once(gw_group *group, member *m)
{
    gw_status st = GW_OK;
    int yes = 0;

    while (st == GW_OK && yes < 3 && !over) {
        gw_comm *comm;
        st = enter(group, m, &comm);
        if (st != GW_OK)
            break;
        without += hung && m->workers == 2;
        st = rounds(group, m, comm, &yes);
        gw_comm_free(comm);
    }
    over = 1; /* who is late for the last round need not wait for those who are not */
    return st;
}

/* The limits of members differ in the third job, where one does not learn at all. */
static void test_silence(void **state)
{
    static job pausing, silent, hanging;
    double begin = gwi_now();

    (void)state;
    begin_job(&pausing,
              &(member){.min = 3, .max = 3, .learns = 3, .act = pause_for_long}, FIXED);
    begin_job(&silent, &(member){.min = 3, .max = 3, .learns = 3, .act = say_nothing},
              FIXED);
    begin_job(&hanging, &(member){.min = 2, .max = 3, .learns = 2, .act = hang_once},
              3 * LEAST);
    end_job(&pausing);
    end_job(&silent);
    end_job(&hanging);
    assert_true(gwi_now() - begin < FIXED / 2);
    for (int i = 0; i < 3; i++) {
        const member *p = &pausing.members[i], *q = &silent.members[i],
                     *h = &hanging.members[i];
        if (p->status != GW_OK || h->status != GW_OK)
            fail_msg("member %d: %s; %s", i, p->message, h->message);
        assert_true(gw_group_lost(q->status));
        if (strstr(q->message, "worker 2 ") == NULL ||
            strstr(q->message, "has not answered for") == NULL ||
            strstr(q->message, "for 200 s") != NULL)
            fail_msg("member %d: %s", i, q->message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_rule),
        cmocka_unit_test(test_transports_without_pauses_do_not_learn),
        cmocka_unit_test(test_silence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
