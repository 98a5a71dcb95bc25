/* SPDX-License-Identifier: Apache-2.0
 *
 * slow_work.h - work that worker 0 does for all and that may take long, such as writing
 * to a slow disk. The others wait for it, and several times per second they all hear
 * from each other, so that nobody is taken for dead however long it takes. */
#ifndef GWT_SLOW_WORK_H
#define GWT_SLOW_WORK_H

#include "gradwire.h"

/* Calls work(arg) on worker 0, in a thread of its own, while worker 0 tells the others
 * that it goes on; work must not use comm. timeout is comm's time limit in seconds. All
 * workers call it together, and all leave it when the work has ended, well or not: then
 * worker 0 returns what work() did, with its message, and the others GW_OK. Failures of
 * comm are returned as they are, after the work has ended. */
gw_status gwt_slow_work(gw_comm *comm, double timeout, gw_status (*work)(void *arg),
                        void *arg);

#endif
