/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_work.c - worker 0 works in a thread of its own and tells the others that it is
 * still working:
 *
 *     worker 0   thread:      work ....................
 *                itself:      tells    tells    tells    has ended
 *     others                  hear     hear     hear     go on
 */
#define _GNU_SOURCE
#include "run/slow_work.h"
#include "common.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* The time between two messages to the others; less if the time limit is short. */
#define TELL_SECONDS 0.25

enum { GOES_ON, HAS_ENDED };

typedef struct errand {
    gw_status (*work)(void *arg);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int has_ended;
    gw_status status;
    char why[512];
} errand;

static void do_work(errand *e)
{
    e->status = e->work(e->arg);
    if (e->status != GW_OK)
        snprintf(e->why, sizeof e->why, "%s", gw_error_message());
}

static void *thread_main(void *arg)
{
    errand *e = arg;

    do_work(e);
    pthread_mutex_lock(&e->lock);
    e->has_ended = 1;
    pthread_cond_signal(&e->ended);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* The waiting thread handles signals. */
static int start_thread(pthread_t *thread, errand *e)
{
    sigset_t all, before;
    int bad;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    bad = pthread_create(thread, NULL, thread_main, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return bad;
}

static struct timespec in_seconds(double seconds)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += (long)(1e9 * seconds); /* less than one second */
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

/* Waits that long at most, and returns whether the work has ended. */
static int wait_a_little(errand *e, double seconds)
{
    struct timespec until = in_seconds(seconds);
    int ended, late = 0;

    pthread_mutex_lock(&e->lock);
    while (!e->has_ended && !late)
        late = pthread_cond_timedwait(&e->ended, &e->lock, &until) != 0;
    ended = e->has_ended;
    pthread_mutex_unlock(&e->lock);
    return ended;
}

static gw_status tell(gw_comm *comm, uint8_t word)
{
    return gw_broadcast(comm, &word, sizeof word, 0);
}

static gw_status tell_until_it_ends(errand *e, gw_comm *comm, double seconds)
{
    while (!wait_a_little(e, seconds))
        GWT_TRY(tell(comm, GOES_ON));
    return tell(comm, HAS_ENDED);
}

static gw_status work_and_tell(errand *e, gw_comm *comm, double seconds)
{
    pthread_condattr_t clock;
    pthread_t thread;
    gw_status st;

    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&e->ended, &clock);
    pthread_condattr_destroy(&clock);
    if (start_thread(&thread, e) == 0) {
        st = tell_until_it_ends(e, comm, seconds);
        pthread_join(thread, NULL);
    } else {
        do_work(e); /* without a thread, the work still succeeds if it is quick */
        st = tell(comm, HAS_ENDED);
    }
    pthread_cond_destroy(&e->ended);
    pthread_mutex_destroy(&e->lock);
    return st;
}

static gw_status wait_for_it(gw_comm *comm)
{
    uint8_t word = GOES_ON;

    while (word == GOES_ON)
        GWT_TRY(gw_broadcast(comm, &word, sizeof word, 0));
    return GW_OK;
}

gw_status gwt_slow_work(gw_comm *comm, double timeout, gw_status (*work)(void *arg),
                        void *arg)
{
    errand e = {.work = work, .arg = arg};
    double seconds = timeout / 4 < TELL_SECONDS ? timeout / 4 : TELL_SECONDS;
    gw_status st;

    if (gw_comm_workers(comm) == 1)
        return work(arg);
    if (gw_comm_rank(comm) != 0)
        return wait_for_it(comm);
    st = work_and_tell(&e, comm, seconds);
    if (e.status != GW_OK)
        return gw_fail(e.status, "%s", e.why);
    return st;
}
