/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_train.c - one training step of FNN-3, and what a sync adds to it when there
 * is nobody to talk to. The batch is fetched before the clock starts;
 * bench/peers/ has the same step in PyTorch. */
#include "bench.h"
#include "gradients.h"

#include "layers/compute.h"

enum { BATCH = 64 };

/* A network trained with or without a sync. */
typedef struct trainee {
    gwb_net *net;
    gw_sync *sync;
    gw_status status;
} trainee;

static void fetch(void *arg)
{
    gwb_net_batch(((trainee *)arg)->net);
}

static void step(void *arg)
{
    trainee *t = arg;
    gw_status st = gwb_net_step(t->net, t->sync);

    if (t->status == GW_OK)
        t->status = st;
}

static gw_status race(gwb_sheet *sheet, gwb_net *net, gw_sync *sync)
{
    trainee with = {.net = net, .sync = sync}, without = {.net = net};
    gwb_contender a = {fetch, step, &with, 1}, b = {fetch, step, &without, 1};
    gwb_race_result result = gwb_race(sheet->set, &a, &b);
    size_t n = gwt_model_floats(gwb_net_model(net));
    gwb_row plain = gwb_row_new("train", n, "fnn3 step, batch %d", BATCH);
    gwb_row synced =
        gwb_row_new("train", n, "fnn3 step with %s, 1 worker", gw_sync_spec(sync));

    GWI_TRY(with.status);
    GWI_TRY(without.status);
    plain.seconds = result.best_b;
    plain.rate = BATCH / result.best_b;
    plain.unit = "samples/s";
    gwb_sheet_add(sheet, &plain);
    gwb_row_race(&synced, &result, 0.0);
    synced.limit = "no sync";
    synced.target = 1.02;
    gwb_sheet_add(sheet, &synced);
    return GW_OK;
}

static gw_status make_sync(gw_sync **out, const char *spec, gwb_net *net, gw_comm *comm)
{
    gw_layout *layout;
    size_t count;
    const gw_tensor *tensors = gwt_model_tensors(gwb_net_model(net), &count);
    gw_status st;

    GWI_TRY(gw_layout_new(&layout, tensors, count));
    st = gw_sync_new(out, spec, layout, comm, NULL);
    gw_layout_free(layout);
    return st;
}

static gw_status with_comm(gwb_sheet *sheet, gwb_net *net, gw_comm *comm)
{
    gw_sync *sync;
    gw_status st;

    GWI_TRY(make_sync(&sync, "dense", net, comm));
    st = race(sheet, net, sync);
    gw_sync_free(sync);
    return st;
}

static gw_status with_net(gwb_sheet *sheet, gwb_net *net)
{
    gw_local_options opt = {.struct_size = sizeof opt, .workers = 1};
    gw_local_group *group;
    gw_comm *comm;
    gw_status st;

    GWI_TRY(gw_local_group_new(&group, &opt));
    st = gw_local_join(&comm, group, 0);
    if (st == GW_OK) {
        st = with_comm(sheet, net, comm);
        gw_comm_free(comm);
    }
    gw_local_group_free(group);
    return st;
}

static gw_status run(gwb_sheet *sheet)
{
    gwb_net *net;
    gw_status st;

    GWI_TRY(gwb_net_new(&net, BATCH));
    gwt_compute_threads(sheet->set->threads);
    st = with_net(sheet, net);
    gwb_net_free(net);
    return st;
}

const gwb_group gwb_group_train = {
    .name = "train",
    .summary = "training steps with and without sync",
    .by_default = 0,
    .run = run,
};
