/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.c - threads inside a kernel.
 *
 * One pool per process. Whoever holds `busy` owns it and has one job open;
 * workers join an open job, take blocks from a shared counter and leave. The
 * owner closes the job once the counter has run out and waits only for those
 * who joined, so a worker that wakes late holds nobody up. */
#define _GNU_SOURCE
#include "kernels/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct job {
    void (*fn)(void *arg, size_t block);
    void *arg;
    size_t blocks;
    atomic_size_t next; /* the first block nobody has taken */
} job;

static struct {
    pthread_mutex_t busy; /* held by the owner for the length of a job */
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t wake;  /* a job was opened, or the end has come */
    pthread_cond_t idle;  /* the last worker has left the job */
    job *open;            /* NULL when there is nothing to join */
    unsigned seats;       /* workers that may still join the open job */
    unsigned joined;      /* workers inside the open job */
    unsigned started;
    int ending;
    pthread_t worker[GWI_THREADS_MAX];
} pool = {.busy = PTHREAD_MUTEX_INITIALIZER,
          .lock = PTHREAD_MUTEX_INITIALIZER,
          .wake = PTHREAD_COND_INITIALIZER,
          .idle = PTHREAD_COND_INITIALIZER};

static atomic_uint threads_set;

static unsigned threads_from_environment(void)
{
    const char *text = getenv("GW_THREADS");
    char *end;
    long n;

    if (text == NULL)
        return 1;
    n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1)
        return 1;
    return n > GWI_THREADS_MAX ? GWI_THREADS_MAX : (unsigned)n;
}

unsigned gwi_threads(void)
{
    unsigned n = atomic_load_explicit(&threads_set, memory_order_relaxed);

    if (n == 0) {
        n = threads_from_environment();
        atomic_store_explicit(&threads_set, n, memory_order_relaxed);
    }
    return n;
}

void gwi_threads_set(unsigned threads)
{
    if (threads > GWI_THREADS_MAX)
        threads = GWI_THREADS_MAX;
    atomic_store_explicit(&threads_set, threads, memory_order_relaxed);
}

static void take_blocks(job *j)
{
    for (;;) {
        size_t block = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (block >= j->blocks)
            return;
        j->fn(j->arg, block);
    }
}

static void *worker_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    while (!pool.ending) {
        job *j = pool.open;
        if (j == NULL || pool.seats == 0) {
            pthread_cond_wait(&pool.wake, &pool.lock);
            continue;
        }
        pool.seats--;
        pool.joined++;
        pthread_mutex_unlock(&pool.lock);
        take_blocks(j);
        pthread_mutex_lock(&pool.lock);
        if (--pool.joined == 0)
            pthread_cond_signal(&pool.idle);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

/* In the child only the thread that forked exists, and a lock may be held by one
 * that does not: everything is new again. */
static void forget_after_fork(void)
{
    static const pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

    pool.busy = mutex;
    pool.lock = mutex;
    pool.wake = cond;
    pool.idle = cond;
    pool.open = NULL;
    pool.seats = 0;
    pool.joined = 0;
    pool.started = 0;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget_after_fork);
}

/* Starts workers until there are `want`, or the system gives no more. They take
 * no signals: those are for the threads of the program. The owner calls it. */
static void start_workers(unsigned want)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;

    if (pool.started >= want)
        return;
    pthread_once(&once, watch_forks);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started < want &&
           pthread_create(&pool.worker[pool.started], NULL, worker_main, NULL) == 0)
        pool.started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run_shared(job *j, unsigned helpers)
{
    start_workers(helpers);
    pthread_mutex_lock(&pool.lock);
    pool.open = j;
    pool.seats = helpers;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);

    take_blocks(j);

    pthread_mutex_lock(&pool.lock);
    pool.open = NULL;
    while (pool.joined > 0)
        pthread_cond_wait(&pool.idle, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

void gwi_parallel(size_t blocks, void (*fn)(void *arg, size_t block), void *arg)
{
    job j = {.fn = fn, .arg = arg, .blocks = blocks};
    unsigned threads = gwi_threads();

    atomic_init(&j.next, 0);
    if (threads > 1 && blocks > 1 && pthread_mutex_trylock(&pool.busy) == 0) {
        run_shared(&j, blocks < threads ? (unsigned)blocks - 1 : threads - 1);
        pthread_mutex_unlock(&pool.busy);
    } else {
        take_blocks(&j);
    }
}

/* Ends the workers when the program does or the library is unloaded: their code
 * must not go away under them. If a kernel is running even now, they are left to
 * the system. `busy` stays locked, so nobody starts new ones. */
__attribute__((destructor)) static void end_workers(void)
{
    if (pthread_mutex_trylock(&pool.busy) != 0)
        return;
    pthread_mutex_lock(&pool.lock);
    pool.ending = 1;
    pthread_cond_broadcast(&pool.wake);
    pthread_mutex_unlock(&pool.lock);
    for (unsigned i = 0; i < pool.started; i++)
        pthread_join(pool.worker[i], NULL);
    pool.started = 0;
}
