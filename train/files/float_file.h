/* SPDX-License-Identifier: Apache-2.0
 *
 * float_file.h - writes a vector to a file, for programs that need a real gradient. */
#ifndef GWT_FLOAT_FILE_H
#define GWT_FLOAT_FILE_H

#include "gradwire.h"

/* Writes n little-endian floats and nothing else. The file appears completely or not at
 * all. GW_ERR_SYSTEM. */
gw_status gwt_record_floats(const char *path, const float *x, size_t n);

#endif
