/* SPDX-License-Identifier: Apache-2.0
 *
 * float_file.h - a vector as a file, for programs that want a real one. */
#ifndef GWT_FLOAT_FILE_H
#define GWT_FLOAT_FILE_H

#include "gradwire.h"

/* Writes n floats, little-endian and nothing else; the file appears whole or not at
 * all. GW_ERR_SYSTEM. */
gw_status gwt_record_floats(const char *path, const float *x, size_t n);

#endif
