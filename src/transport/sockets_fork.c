/* SPDX-License-Identifier: Apache-2.0
 *
 * sockets_fork.c - a forked child must not send for its parent, nor keep its
 * connections open.
 *
 * A training process forks helpers, for example to load data. If a helper freed its
 * copy of the comm, it would send a goodbye for its parent. And while the helper lives,
 * nobody would notice the parent's death, because a connection ends only when its last
 * copy is closed. So every open comm is in a list, and a child first closes its copies
 * of their sockets. The other side does not see that while the parent has its own. */
#include "transport/sockets.h"

#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static gwi_streams *guarded;
static int refused;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (gwi_streams *s = guarded; s != NULL; s = s->next) {
        s->foreign = true;
        for (int r = 0; r < s->workers; r++) {
            for (int k = 0; k < s->peers[r].io.count; k++)
                close(s->peers[r].io.lines[k].io.fd);
            s->peers[r].io.count = 0;
        }
    }
    guarded = NULL;
    pthread_mutex_unlock(&lock);
}

static void begin(void)
{
    refused = pthread_atfork(before_fork, in_parent, in_child);
}

gw_status gwi_streams_guard(gwi_streams *s)
{
    pthread_once(&once, begin);
    if (refused != 0)
        return gw_fail(GW_ERR_NOMEM,
                       "not enough memory to close sockets when the process forks");
    pthread_mutex_lock(&lock);
    s->next = guarded;
    s->link = &guarded;
    if (guarded != NULL)
        guarded->link = &s->next;
    guarded = s;
    pthread_mutex_unlock(&lock);
    return GW_OK;
}

void gwi_streams_unguard(gwi_streams *s)
{
    if (s->foreign)
        return;
    pthread_mutex_lock(&lock);
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
    pthread_mutex_unlock(&lock);
}
