/* SPDX-License-Identifier: Apache-2.0
 *
 * report_page.h - one self-contained HTML page from runs. */
#ifndef GWC_REPORT_PAGE_H
#define GWC_REPORT_PAGE_H

#include "report/runs.h"

/* The contents of a page. */
typedef struct gwc_page {
    const char *title;
    const gwc_run *runs;
    size_t count;
    const char *const *notes; /* what could not be read; the notes of runs are added */
    size_t notes_count;
} gwc_page;

/* Whether this build has the page in it; if not, GW_ERR_ABSENT says what is
 * missing. */
gw_status gwc_page_there(void);

/* Writes the page to a file: all of it or nothing. GW_ERR_ABSENT, GW_ERR_SYSTEM. */
gw_status gwc_page_write(const gwc_page *page, const char *path);

#endif
