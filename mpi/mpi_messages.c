/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_messages.c - posting sends and receives, and seeing them come to an end.
 *
 * All requests are in one array, so that one MPI_Testsome() tests all of them. With a
 * thousand workers, testing them one by one would run MPI's progress engine a thousand
 * times. */
#define _GNU_SOURCE
#include "mpi_end.h"

#include <stdlib.h>
#include <string.h>

/* Parts of one message that are with MPI at the same time. Of a receive it is one,
 * since what comes next may be another message. */
enum { SENDS_AHEAD = 2 };

/* ---- the array of requests -------------------------------------------------- */

static bool grow(void **array, size_t bytes)
{
    void *larger = realloc(*array, bytes);

    if (larger != NULL)
        *array = larger;
    return larger != NULL;
}

gw_status gwm_reserve(gwm_end *e, int n)
{
    size_t cap = 16;

    if (n <= e->cap)
        return GW_OK;
    while (cap < (size_t)n)
        cap *= 2;
    if (!grow((void **)&e->requests, cap * sizeof *e->requests) ||
        !grow((void **)&e->owners, cap * sizeof *e->owners) ||
        !grow((void **)&e->done, cap * sizeof *e->done) ||
        !grow((void **)&e->finished, cap * sizeof *e->finished) ||
        !grow((void **)&e->statuses, cap * sizeof *e->statuses))
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d messages over MPI", n);
    e->cap = (int)cap;
    return GW_OK;
}

/* ---- posting ------------------------------------------------------------------ */

static gw_status post_part(gwm_end *e, gwm_op *op)
{
    size_t rest = op->len - op->posted, n = rest < e->part ? rest : e->part;
    unsigned char *at = op->buf + op->posted;
    int code;

    GWM_TRY(gwm_reserve(e, e->flying + 1));
    MPI_Request *request = &e->requests[e->flying];
    if (op->sends)
        code =
            MPI_Isend(at, (int)n, MPI_BYTE, op->peer, GWM_TAG_DATA, e->comm, request);
    else
        code =
            MPI_Irecv(at, (int)n, MPI_BYTE, op->peer, GWM_TAG_DATA, e->comm, request);
    if (code != MPI_SUCCESS)
        return gwm_fail_mpi(e, code, op->sends ? "sending" : "receiving");
    e->owners[e->flying++] = op;
    op->flying++;
    op->posted += n;
    op->all_posted = n < e->part;
    return GW_OK;
}

static gwm_queue *queue_of(gwm_end *e, const gwm_op *op)
{
    return &e->queues[op->sends ? op->peer : e->workers + op->peer];
}

/* Posts what may be posted of the operations in a queue. */
static gw_status pump(gwm_end *e, gwm_queue *q)
{
    while (q->first != NULL) {
        gwm_op *op = q->first;
        while (!op->all_posted && op->flying < (op->sends ? SENDS_AHEAD : 1))
            GWM_TRY(post_part(e, op));
        if (!op->all_posted)
            return GW_OK;
        q->first = op->next;
    }
    return GW_OK;
}

static gw_status post(gwm_end *e, gwm_op *op)
{
    gwm_queue *q = queue_of(e, op);

    if (e->one_thread && !pthread_equal(e->thread, pthread_self()))
        return gw_fail(GW_ERR_ARG,
                       "MPI was initialized for one thread, but another thread "
                       "exchanges; call MPI_Init_thread() with MPI_THREAD_SERIALIZED");
    if (q->first == NULL)
        q->first = op;
    else
        q->last->next = op;
    q->last = op;
    e->moved_at = gwm_now();
    return pump(e, q);
}

gw_status gwm_send(void *ctx, int to, const void *buf, size_t len, gw_request *req)
{
    gwm_op *op = (gwm_op *)(void *)req;

    *op = (gwm_op){
        .buf = (unsigned char *)(uintptr_t)buf, .len = len, .peer = to, .sends = true};
    return post(ctx, op);
}

gw_status gwm_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    gwm_op *op = (gwm_op *)(void *)req;

    *op = (gwm_op){.buf = buf, .len = cap, .peer = from};
    return post(ctx, op);
}

/* ---- seeing the end ------------------------------------------------------------ */

static gw_status part_over(gwm_end *e, gwm_op *op, size_t got)
{
    op->flying--;
    op->moved += got;
    if (!op->sends && got < e->part)
        op->all_posted = true;
    op->over = op->all_posted && op->flying == 0;
    return pump(e, queue_of(e, op));
}

static gw_status fail_part(const gwm_end *e, const gwm_op *op, int code)
{
    int class = MPI_ERR_OTHER;

    MPI_Error_class(code, &class);
    if (class == MPI_ERR_TRUNCATE)
        return gw_fail(GW_ERR_DATA,
                       "worker %d sent a message of more than the expected %zu bytes",
                       op->peer, op->len);
    return gwm_fail_mpi(e, code,
                        op->sends ? "sending a message" : "receiving a message");
}

/* Takes the finished requests out of the array; their operations go to e->done. */
static void take_out(gwm_end *e, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++) {
        e->done[i] = e->owners[e->finished[i]];
        e->owners[e->finished[i]] = NULL;
    }
    for (int i = 0; i < e->flying; i++) {
        if (e->owners[i] == NULL)
            continue;
        e->owners[kept] = e->owners[i];
        e->requests[kept++] = e->requests[i];
    }
    e->flying = kept;
}

static gw_status account(gwm_end *e, int i, bool errors)
{
    gwm_op *op = e->done[i];
    int got = 0;

    if (errors && e->statuses[i].MPI_ERROR != MPI_SUCCESS)
        return fail_part(e, op, e->statuses[i].MPI_ERROR);
    if (!op->sends)
        MPI_Get_count(&e->statuses[i], MPI_BYTE, &got);
    return part_over(e, op, (size_t)got);
}

gw_status gwm_sweep(gwm_end *e, bool wait, bool *moved)
{
    int count = 0, code;

    *moved = false;
    if (e->flying == 0)
        return GW_OK;
    if (wait)
        code = MPI_Waitsome(e->flying, e->requests, &count, e->finished, e->statuses);
    else
        code = MPI_Testsome(e->flying, e->requests, &count, e->finished, e->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        return gwm_fail_mpi(e, code, "waiting for messages");
    if (count == MPI_UNDEFINED || count == 0)
        return GW_OK;
    *moved = true;
    e->moved_at = gwm_now();
    take_out(e, count);
    for (int i = 0; i < count; i++)
        GWM_TRY(account(e, i, code == MPI_ERR_IN_STATUS));
    return GW_OK;
}

/* The first request that op owns, or -1. */
static int request_of(const gwm_end *e, const gwm_op *op)
{
    for (int i = 0; i < e->flying; i++)
        if (e->owners[i] == op)
            return i;
    return -1;
}

static gw_status wait_for_part(gwm_end *e, int i)
{
    int code = MPI_Wait(&e->requests[i], &e->statuses[0]);

    if (code != MPI_SUCCESS)
        return fail_part(e, e->owners[i], code);
    e->finished[0] = i;
    take_out(e, 1);
    return account(e, 0, false);
}

/* An operation none of whose parts is with MPI is behind others in its queue. */
gw_status gwm_finish(void *ctx, gw_request *req, size_t *len)
{
    gwm_end *e = ctx;
    gwm_op *op = (gwm_op *)(void *)req;
    bool moved;

    while (!op->over) {
        int i = request_of(e, op);
        GWM_TRY(i >= 0 ? wait_for_part(e, i) : gwm_sweep(e, true, &moved));
    }
    if (!op->sends)
        *len = op->moved;
    return GW_OK;
}

/* Operations are tested in the order in which they were posted, so the first one
 * that flies begins a round, and MPI is asked once for all. Where waiting blocks, it
 * is not asked here at all. */
gw_status gwm_test(void *ctx, gw_request *req, size_t *len)
{
    gwm_end *e = ctx;
    gwm_op *op = (gwm_op *)(void *)req;
    bool moved;

    if (!op->over && !e->blocking && e->flying > 0 && e->owners[0] == op)
        GWM_TRY(gwm_sweep(e, false, &moved));
    if (!op->over)
        return GW_PENDING;
    if (!op->sends)
        *len = op->moved;
    return GW_OK;
}
