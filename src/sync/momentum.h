/* SPDX-License-Identifier: Apache-2.0
 *
 * momentum.h - momentum before the selection.
 *
 * An entry that is sent late is the sum of its values in many steps. If the optimizer
 * then applies momentum, it overshoots. So momentum is applied before the selection. */
#ifndef GWI_MOMENTUM_H
#define GWI_MOMENTUM_H

#include "sync/sync.h"

/* Whether a spec has momentum of its own. */
bool gwi_has_momentum(const gwi_spec *spec);

/* The gradient v of this worker becomes what goes into the residual. */
void gwi_momentum_enter(gw_sync *sync, float *v);

/* The entries of list were chosen to be sent. */
void gwi_momentum_chosen(gw_sync *sync, const gwi_list *list);

/* v is the average of what was sent, and becomes what the optimizer applies. */
void gwi_momentum_leave(gw_sync *sync, float *v);

/* v is the average of all workers' whole gradients, and becomes the same. */
void gwi_momentum_whole(gw_sync *sync, float *v);

/* The learning rate of the next step, which is a finite number. */
void gwi_momentum_rate(gw_sync *sync, double rate);

/* The step is skipped on all workers. */
void gwi_momentum_skip(gw_sync *sync);

#endif
