/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_comm.c - a gw_comm on an MPI communicator: making and closing it. */
#define _GNU_SOURCE
#include "mpi_end.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long a part of a message is: long enough that its costs do not count, short
 * enough that one moves well within any time limit. Where waiting has no limit, the
 * longest that an int counts will do. */
enum { PART = 4 << 20, PART_BLOCKING = 1 << 30 };

/* How long one who is done waits for the others to be, if no time limit is given. */
#define CLOSE_SECONDS 60.0

gw_status gwm_fail_mpi(const gwm_end *e, int code, const char *doing)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS || len == 0)
        snprintf(text, sizeof text, "error %d", code);
    return gw_fail(GW_ERR_SYSTEM, "MPI failed on worker %d while %s: %s", e->rank,
                   doing, text);
}

/* ---- the rest of the table --------------------------------------------------------
 */

static const char *host(void *ctx, int rank)
{
    const gwm_end *e = ctx;

    return e->hosts + (size_t)rank * MPI_MAX_PROCESSOR_NAME;
}

static gw_status allreduce(void *ctx, float *x, size_t n)
{
    const gwm_end *e = ctx;
    const size_t most = 1 << 28; /* floats in one call */

    for (size_t at = 0; at < n; at += most) {
        size_t count = n - at < most ? n - at : most;
        int code = MPI_Allreduce(MPI_IN_PLACE, x + at, (int)count, MPI_FLOAT, MPI_SUM,
                                 e->comm);
        if (code != MPI_SUCCESS)
            return gwm_fail_mpi(e, code, "summing");
    }
    return GW_OK;
}

static void free_end(gwm_end *e)
{
    free(e->requests);
    free(e->owners);
    free(e->done);
    free(e->finished);
    free(e->statuses);
    free(e->queues);
    free(e->hosts);
    free(e->heard);
    free(e);
}

/* Receives can be taken back; a send that nobody took stays with MPI. */
static void take_back(gwm_end *e)
{
    for (int i = 0; i < e->flying; i++) {
        if (!e->owners[i]->sends)
            MPI_Cancel(&e->requests[i]);
        MPI_Request_free(&e->requests[i]);
    }
}

/* Returns whether all workers have come to the end. A control message on a communicator
 * that its receiver has already freed could be taken for a message of a later one, and
 * it crashes Open MPI 4.1. So the communicator is freed only when nobody can fail any
 * more, or never. */
static bool all_ended(gwm_end *e)
{
    double end = gwm_now() + e->timeout;
    MPI_Request request;
    int there = 0;

    e->closing = true;
    if (e->broken)
        return false;
    if (e->blocking)
        return true;
    if (MPI_Ibarrier(e->comm, &request) != MPI_SUCCESS)
        return false;
    for (int turn = 0; !there; turn++) {
        if (MPI_Test(&request, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (!there &&
            (gwm_listen(e) != GW_OK || e->failed_rank >= 0 || gwm_now() > end))
            return false;
        if (!there)
            gwm_rest(turn, 1);
    }
    return true;
}

/* Receives what nobody has received. Otherwise MPICH would deliver it to the next
 * communicator. */
static void drain(gwm_end *e)
{
    int there = 1, len = 0;

    while (there) {
        MPI_Status status;
        void *buf = NULL;
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, e->comm, &there, &status) !=
                MPI_SUCCESS ||
            !there)
            return;
        MPI_Get_count(&status, MPI_BYTE, &len);
        buf = malloc((size_t)len + 1);
        if (buf == NULL)
            return;
        there = MPI_Recv(buf, len, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, e->comm,
                         MPI_STATUS_IGNORE) == MPI_SUCCESS;
        free(buf);
    }
}

static void close_end(void *ctx)
{
    gwm_end *e = ctx;
    int finalized = 0;

    MPI_Finalized(&finalized);
    if (!finalized) {
        bool ended = all_ended(e);
        gwm_control_close(e);
        take_back(e);
        if (ended && !e->blocking)
            drain(e);
        if (ended)
            MPI_Comm_free(&e->comm);
    }
    free_end(e);
}

static const gw_transport mpi_table = {
    .struct_size = sizeof(gw_transport),
    .name = "mpi",
    .send = gwm_send,
    .recv = gwm_recv,
    .test = gwm_test,
    .wait = gwm_wait,
    .suspect = gwm_suspect,
    .host = host,
    .abort = gwm_abort,
    .close = close_end,
    .busy = gwm_busy,
};

/* ---- making -----------------------------------------------------------------------
 */

static gw_status check_mpi(MPI_Comm mpi)
{
    int initialized = 0, finalized = 0, inter = 0;

    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
        return gw_fail(GW_ERR_ARG, "gw_mpi_comm_new() was called %s",
                       initialized ? "after MPI_Finalize()" : "before MPI_Init()");
    if (mpi == MPI_COMM_NULL)
        return gw_fail(GW_ERR_ARG, "gw_mpi_comm_new() was given MPI_COMM_NULL");
    MPI_Comm_test_inter(mpi, &inter);
    if (inter)
        return gw_fail(GW_ERR_ARG, "gw_mpi_comm_new() needs an intracommunicator");
    return GW_OK;
}

static gw_status check_options(const gw_mpi_options *opt)
{
    if (opt->struct_size != sizeof *opt || !(opt->timeout_seconds >= 0))
        return gw_fail(GW_ERR_ARG,
                       "invalid gw_mpi_options: struct_size %zu (expected %zu), "
                       "timeout_seconds %g (expected 0 or more)",
                       opt->struct_size, sizeof *opt, opt->timeout_seconds);
    return GW_OK;
}

/* Tests shorten parts, so that short messages are cut like those of gigabytes. */
static size_t choose_part(bool blocking)
{
    const char *text = getenv("GRADWIRE_MPI_PART");
    long long asked = text != NULL ? atoll(text) : 0;

    if (asked > 0 && asked <= PART_BLOCKING)
        return (size_t)asked;
    return blocking ? PART_BLOCKING : PART;
}

static gw_status get_memory(gwm_end *e)
{
    size_t p = (size_t)e->workers;

    e->queues = calloc(2 * p, sizeof *e->queues);
    e->hosts = calloc(p, MPI_MAX_PROCESSOR_NAME);
    e->heard = calloc(p, sizeof *e->heard);
    if (e->queues == NULL || e->hosts == NULL || e->heard == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a comm of %zu MPI ranks",
                       p);
    /* An all-gather has a send and a receive with each of the others. */
    return gwm_reserve(e, 2 * e->workers + 16);
}

static gw_status gather_hosts(gwm_end *e)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    int len, code;

    MPI_Get_processor_name(name, &len);
    code = MPI_Allgather(name, MPI_MAX_PROCESSOR_NAME, MPI_CHAR, e->hosts,
                         MPI_MAX_PROCESSOR_NAME, MPI_CHAR, e->comm);
    return code == MPI_SUCCESS ? GW_OK : gwm_fail_mpi(e, code, "gathering host names");
}

static gw_status open_end(gwm_end *e, MPI_Comm mpi, const gw_mpi_options *opt)
{
    int provided = MPI_THREAD_SINGLE;
    int code = MPI_Comm_dup(mpi, &e->comm);

    if (code != MPI_SUCCESS)
        return gwm_fail_mpi(e, code, "duplicating a communicator");
    MPI_Comm_set_errhandler(e->comm, MPI_ERRORS_RETURN);
    MPI_Query_thread(&provided);
    e->timeout = opt->timeout_seconds > 0 ? opt->timeout_seconds : CLOSE_SECONDS;
    e->blocking = opt->blocking != 0;
    e->one_thread = provided < MPI_THREAD_SERIALIZED && !e->blocking;
    e->thread = pthread_self();
    e->part = choose_part(e->blocking);
    return gather_hosts(e);
}

gw_status gw_mpi_comm_new(gw_comm **out, MPI_Comm mpi, const gw_mpi_options *opt)
{
    gw_mpi_options none = {.struct_size = sizeof none};
    gw_transport table = mpi_table;
    gwm_end *e;
    gw_status st;

    *out = NULL;
    opt = opt != NULL ? opt : &none;
    GWM_TRY(check_options(opt));
    GWM_TRY(check_mpi(mpi));
    e = calloc(1, sizeof *e);
    if (e == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for a comm on MPI");
    e->failed_rank = e->left_rank = -1;
    MPI_Comm_rank(mpi, &e->rank);
    MPI_Comm_size(mpi, &e->workers);
    st = get_memory(e);
    if (st == GW_OK)
        st = open_end(e, mpi, opt);
    if (opt->native)
        table.allreduce = allreduce;
    if (opt->blocking)
        table.finish = gwm_finish;
    table.one_thread = e->one_thread;
    gw_comm_options comm_opt = {.struct_size = sizeof comm_opt,
                                .timeout_seconds = opt->timeout_seconds};
    if (st == GW_OK)
        st = gw_comm_new(out, &table, e, e->rank, e->workers, &comm_opt);
    if (st != GW_OK)
        free_end(e);
    return st;
}
