/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_large.c - one message that is longer than an int can count, over real MPI:
 *
 *     mpirun -n 2 build/gcc/tests/mpi/mpi_large [GIB]
 *
 * It needs 2.5 GiB for each rank, or as many as given, and is run by name only; make
 * test sends short messages in short parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "gradwire_mpi.h"

static uint64_t word(uint64_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15u;
}

static gw_status check(const uint64_t *words, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (words[i] != word(i))
            return gw_fail(GW_ERR_DATA, "byte %" PRIu64 " of %" PRIu64 " is wrong",
                           8 * i, 8 * n);
    return GW_OK;
}

static gw_status run(gw_comm *comm, uint64_t n)
{
    uint64_t *words = calloc(n, sizeof *words);
    gw_status st = words != NULL ? GW_OK : gw_fail(GW_ERR_NOMEM, "no memory");

    for (uint64_t i = 0; st == GW_OK && gw_comm_rank(comm) == 0 && i < n; i++)
        words[i] = word(i);
    if (st == GW_OK)
        st = gw_broadcast(comm, words, n * sizeof *words, 0);
    if (st == GW_OK)
        st = check(words, n);
    free(words);
    return st;
}

int main(int argc, char **argv)
{
    double gib = argc > 1 ? atof(argv[1]) : 2.5;
    gw_comm *comm = NULL;

    MPI_Init(&argc, &argv);
    gw_status st = gw_mpi_comm_new(&comm, MPI_COMM_WORLD, NULL);
    if (st == GW_OK)
        st = run(comm, (uint64_t)(gib * 0x1p30) / 8 + 1);
    if (st != GW_OK) {
        fprintf(stderr, "mpi_large: %s\n", gw_error_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (gw_comm_rank(comm) == 0)
        printf("%g GiB in one message arrived\n", gib);
    gw_comm_free(comm);
    MPI_Finalize();
    return 0;
}
