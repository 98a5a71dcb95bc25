/* SPDX-License-Identifier: Apache-2.0
 *
 * record.c - see record.h. */
#include "record.h"

#include "common.h"
#include "newfile.h"

gw_status gwt_record_floats(const char *path, const float *x, size_t n)
{
    gwt_newfile file;
    gw_status st;

    GWT_TRY(gwt_newfile_open(&file, path, NULL));
    st = gwt_newfile_add(&file, x, n * sizeof *x);
    if (st == GW_OK)
        return gwt_newfile_commit(&file);
    gwt_newfile_abandon(&file);
    return st;
}
