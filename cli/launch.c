/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - which launcher started this process, if any. */
#define _GNU_SOURCE
#include "commands.h"
#include "launch.h"

#include <stdlib.h>
#include <unistd.h>

/* The number in a variable of the environment, or -1. */
static int number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    long x;

    if (text == NULL || *text == '\0')
        return -1;
    x = strtol(text, &end, 10);
    return *end == '\0' && x >= 0 && x < 1 << 24 ? (int)x : -1;
}

static int known(gwc_launch *l, const char *by, int rank, int size)
{
    *l = (gwc_launch){.by = by, .rank = rank, .size = size > 0 ? size : 0};
    return rank >= 0;
}

/* A batch script has a task number too, but srun starts only steps. A single task is
 * not a job of several ranks; its workers may be processes on that machine. */
static int of_slurm(gwc_launch *l)
{
    int size = number("SLURM_STEP_NUM_TASKS");

    if (size < 0 && getenv("SLURM_STEP_ID") != NULL)
        size = number("SLURM_NTASKS");
    return size > 1 && known(l, "srun", number("SLURM_PROCID"), size);
}

gwc_launch gwc_launch_look(void)
{
    gwc_launch l;

    if (number("OMPI_COMM_WORLD_SIZE") > 0 &&
        known(&l, "mpirun", number("OMPI_COMM_WORLD_RANK"),
              number("OMPI_COMM_WORLD_SIZE")))
        return l;
    if (of_slurm(&l))
        return l;
    if (number("PMI_SIZE") > 0 &&
        known(&l, "mpiexec", number("PMI_RANK"), number("PMI_SIZE")))
        return l;
    /* Even a step of one task may have PMIx. */
    if (number("SLURM_PROCID") < 0 && known(&l, "mpiexec", number("PMIX_RANK"), 0))
        return l;
    return (gwc_launch){.by = NULL};
}

int gwc_launch_alone(const gwc_launch *launch, int code)
{
    if (launch->rank != 0)
        sleep(1);
    return code;
}

#ifndef GRADWIRE_HAVE_MPI

gw_status gwc_launch_join(gw_comm **out, const gwc_launch *launch, double timeout,
                          int native)
{
    (void)timeout, (void)native;
    *out = NULL;
    return gw_fail(
        GW_ERR_ABSENT,
        "%s started this process as one of several workers, but this build has no MPI; "
        "install libopenmpi-dev (or libmpich-dev) and build again",
        launch->by);
}

int gwc_launch_end(gw_comm *comm, int code, int agreed)
{
    (void)agreed;
    gw_comm_free(comm);
    return code;
}

#endif
