/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - other programs run for us, in a directory of their own that is gone
 * afterwards, also after Ctrl-C. */
#ifndef GWC_CHILD_H
#define GWC_CHILD_H

#include "common.h"

/* From now on Ctrl-C and SIGTERM only make gwc_stopped() true, and end the program
 * that is running. */
void gwc_catch_stop(void);
int gwc_stopped(void);

/* What the last program has printed, in its directory. */
#define GWC_CHILD_LOG "output-of-programs"

/* Runs argv[0], found in PATH, in that directory, and shows `title` with the bytes
 * that have come into it and the seconds. What the program prints goes to a file
 * there. GW_ERR_SYSTEM: it is not installed, failed (the message has the line that
 * tells why), or was stopped. */
gw_status gwc_child_run(const char *directory, const char *title, char *const argv[]);

/* Removes a directory and all in it. */
void gwc_remove_tree(const char *directory);

#endif
