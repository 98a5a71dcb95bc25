/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_wait.c - sleeping until a message may have come.
 *
 * MPI has no way to sleep: it either polls or spins. If there are more ranks than
 * cores, a rank that spins takes the core from the one it waits for. So this file polls
 * a few times, gives the core away in between, and then naps for growing times while
 * nothing happens. */
#define _GNU_SOURCE
#include "mpi_end.h"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

/* Looks before the first nap: some 20 us on an idle machine, in which the answer to
 * a short message comes on a fast network. */
enum { LOOKS = 16, NAPS_PER_LENGTH = 8 };

/* A nap delays what MPI would do meanwhile: at 1 Gbit/s 200 us are 25 kB, which the
 * buffers of a socket hold easily. */
#define FIRST_NAP   20e-6
#define LONGEST_NAP 200e-6

/* How often to poll for control messages, which report failures. */
#define LISTEN_EVERY 0.02

/* After so many seconds without progress, and again after each interval, the worker
 * that is waited for is asked for a sign of life. */
#define ASK_EVERY 1.0

double gwm_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Linux lets timers fire up to 50 us late to save power, which is longer than a nap.
 * The setting belongs to a thread, so each thread makes it here. */
static void sharpen_timers(void)
{
    static _Thread_local bool done;

    if (!done)
        prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    done = true;
}

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    sharpen_timers();
    nanosleep(&t, NULL);
}

void gwm_rest(int turn, double at_most)
{
    double seconds = FIRST_NAP;

    if (turn < LOOKS) {
        sched_yield();
        return;
    }
    for (int i = LOOKS; i + NAPS_PER_LENGTH <= turn && seconds < LONGEST_NAP;
         i += NAPS_PER_LENGTH)
        seconds *= 2;
    seconds = seconds < LONGEST_NAP ? seconds : LONGEST_NAP;
    nap(seconds < at_most ? seconds : at_most);
}

static gw_status wait_blocking(gwm_end *e, double seconds)
{
    bool moved;

    if (e->flying == 0) {
        nap(seconds);
        return GW_PENDING;
    }
    GWM_TRY(gwm_sweep(e, true, &moved));
    return GW_OK;
}

static const char *host_of(const gwm_end *e, int rank)
{
    return e->hosts + (size_t)rank * MPI_MAX_PROCESSOR_NAME;
}

/* Who this worker has been waiting for the longest, or -1. It may be one that does
 * not take a long message. */
static int awaited(const gwm_end *e)
{
    return e->flying > 0 ? e->owners[0]->peer : -1;
}

/* After a while without messages the one that is awaited is asked whether it is still
 * there: it may have ended in order, having made other calls than this one. */
static gw_status ask_now_and_then(gwm_end *e, double now)
{
    int peer = awaited(e);
    bool moved;

    if (peer < 0 || now - e->moved_at < ASK_EVERY)
        return GW_OK;
    if (e->left_rank == peer) {
        /* What it sent before it answered is here by now. */
        GWM_TRY(gwm_sweep(e, false, &moved));
        return moved ? GW_OK
                     : gw_fail(GW_ERR_PEER, "worker %d on host %s has already ended",
                               peer, host_of(e, peer));
    }
    if (now - e->asked_at >= ASK_EVERY) {
        e->asked_at = now;
        gwm_ask(e, peer);
    }
    return GW_OK;
}

static gw_status listen_now_and_then(gwm_end *e, double now)
{
    if (now - e->looked_at < LISTEN_EVERY)
        return GW_OK;
    e->looked_at = now;
    GWM_TRY(gwm_listen(e));
    if (e->failed_rank < 0)
        return ask_now_and_then(e, now);
    return gw_fail(GW_ERR_PEER, "worker %d on host %s failed: %s", e->failed_rank,
                   host_of(e, e->failed_rank), e->failed_reason);
}

gw_status gwm_wait(void *ctx, double seconds)
{
    gwm_end *e = ctx;
    double now = gwm_now(), end = now + seconds;

    if (e->blocking)
        return wait_blocking(e, seconds);
    for (int turn = 0; now < end; turn++) {
        bool moved;
        GWM_TRY(gwm_sweep(e, false, &moved));
        if (moved)
            return GW_OK;
        GWM_TRY(listen_now_and_then(e, now));
        gwm_rest(turn, end - now);
        now = gwm_now();
    }
    return now < e->others_until ? GW_OK : GW_PENDING;
}
