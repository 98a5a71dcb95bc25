/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.c - one thread at a time uses a comm. */
#include "lease.h"

void gwi_lease_init(gwi_lease *l)
{
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->back, NULL);
    atomic_init(&l->lent, false);
}

void gwi_lease_fini(gwi_lease *l)
{
    pthread_cond_destroy(&l->back);
    pthread_mutex_destroy(&l->lock);
}

void gwi_lease_lend(gwi_lease *l, pthread_t borrower)
{
    pthread_mutex_lock(&l->lock);
    l->borrower = borrower;
    atomic_store(&l->lent, true);
    pthread_mutex_unlock(&l->lock);
}

void gwi_lease_end(gwi_lease *l)
{
    pthread_mutex_lock(&l->lock);
    atomic_store(&l->lent, false);
    pthread_cond_broadcast(&l->back);
    pthread_mutex_unlock(&l->lock);
}

/* Every send asks. The common case, that nothing is lent, must cost nothing. */
void gwi_lease_await(gwi_lease *l)
{
    if (!atomic_load_explicit(&l->lent, memory_order_acquire))
        return;
    pthread_mutex_lock(&l->lock);
    while (atomic_load(&l->lent) && !pthread_equal(l->borrower, pthread_self()))
        pthread_cond_wait(&l->back, &l->lock);
    pthread_mutex_unlock(&l->lock);
}
