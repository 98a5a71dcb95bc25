/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_work.h - runs work on worker 0 that may take long, such as writing to a slow
 * disk. The others wait for it. Meanwhile all workers exchange a message several times
 * per second, so that none is taken for dead, however long it takes. */
#ifndef GWT_SLOW_WORK_H
#define GWT_SLOW_WORK_H

#include "gradwire.h"

/* Calls work(arg) on worker 0, in a thread of its own, while worker 0 tells the others
 * that it is still running. work must not use comm. timeout is comm's time limit in
 * seconds. All workers call it together and return when the work has ended, whether it
 * succeeded or failed: worker 0 returns the status of work(), with its message, and the
 * others GW_OK. A failure of comm is returned after the work has ended. */
gw_status gwt_slow_work(gw_comm *comm, double timeout, gw_status (*work)(void *arg),
                        void *arg);

#endif
