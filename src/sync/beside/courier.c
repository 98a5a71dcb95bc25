/* SPDX-License-Identifier: Apache-2.0
 *
 * courier.c - the thread that exchanges beside the caller. */
#include "sync/beside/courier.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>

struct gwi_courier {
    gw_sync *sync;
    bool alone; /* there is no thread; errands run where they are sent */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    gwi_errand *run; /* NULL: nothing is under way */
    bool quit;
    gw_status status; /* of the last errand */
    char message[512];
};

/* ---- the thread ------------------------------------------------------------------ */

static gwi_errand *await_errand(gwi_courier *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->run == NULL && !c->quit)
        pthread_cond_wait(&c->changed, &c->lock);
    gwi_errand *run = c->run;
    pthread_mutex_unlock(&c->lock);
    return run;
}

/* Messages belong to threads: this one's must reach the caller's. */
static void keep_outcome(gwi_courier *c, gw_status st)
{
    c->status = st;
    snprintf(c->message, sizeof c->message, "%s", gw_error_message());
}

static void *thread_main(void *arg)
{
    gwi_courier *c = arg;
    gwi_errand *run;

    while ((run = await_errand(c)) != NULL) {
        gw_status st = run(c->sync);
        gwi_lease_end(c->sync->comm->lease);
        pthread_mutex_lock(&c->lock);
        keep_outcome(c, st);
        c->run = NULL;
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

/* Signals are for the threads of the program, which may want to see them. */
static int start_thread(gwi_courier *c)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&c->thread, NULL, thread_main, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* ---- the caller's side ----------------------------------------------------------- */

gw_status gwi_courier_new(gwi_courier **out, gw_sync *s)
{
    gwi_courier *c = gwi_calloc(1, sizeof *c);

    *out = NULL;
    if (c == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to exchange beside computing");
    c->sync = s;
    c->alone = !gwi_comm_lends(s->comm);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (!c->alone && start_thread(c) != 0) {
        c->alone = true;
        gwi_courier_free(c);
        return gw_fail(GW_ERR_SYSTEM,
                       "cannot start a thread to exchange beside computing");
    }
    *out = c;
    return GW_OK;
}

static void end_thread(gwi_courier *c)
{
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
}

void gwi_courier_free(gwi_courier *c)
{
    if (c == NULL)
        return;
    if (!c->alone)
        end_thread(c);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    gwi_free(c);
}

void gwi_courier_send(gwi_courier *c, gwi_errand *run)
{
    if (c->alone) {
        keep_outcome(c, run(c->sync));
        return;
    }
    gwi_lease_lend(c->sync->comm->lease, c->thread);
    pthread_mutex_lock(&c->lock);
    c->status = GW_OK;
    c->run = run;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void gwi_courier_await(gwi_courier *c)
{
    if (c == NULL)
        return;
    pthread_mutex_lock(&c->lock);
    while (c->run != NULL)
        pthread_cond_wait(&c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

gw_status gwi_courier_outcome(gwi_courier *c)
{
    gwi_courier_await(c);
    return c->status == GW_OK ? GW_OK : gw_fail(c->status, "%s", c->message);
}
