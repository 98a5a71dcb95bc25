/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_predict.c - the cost of an exchange by formula: gw_spec_path() says how many
 * messages, and how many bytes, follow each other; the cluster says what each takes. */
#include "simulate/simulate.h"
#include "common.h"

/* The model, cut into tensors of the same size. */
static gw_status make_layout(const gwc_sim *sim, gw_layout **out)
{
    size_t count = (size_t)sim->tensors, end;
    gw_tensor *tensors = gwt_calloc(count, sizeof *tensors, "tensors");
    gw_status st;

    *out = NULL;
    if (tensors == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        gw_part((size_t)sim->params, (int)count, (int)i, &tensors[i].offset, &end);
        tensors[i].rows = 1;
        tensors[i].cols = end - tensors[i].offset;
    }
    st = gw_layout_new(out, tensors, count);
    gwt_free(tensors);
    return st;
}

/* The counts of all steps together. */
static gw_traffic traffic_of(const gwc_sim *sim, const gwc_point *point)
{
    double steps = (double)sim->steps;

    return (gw_traffic){
        .bytes_sent = (uint64_t)(point->bytes_sent * steps + 0.5),
        .bytes_received = (uint64_t)(point->bytes_received * steps + 0.5),
        .messages_sent = (uint64_t)(point->messages_sent * steps + 0.5)};
}

double gwc_predict_wire(const gwc_sim *sim, const gwc_point *point)
{
    int apart = sim->hosts_per_switch > 0 && point->workers > sim->hosts_per_switch;
    double latency = sim->latency + (apart ? sim->up_latency : 0);
    gw_traffic traffic = traffic_of(sim, point);
    double rounds = 0, bytes = 0;
    gw_layout *layout;

    if (make_layout(sim, &layout) == GW_OK)
        (void)gw_spec_path(point->spec, layout, point->workers, &traffic, &rounds,
                           &bytes);
    gw_layout_free(layout);
    return (rounds * latency + bytes / sim->rate) / (double)sim->steps;
}
