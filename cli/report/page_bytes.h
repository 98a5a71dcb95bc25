/* SPDX-License-Identifier: Apache-2.0
 *
 * page_bytes.h - the page, before runs are put into it. */
#ifndef GWC_PAGE_BYTES_H
#define GWC_PAGE_BYTES_H

#include <stddef.h>

/* The bytes of the page, NULL if this build was made without it. */
const char *gwc_page_bytes(size_t *len);

#endif
