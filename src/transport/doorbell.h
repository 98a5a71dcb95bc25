/* SPDX-License-Identifier: Apache-2.0
 *
 * doorbell.h - how a worker sleeps until another one has done something for it.
 *
 * One counter per worker in memory shared by threads or processes. Whoever moves
 * something for a worker rings; the worker remembers the count it last looked
 * at, so a ring between its look and its sleep is never missed. */
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
