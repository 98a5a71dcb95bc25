/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.h - the command as one of several ranks, started by mpirun, mpiexec or srun.
 *
 *     launch.c        which launcher it was; a build without MPI
 *     launch_mpi.c    joining the others and parting from them; a build with MPI
 *     launch_guard.c  a parent that says what became of a rank
 */
#ifndef GWC_LAUNCH_H
#define GWC_LAUNCH_H

#include "gradwire.h"

/* Who started this process, by what the environment says. */
typedef struct gwc_launch {
    const char *by; /* "mpirun", "mpiexec", "srun"; NULL: none of them */
    int rank;
    int size; /* 0: the launcher does not say */
} gwc_launch;

gwc_launch gwc_launch_look(void);

/* Where the launcher does not say which rank was killed (MPICH's), this process stays
 * behind as the parent of one that goes on, and says it. Before gwc_launch_join(). */
void gwc_launch_guard(const gwc_launch *launch);

/* Connects this rank with the others. On failure nobody can be told: see
 * gwc_launch_alone(). GW_ERR_ABSENT if this build has no MPI, GW_ERR_SYSTEM if MPI does
 * not find the other ranks. */
gw_status gwc_launch_join(gw_comm **out, const gwc_launch *launch, double timeout,
                          int native);

/* The exit code of a rank that could not join. Rank 0 fails at once, which ends all;
 * those that live on nevertheless say why, a little later. */
int gwc_launch_alone(const gwc_launch *launch, int code);

/* Ends this rank with an exit code and gw_error_message(). If all ranks end alike
 * (agreed), they part in order and rank 0 has the word; otherwise the job is torn
 * down, by rank 0 if it knows why, and this does not return. */
int gwc_launch_end(gw_comm *comm, int code, int agreed);

#endif
