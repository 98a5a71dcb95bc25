/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.h - notices when a residual runs away. */
#ifndef GWI_GUARD_H
#define GWI_GUARD_H

#include "sync/sync.h"

/* An exchange that has a residual begins, with the vector at `at`, and has ended well.
 * Both read vectors now and then, and change none. */
void gwi_guard_begin(gw_sync *sync, const gwi_result *at);
void gwi_guard_end(gw_sync *sync);

/* The rate of the steps that come. */
void gwi_guard_rate(gw_sync *sync, double rate);

#endif
