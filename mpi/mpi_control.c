/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_control.c - control messages: what workers tell each other besides data.
 *
 * A worker that fails sends its reason to all others, so that nobody waits for it until
 * the time limit. A worker whose patience is over asks everybody for a sign of life:
 * those that also wait answer, but the one they all wait for does not. Control messages
 * are short, so MPI accepts them before anybody receives them. */
#define _GNU_SOURCE
#include "mpi_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How long to wait for a sign of life. A waiting worker polls for control messages 50
 * times a second, but on a crowded machine it may have to wait for a core. */
#define ANSWER_SECONDS 3.0

/* How long to wait for control messages to leave after a failure and at the end. */
#define LEAVE_SECONDS 0.5

struct gwm_outgoing {
    gwm_outgoing *next;
    MPI_Request request;
    gwm_control control;
};

/* Does not report failures: a worker that cannot be told finds out in another way. */
static void post_control(gwm_end *e, int to, const gwm_control *control)
{
    gwm_outgoing *sent = calloc(1, sizeof *sent);

    if (sent == NULL)
        return;
    sent->control = *control;
    if (MPI_Isend(&sent->control, (int)sizeof sent->control, MPI_BYTE, to,
                  GWM_TAG_CONTROL, e->comm, &sent->request) != MPI_SUCCESS) {
        free(sent);
        return;
    }
    sent->next = e->outgoing;
    e->outgoing = sent;
}

static void post_kind(gwm_end *e, int to, gwm_kind kind, const char *reason)
{
    gwm_control control = {.kind = (int)kind};

    snprintf(control.reason, sizeof control.reason, "%s", reason);
    post_control(e, to, &control);
}

/* Frees the control messages that have left. */
static void free_sent(gwm_end *e)
{
    gwm_outgoing **at = &e->outgoing;

    while (*at != NULL) {
        gwm_outgoing *sent = *at;
        int left = 0;
        if (MPI_Test(&sent->request, &left, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            !left) {
            at = &sent->next;
            continue;
        }
        *at = sent->next;
        free(sent);
    }
}

static void take_control(gwm_end *e, int from, const gwm_control *control)
{
    e->heard[from] = true;
    if (control->kind == GWM_PING)
        post_kind(e, from, e->closing ? GWM_LEFT : GWM_PONG, "");
    if (control->kind == GWM_LEFT)
        e->left_rank = from;
    if (control->kind == GWM_BUSY && e->linked && control->until > e->others_until)
        e->others_until = control->until;
    if (control->kind != GWM_FAILED || e->failed_rank >= 0)
        return;
    e->failed_rank = from;
    snprintf(e->failed_reason, sizeof e->failed_reason, "%.*s", GWM_REASON_CAP - 1,
             control->reason);
}

gw_status gwm_listen(gwm_end *e)
{
    free_sent(e);
    for (;;) {
        MPI_Status status;
        gwm_control control;
        int there = 0;
        int code =
            MPI_Iprobe(MPI_ANY_SOURCE, GWM_TAG_CONTROL, e->comm, &there, &status);
        if (code == MPI_SUCCESS && !there)
            return GW_OK;
        if (code == MPI_SUCCESS)
            code = MPI_Recv(&control, (int)sizeof control, MPI_BYTE, status.MPI_SOURCE,
                            GWM_TAG_CONTROL, e->comm, &status);
        if (code != MPI_SUCCESS)
            return gwm_fail_mpi(e, code, "listening to other workers");
        take_control(e, status.MPI_SOURCE, &control);
    }
}

void gwm_ask(gwm_end *e, int rank)
{
    post_kind(e, rank, GWM_PING, "");
}

void gwm_busy(void *ctx, double until)
{
    gwm_end *e = ctx;
    gwm_control control = {.kind = GWM_BUSY, .until = until};

    e->linked = true;
    for (int r = 0; until > 0 && r < e->workers; r++)
        if (r != e->rank)
            post_control(e, r, &control);
}

static void pause_briefly(void)
{
    struct timespec t = {.tv_nsec = 1000000};

    nanosleep(&t, NULL);
}

static int first_unheard(const gwm_end *e)
{
    for (int r = 0; r < e->workers; r++)
        if (r != e->rank && !e->heard[r])
            return r;
    return -1;
}

int gwm_suspect(void *ctx)
{
    gwm_end *e = ctx;
    double end = gwm_now() + ANSWER_SECONDS;

    for (int r = 0; r < e->workers; r++)
        e->heard[r] = r == e->failed_rank;
    for (int r = 0; r < e->workers; r++)
        if (r != e->rank)
            gwm_ask(e, r);
    while (first_unheard(e) >= 0 && gwm_now() < end && gwm_listen(e) == GW_OK)
        pause_briefly();
    return first_unheard(e);
}

static void let_messages_leave(gwm_end *e)
{
    double end = gwm_now() + LEAVE_SECONDS;

    while (e->outgoing != NULL && gwm_now() < end && gwm_listen(e) == GW_OK)
        pause_briefly();
}

void gwm_abort(void *ctx, const char *reason)
{
    gwm_end *e = ctx;

    e->broken = true;
    if (e->blocking) {
        fprintf(stderr, "gradwire: worker %d: %s\n", e->rank, reason);
        fflush(NULL);
        MPI_Abort(e->comm, 1);
    }
    /* If another worker failed first, it has told everybody itself. */
    if (e->failed_rank >= 0)
        return;
    for (int r = 0; r < e->workers; r++)
        if (r != e->rank)
            post_kind(e, r, GWM_FAILED, reason);
    let_messages_leave(e);
}

void gwm_control_close(gwm_end *e)
{
    let_messages_leave(e);
    /* MPI may still read the remaining ones, so they are never freed. */
    e->outgoing = NULL;
}
