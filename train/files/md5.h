/* SPDX-License-Identifier: Apache-2.0
 *
 * md5.h - the MD5 digest, with which published data files are checked. It detects
 * damage, but not forgery. */
#ifndef GWT_MD5_H
#define GWT_MD5_H

#include <stddef.h>
#include <stdint.h>

enum { GWT_MD5_CAP = 33 };

/* Writes the digest of len bytes as 32 hexadecimal digits and a 0. */
void gwt_md5(const uint8_t *at, size_t len, char hex[GWT_MD5_CAP]);

#endif
