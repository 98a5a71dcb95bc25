/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - the command as one of several ranks, started by mpirun, mpiexec or srun.
 *
 *     launch.c        which launcher it was; a build without MPI
 *     launch_mpi.c    joining and leaving the other ranks; a build with MPI
 *     launch_guard.c  a parent process that reports how a rank ended
 */
#ifndef GWC_LAUNCH_H
#define GWC_LAUNCH_H

#include "gradwire.h"

/* What started this process, according to the environment. */
typedef struct gwc_launch {
    const char *by; /* "mpirun", "mpiexec", "srun"; NULL: none of them */
    int rank;
    int size; /* 0: the launcher does not say */
} gwc_launch;

gwc_launch gwc_launch_look(void);

/* MPICH's launcher does not say which rank was killed. There, this process forks the
 * rank, waits as its parent, and reports how it ended. Call it before
 * gwc_launch_join(). */
void gwc_launch_guard(const gwc_launch *launch);

/* Connects this rank with the others. On failure nobody can be told: see
 * gwc_launch_alone(). GW_ERR_ABSENT if this build has no MPI, GW_ERR_SYSTEM if MPI does
 * not find the other ranks. */
gw_status gwc_launch_join(gw_comm **out, const gwc_launch *launch, double timeout,
                          int native);

/* The exit code of a rank that could not join. Rank 0 fails at once, which ends the
 * job; ranks that are still alive a second later print why. */
int gwc_launch_alone(const gwc_launch *launch, int code);

/* Ends this rank with an exit code and gw_error_message(). If all ranks end with the
 * same code (agreed), they disconnect in order and rank 0 prints the error. Otherwise a
 * rank aborts the job, rank 0 if it knows the reason, and this does not return. */
int gwc_launch_end(gw_comm *comm, int code, int agreed);

#endif
