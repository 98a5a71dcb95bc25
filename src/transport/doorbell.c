/* SPDX-License-Identifier: Apache-2.0
 *
 * doorbell.c - sleeping on a futex. */
#define _GNU_SOURCE
#include "transport/doorbell.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Not the private kind of futex: the word may be shared between processes. */
static long futex(_Atomic uint32_t *word, int op, uint32_t value,
                  const struct timespec *timeout)
{
    return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

void gwi_doorbell_ring(gwi_doorbell *bell)
{
    /* Sequentially consistent on both sides: either the ringer sees `asleep`, or
     * the sleeper sees the new count. */
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->asleep) != 0)
        futex(&bell->rings, FUTEX_WAKE, INT_MAX, NULL);
}

static bool rang(gwi_doorbell *bell, uint32_t *seen)
{
    uint32_t rings = atomic_load(&bell->rings);
    bool differs = rings != *seen;

    *seen = rings;
    return differs;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

bool gwi_doorbell_wait(gwi_doorbell *bell, uint32_t *seen, double seconds, int spins)
{
    struct timespec timeout;

    for (int i = 0; i <= spins; i++) {
        if (rang(bell, seen))
            return true;
        relax();
    }
    if (!(seconds > 0))
        return false;
    timeout.tv_sec = (time_t)seconds;
    timeout.tv_nsec = (long)((seconds - (double)timeout.tv_sec) * 1e9);
    atomic_store(&bell->asleep, 1);
    /* The kernel compares the count itself, so a ring since the look above makes
     * this return at once. */
    futex(&bell->rings, FUTEX_WAIT, *seen, &timeout);
    atomic_store(&bell->asleep, 0);
    return rang(bell, seen);
}
