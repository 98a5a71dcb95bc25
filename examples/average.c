/* SPDX-License-Identifier: Apache-2.0
 *
 * average.c - four workers fit the line y = 2 x + 1, each from points of its own,
 * by SGD with synchronised gradients. Build it against the installed library:
 *
 *     cc average.c $(pkg-config --cflags --libs gradwire) -o average */
#include <gradwire.h>
#include <stdio.h>

static gw_status worker(gw_comm *comm, void *spec)
{
    gw_tensor tensors[] = {{.name = "line", .offset = 0, .rows = 1, .cols = 2}};
    gw_layout *layout = NULL;
    gw_sync *sync = NULL;
    float params[2] = {0, 0};

    gw_status st = gw_layout_new(&layout, tensors, 1);
    if (st == GW_OK)
        st = gw_sync_new(&sync, spec, layout, comm, NULL);
    if (st == GW_OK)
        st = gw_sync_start(sync, params); /* all begin with worker 0's */
    for (int step = 0; st == GW_OK && step < 400; step++) {
        float x = (float)((step * 7 + gw_comm_rank(comm) * 3) % 10) / 10;
        float error = params[0] * x + params[1] - (2 * x + 1);
        float grad[2] = {error * x, error};
        st = gw_sync_gradient(sync, grad); /* now the average over the workers */
        for (int i = 0; i < 2; i++)
            params[i] -= 0.5f * grad[i];
        if (st == GW_OK)
            st = gw_sync_model(sync, params); /* for methods that average models */
    }
    if (st == GW_OK)
        st = gw_sync_finish(sync, params); /* for methods that average at the end */
    if (st == GW_OK && gw_comm_rank(comm) == 0)
        printf("y = %.2f x + %.2f, %llu bytes sent by worker 0\n", params[0], params[1],
               (unsigned long long)gw_sync_stats(sync).bytes_sent);
    gw_sync_free(sync);
    gw_layout_free(layout);
    return st;
}

int main(void)
{
    gw_local_options opt = {.struct_size = sizeof opt, .workers = 4};

    if (gw_local_run(&opt, worker, "dense") == GW_OK)
        return 0;
    fprintf(stderr, "average: %s\n", gw_error_message());
    return 1;
}
