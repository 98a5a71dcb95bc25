/* SPDX-License-Identifier: Apache-2.0
 *
 * support_folder.c - a folder for the files of one test program. */
#define _GNU_SOURCE
#include "support_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

char test_folder[64];

int make_folder(void **state)
{
    (void)state;
    snprintf(test_folder, sizeof test_folder, "gradwire-test-XXXXXX");
    return mkdtemp(test_folder) == NULL;
}

int remove_folder(void **state)
{
    char command[sizeof test_folder + 16];

    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", test_folder);
    return system(command);
}

const char *in_folder(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", test_folder, name);
    return path;
}

void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}
