/* SPDX-License-Identifier: Apache-2.0
 *
 * doorbell.h - how a worker sleeps until another one has done something for it.
 *
 * Each worker has a counter in memory that threads or processes share. Whoever does
 * something for a worker rings, which increments the counter. The worker remembers the
 * count it saw last, so it never misses a ring between that and its sleep. */
#ifndef GWI_DOORBELL_H
#define GWI_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct gwi_doorbell {
    _Atomic uint32_t rings;
    _Atomic uint32_t asleep; /* saves the system call when nobody sleeps */
} gwi_doorbell;

void gwi_doorbell_ring(gwi_doorbell *bell);

/* Sleeps until the count differs from *seen, at most `seconds`, after looking
 * `spins` times without sleeping. Updates *seen; true if it rang. */
bool gwi_doorbell_wait(gwi_doorbell *bell, uint32_t *seen, double seconds, int spins);

#endif
