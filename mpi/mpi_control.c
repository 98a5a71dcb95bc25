/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_control.c - what ends tell each other besides messages.
 *
 * A worker that fails says farewell to all, with its reason, so that nobody waits
 * for it until the time limit. One whose patience is over asks everybody for a sign
 * of life: those who only wait themselves answer, the one they all wait for does
 * not. Words are short, so MPI takes them in without anybody receiving. */
#define _GNU_SOURCE
#include "mpi_end.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How long a sign of life is awaited: whoever waits looks for words fifty times a
 * second, but on a crowded machine it may have to wait for a core. */
#define ANSWER_SECONDS 3.0

/* How long farewells are helped on their way, and letters when the end closes. */
#define LEAVE_SECONDS 0.5

struct gwm_letter {
    gwm_letter *next;
    MPI_Request request;
    gwm_word word;
};

/* No failure is reported from here: whoever cannot be told finds out otherwise. */
static void post_word(gwm_end *e, int to, const gwm_word *word)
{
    gwm_letter *letter = calloc(1, sizeof *letter);

    if (letter == NULL)
        return;
    letter->word = *word;
    if (MPI_Isend(&letter->word, (int)sizeof letter->word, MPI_BYTE, to,
                  GWM_TAG_CONTROL, e->comm, &letter->request) != MPI_SUCCESS) {
        free(letter);
        return;
    }
    letter->next = e->letters;
    e->letters = letter;
}

static void post_letter(gwm_end *e, int to, gwm_kind kind, const char *reason)
{
    gwm_word word = {.kind = (int)kind};

    snprintf(word.reason, sizeof word.reason, "%s", reason);
    post_word(e, to, &word);
}

/* Frees the letters that have left. */
static void sort_letters(gwm_end *e)
{
    gwm_letter **at = &e->letters;

    while (*at != NULL) {
        gwm_letter *letter = *at;
        int left = 0;
        if (MPI_Test(&letter->request, &left, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
            !left) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        free(letter);
    }
}

static void take_word(gwm_end *e, int from, const gwm_word *word)
{
    e->heard[from] = true;
    if (word->kind == GWM_PING)
        post_letter(e, from, e->closing ? GWM_LEFT : GWM_PONG, "");
    if (word->kind == GWM_LEFT)
        e->left_rank = from;
    if (word->kind == GWM_BUSY && e->linked && word->until > e->others_until)
        e->others_until = word->until;
    if (word->kind != GWM_FAREWELL || e->failed_rank >= 0)
        return;
    e->failed_rank = from;
    snprintf(e->failed_reason, sizeof e->failed_reason, "%.*s", GWM_REASON_CAP - 1,
             word->reason);
}

gw_status gwm_listen(gwm_end *e)
{
    sort_letters(e);
    for (;;) {
        MPI_Status status;
        gwm_word word;
        int there = 0;
        int code =
            MPI_Iprobe(MPI_ANY_SOURCE, GWM_TAG_CONTROL, e->comm, &there, &status);
        if (code == MPI_SUCCESS && !there)
            return GW_OK;
        if (code == MPI_SUCCESS)
            code = MPI_Recv(&word, (int)sizeof word, MPI_BYTE, status.MPI_SOURCE,
                            GWM_TAG_CONTROL, e->comm, &status);
        if (code != MPI_SUCCESS)
            return gwm_fail_mpi(e, code, "listening to other workers");
        take_word(e, status.MPI_SOURCE, &word);
    }
}

void gwm_ask(gwm_end *e, int rank)
{
    post_letter(e, rank, GWM_PING, "");
}

void gwm_busy(void *ctx, double until)
{
    gwm_end *e = ctx;
    gwm_word word = {.kind = GWM_BUSY, .until = until};

    e->linked = true;
    for (int r = 0; until > 0 && r < e->workers; r++)
        if (r != e->rank)
            post_word(e, r, &word);
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

static void let_letters_leave(gwm_end *e)
{
    double end = gwm_now() + LEAVE_SECONDS;

    while (e->letters != NULL && gwm_now() < end && gwm_listen(e) == GW_OK)
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
    /* What one has only heard all others have been told as well. */
    if (e->failed_rank >= 0)
        return;
    for (int r = 0; r < e->workers; r++)
        if (r != e->rank)
            post_letter(e, r, GWM_FAREWELL, reason);
    let_letters_leave(e);
}

void gwm_letters_close(gwm_end *e)
{
    let_letters_leave(e);
    /* MPI may still read those that are left: they are never freed. */
    e->letters = NULL;
}
