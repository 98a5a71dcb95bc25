/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_mpi.h - a gw_comm on an MPI communicator; link libgradwire-mpi.
 *
 *     MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
 *     gw_mpi_comm_new(&comm, MPI_COMM_WORLD, NULL);
 *     ... everything of gradwire.h ...
 *     gw_comm_free(comm);
 *     MPI_Finalize();
 *
 * Threads: MPI_THREAD_FUNNELED is enough as long as the comm is used by the thread
 * that made it. gw_sync_gradient_part(), whose exchange runs in a thread of its own,
 * needs MPI_THREAD_SERIALIZED, and MPI_THREAD_MULTIPLE if the program itself calls
 * MPI meanwhile. Where the level is too low, the first exchange of another thread
 * fails with GW_ERR_ARG and says so.
 *
 * Failures: a worker that fails tells the others why, and their calls fail with
 * GW_ERR_PEER and that reason. Nobody is ended: print gw_error_message() and call
 * MPI_Abort(), as MPI_Finalize() may wait for workers that will not come. */
#ifndef GRADWIRE_MPI_H
#define GRADWIRE_MPI_H

#include <mpi.h>

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gw_mpi_options {
    size_t struct_size;     /* sizeof(gw_mpi_options) */
    double timeout_seconds; /* without progress; 0 means the default of 60 */

    /* Not 0: sums are MPI_Allreduce()'s work. It knows the network better, perhaps,
     * but its bits are not those of other transports, it has no time limit, and it
     * may burn a core while it waits. */
    int native;

    /* Not 0: waiting is MPI_Waitsome()'s work, without time limit, and a failure
     * ends the job by MPI_Abort(). For simulated MPI, where looking again and again
     * takes simulated time. Does not go with gw_comm_link(). */
    int blocking;
} gw_mpi_options;

/* Makes a comm whose workers are the ranks of mpi, an intracommunicator, which is
 * duplicated. Collective over mpi. opt may be NULL. On success the caller releases
 * *out with gw_comm_free(), before MPI_Finalize(), which waits until all have come to
 * it or one has failed; on failure it is NULL. GW_ERR_ARG, GW_ERR_NOMEM,
 * GW_ERR_SYSTEM with MPI's words. */
GW_API gw_status gw_mpi_comm_new(gw_comm **out, MPI_Comm mpi,
                                 const gw_mpi_options *opt);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_MPI_H */
