/* SPDX-License-Identifier: Apache-2.0
 *
 * runs_list.h - several runs, named, with notes on what could not be read. */
#ifndef GWC_RUNS_LIST_H
#define GWC_RUNS_LIST_H

#include "report/runs.h"

typedef struct gwc_run_list {
    gwc_run *run;
    size_t count, cap;
    char **note; /* one line each */
    size_t notes, notes_cap;
} gwc_run_list;

/* Reads runs from directories, or from the directories in them in alphabetical order,
 * and names them. A directory without a run becomes a note. GW_ERR_DATA: nothing could
 * be read. Call gwc_run_list_free() in any case. */
gw_status gwc_run_list_read(gwc_run_list *list, char *const *names, size_t count);
void gwc_run_list_free(gwc_run_list *list);

#endif
