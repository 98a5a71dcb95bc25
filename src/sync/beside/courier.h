/* SPDX-License-Identifier: Apache-2.0
 *
 * courier.h - a thread of a sync's own, which runs one exchange at a time beside the
 * caller's computing.
 *
 *     caller      ... | send | compute ...           | await | ...
 *     courier         |      errand            |
 *     comm        own | lent to the courier    | own again
 *
 * Between send and the end of the errand the courier alone uses the sync's memories,
 * statistics and comm. So every call of the caller that needs them awaits the courier
 * first. */
#ifndef GWI_COURIER_H
#define GWI_COURIER_H

#include "sync/sync.h"

typedef struct gwi_courier gwi_courier;

/* What it runs. Bad numbers are the errand's own business. */
typedef gw_status gwi_errand(gw_sync *sync);

/* Starts the thread, unless the comm cannot be lent: errands then run at once. Fails
 * with GW_ERR_NOMEM or GW_ERR_SYSTEM; *out is then NULL. */
gw_status gwi_courier_new(gwi_courier **out, gw_sync *sync);

/* Waits for the errand that is under way, and ends the thread. Takes NULL. */
void gwi_courier_free(gwi_courier *courier);

/* Begins an errand. None is under way. */
void gwi_courier_send(gwi_courier *courier, gwi_errand *run);

/* Waits until nothing is under way. Takes NULL, for syncs that have no courier. */
void gwi_courier_await(gwi_courier *courier);

/* Waits, and returns what became of the last errand, with its message. A failure stays
 * until the next errand. */
gw_status gwi_courier_outcome(gwi_courier *courier);

#endif
