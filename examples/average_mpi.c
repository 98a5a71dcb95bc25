/* SPDX-License-Identifier: Apache-2.0
 *
 * average_mpi.c - average.c over MPI: the ranks of mpirun fit the line y = 2 x + 1,
 * each from points of its own, sending half of the gradient's entries. All that MPI
 * adds is where the comm comes from. Build it against the installed libraries:
 *
 *     mpicc average_mpi.c $(pkg-config --cflags --libs gradwire-mpi) -o average_mpi
 *     mpirun -n 4 ./average_mpi */
#include <gradwire_mpi.h>
#include <stdio.h>

static gw_status train(gw_sync *sync, gw_comm *comm, float params[2])
{
    gw_status st = gw_sync_start(sync, params);

    for (int step = 0; st == GW_OK && step < 400; step++) {
        float x = (float)((step * 7 + gw_comm_rank(comm) * 3) % 10) / 10;
        float error = params[0] * x + params[1] - (2 * x + 1);
        float grad[2] = {error * x, error};
        st = gw_sync_gradient(sync, grad);
        for (int i = 0; i < 2; i++)
            params[i] -= 0.25f * grad[i];
        if (st == GW_OK)
            st = gw_sync_model(sync, params);
    }
    return st == GW_OK ? gw_sync_finish(sync, params) : st;
}

int main(int argc, char **argv)
{
    gw_tensor tensors[] = {{.name = "line", .offset = 0, .rows = 1, .cols = 2}};
    gw_layout *layout = NULL;
    gw_comm *comm = NULL;
    gw_sync *sync = NULL;
    float params[2] = {0, 0};
    int provided;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    gw_status st = gw_mpi_comm_new(&comm, MPI_COMM_WORLD, NULL);
    if (st == GW_OK)
        st = gw_layout_new(&layout, tensors, 1);
    if (st == GW_OK)
        st = gw_sync_new(&sync, "topk:0.5", layout, comm, NULL);
    if (st == GW_OK)
        st = train(sync, comm, params);
    if (st != GW_OK) {
        fprintf(stderr, "average_mpi: %s\n", gw_error_message());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (gw_comm_rank(comm) == 0)
        printf("y = %.2f x + %.2f with %d workers\n", params[0], params[1],
               gw_comm_workers(comm));
    gw_sync_free(sync);
    gw_layout_free(layout);
    gw_comm_free(comm);
    MPI_Finalize();
    return 0;
}
