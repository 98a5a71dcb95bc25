/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_mpi.c - joins and leaves the other ranks over MPI. */
#define _GNU_SOURCE
#include "commands.h"
#include "gradwire_mpi.h"
#include "launch.h"

#include <stdio.h>
#include <time.h>

static gw_status check_world(const gwc_launch *l)
{
    int size;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (l->size == 0 || l->size == size)
        return GW_OK;
    if (size == 1)
        return gw_fail(GW_ERR_SYSTEM,
                       "%s started %d ranks, but MPI sees only this one; %s", l->by,
                       l->size,
                       l->by[0] == 's'
                           ? "use srun --mpi=pmix or --mpi=pmi2 ('srun --mpi=list' "
                             "shows what is available), or mpirun in the allocation"
                           : "the launcher belongs to another MPI than this build; use "
                             "the launcher of the MPI that gradwire was built with");
    return gw_fail(GW_ERR_SYSTEM,
                   "%s started %d ranks, but MPI sees %d; check that the launcher and "
                   "this build use the same MPI",
                   l->by, l->size, size);
}

gw_status gwc_launch_join(gw_comm **out, const gwc_launch *launch, double timeout,
                          int native)
{
    gw_mpi_options opt = {
        .struct_size = sizeof opt, .timeout_seconds = timeout, .native = native};
    int provided;
    gw_status st;

    *out = NULL;
    /* MPI reports earlier failures itself and ends the process. */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    st = check_world(launch);
    if (st == GW_OK)
        st = gw_mpi_comm_new(out, MPI_COMM_WORLD, &opt);
    if (st != GW_OK)
        MPI_Finalize();
    return st;
}

/* If rank 0 knows what happened, it prints that and ends the job. The others give it
 * time to do so, and higher ranks wait longer, so that only one of them prints. */
static void wait_for_rank_0(int rank)
{
    double seconds = rank == 0 ? 0 : 3.0 + 0.2 * (rank < 10 ? rank : 10);
    struct timespec t = {.tv_sec = (time_t)seconds,
                         .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};

    nanosleep(&t, NULL);
}

static int tear_down(gw_comm *comm, int code, const char *why)
{
    wait_for_rank_0(gw_comm_rank(comm));
    gwc_print_error(why);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, code);
    return code | GWC_SAID;
}

int gwc_launch_end(gw_comm *comm, int code, int agreed)
{
    int failed = code == GWC_FAILED || code == GWC_USAGE, rank = gw_comm_rank(comm);
    char why[512];

    snprintf(why, sizeof why, "%s", gw_error_message());
    if (failed && (!agreed || gw_barrier(comm) != GW_OK))
        return tear_down(comm, code, why);
    if (failed && rank == 0)
        gwc_print_error(why);
    gw_comm_free(comm);
    MPI_Finalize();
    return code | GWC_SAID;
}
