/* SPDX-License-Identifier: Apache-2.0
 *
 * child.h - runs other programs in a directory of their own, which is removed
 * afterwards, even after Ctrl-C. */
#ifndef GWC_CHILD_H
#define GWC_CHILD_H

#include "common.h"

/* From now on Ctrl-C and SIGTERM only make gwc_stopped() true, and end the program
 * that is running. */
void gwc_catch_stop(void);
int gwc_stopped(void);

/* The file, in the program's directory, with the output of the last program. */
#define GWC_CHILD_LOG "output-of-programs"

/* Runs argv[0], found in PATH, in that directory, and shows `title` with the size of
 * the directory and the elapsed seconds. The program's output goes to GWC_CHILD_LOG.
 * GW_ERR_SYSTEM: it is not installed, it failed (the message quotes its error), or it
 * was stopped. */
gw_status gwc_child_run(const char *directory, const char *title, char *const argv[]);

/* Removes a directory and everything in it. */
void gwc_remove_tree(const char *directory);

#endif
