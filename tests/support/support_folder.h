/* SPDX-License-Identifier: Apache-2.0
 *
 * support_folder.h - a folder for the files of one test program, where it runs; gone
 * when it ends. */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include <stddef.h>

/* Its path, between these two, which are set-up and tear-down of a group. */
extern char test_folder[64];
int make_folder(void **state);
int remove_folder(void **state);

/* The path of a file in it, until the next call. */
const char *in_folder(const char *name);

/* Writes a file there, or fails the test. */
void write_file(const char *name, const void *bytes, size_t len);

#endif
