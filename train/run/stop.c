/* SPDX-License-Identifier: Apache-2.0
 *
 * stop.c - stopping all workers after the same step. */
#include "run/stop.h"

#define STOP_BIT (UINT64_C(1) << 63)

void gwt_stop_request(gwt_stop *stop)
{
    atomic_fetch_or(&stop->word, STOP_BIT);
}

int gwt_stop_requested(const gwt_stop *stop)
{
    return (atomic_load(&stop->word) & STOP_BIT) != 0;
}

int gwt_stop_enter(gwt_stop *stop, uint64_t t)
{
    uint64_t seen = atomic_load(&stop->word);

    for (;;) {
        uint64_t highest = seen & ~STOP_BIT;
        if (t <= highest)
            return 1;
        if (seen & STOP_BIT)
            return 0;
        /* If this fails, `seen` has the current value. */
        if (atomic_compare_exchange_weak(&stop->word, &seen, t))
            return 1;
    }
}
