/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.h - one thread at a time uses a comm.
 *
 * A comm belongs to whoever calls it. A sync that exchanges beside its caller lends the
 * comm to a thread of its own for the length of one exchange. Whoever else uses the
 * comm meanwhile waits until it is back. All workers lend theirs for the same
 * exchanges, so all of them send in the same order. */
#ifndef GWI_LEASE_H
#define GWI_LEASE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct gwi_lease {
    pthread_mutex_t lock;
    pthread_cond_t back;
    atomic_bool lent;
    pthread_t borrower;
} gwi_lease;

void gwi_lease_init(gwi_lease *lease);
void gwi_lease_fini(gwi_lease *lease);

/* Lends it to a thread, and takes it back. Nobody else has it. */
void gwi_lease_lend(gwi_lease *lease, pthread_t borrower);
void gwi_lease_end(gwi_lease *lease);

/* Returns when this thread may use what is lent. */
void gwi_lease_await(gwi_lease *lease);

#endif
