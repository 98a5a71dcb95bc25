/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_mpi.h - makes a gw_comm on an MPI communicator. Link with libgradwire-mpi.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     gw_mpi_comm_new(&comm, MPI_COMM_WORLD, NULL);
 *     ... everything of gradwire.h ...
 *     gw_comm_free(comm);
 *     MPI_Finalize();
 *
 * Threads: MPI_THREAD_FUNNELED is enough if only the thread that made the comm uses it.
 * gw_sync_gradient_part() exchanges in a thread of its own and needs
 * MPI_THREAD_SERIALIZED, or MPI_THREAD_MULTIPLE if the program itself calls MPI at the
 * same time. If the level is too low, the first exchange in another thread fails with
 * GW_ERR_ARG and says so.
 *
 * Failures: a worker that fails tells the others why, and their calls fail with
 * GW_ERR_PEER and that reason. No process is ended. Print gw_error_message() and call
 * MPI_Abort(), because MPI_Finalize() may wait for workers that never call it. */
#ifndef GRADWIRE_MPI_H
#define GRADWIRE_MPI_H

#include <mpi.h>

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_mpi_options {
    size_t struct_size;     /* sizeof(gw_mpi_options) */
    double timeout_seconds; /* without progress before a failure; 0: 60 s */

    /* If not 0, MPI_Allreduce() computes the sums. It may know the network better. But
     * its bits differ from those of other transports, it has no time limit, and it may
     * use a whole core while it waits. */
    int native;

    /* If not 0, MPI_Waitsome() waits, without a time limit, and a failure ends the job
     * with MPI_Abort(). This is for simulated MPI, where polling takes simulated time.
     * It cannot be combined with gw_comm_link(). */
    int blocking;
} gw_mpi_options;

/* Makes a comm whose workers are the ranks of mpi. mpi must be an intracommunicator and
 * is duplicated. All its ranks call this function together. opt may be NULL. On success
 * the caller releases *out with gw_comm_free() before MPI_Finalize(); gw_comm_free()
 * waits until all workers have called it or one has failed. On failure *out is NULL.
 * Fails with GW_ERR_ARG, GW_ERR_NOMEM, or GW_ERR_SYSTEM with MPI's own message. */
GW_API gw_status gw_mpi_comm_new(gw_comm **out, MPI_Comm mpi,
                                 const gw_mpi_options *opt);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_MPI_H */
