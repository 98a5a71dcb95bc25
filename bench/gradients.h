/* SPDX-License-Identifier: Apache-2.0
 *
 * gradients.h - gradients to measure with: those of a network in training. */
#ifndef GWB_GRADIENTS_H
#define GWB_GRADIENTS_H

#include "base.h"
#include "models/model.h"

/* FNN-3 in training, alone, with plain SGD. */
typedef struct gwb_net gwb_net;

/* Makes it, on Fashion-MNIST or, where that is not installed, on made-up data,
 * and trains it for 100 steps. Released with gwb_net_free(). */
gw_status gwb_net_new(gwb_net **out, size_t batch);
void gwb_net_free(gwb_net *net);

/* "fashion-mnist" or "synthetic". */
const char *gwb_net_data(const gwb_net *net);
gwt_model *gwb_net_model(gwb_net *net);

/* Fetches the next batch; one step with it, through sync unless that is NULL: the
 * gradient, then the update. */
void gwb_net_batch(gwb_net *net);
gw_status gwb_net_step(gwb_net *net, gw_sync *sync);

/* Fills g (n floats) with gradients of successive steps, one every `stride` floats,
 * the last one cut. */
gw_status gwb_net_fill(gwb_net *net, float *g, size_t n, size_t stride);

#endif
