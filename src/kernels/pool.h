/* SPDX-License-Identifier: Apache-2.0
 *
 * pool.h - threads inside a kernel.
 *
 * A kernel over many floats is cut into blocks at fixed places, so that the
 * result does not depend on how many threads there are or which of them took
 * which block. */
#ifndef GWI_POOL_H
#define GWI_POOL_H

#include <stddef.h>

/* The most threads a kernel uses, whatever GW_THREADS says. */
enum { GWI_THREADS_MAX = 64 };

/* Threads a kernel may use, the calling one included: the environment variable
 * GW_THREADS, read once; 1 without it or if it is not a number from 1 on. */
unsigned gwi_threads(void);

/* For tests: sets that number; 0 goes back to the environment's. */
void gwi_threads_set(unsigned threads);

/* Calls fn(arg, block) once for every block in [0, blocks) and returns when all
 * are done. Blocks run in any order, at the same time on up to gwi_threads()
 * threads, this one among them. The threads are started by the first call that
 * wants them and sleep between calls. When the pool is in use by another thread,
 * or by a caller further up, or threads cannot be had, the calling thread does
 * all blocks itself. Safe after fork(): the child starts threads of its own. */
void gwi_parallel(size_t blocks, void (*fn)(void *arg, size_t block), void *arg);

#endif
