/* SPDX-License-Identifier: Apache-2.0
 *
 * float_file.c - a vector as a file. */
#include "files/float_file.h"

#include "files/newfile.h"

gw_status gwt_record_floats(const char *path, const float *x, size_t n)
{
    return gwt_newfile_write(path, NULL, x, n * sizeof *x);
}
