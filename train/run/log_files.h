/* SPDX-License-Identifier: Apache-2.0
 *
 * log_files.h - metrics.jsonl in the formats of other tools: --log csv makes a table,
 * metrics.csv, and --log tensorboard a file of events. Each line of metrics.jsonl is
 * translated as it is written. A resumed run makes both anew from the lines that it
 * keeps, so they always hold what metrics.jsonl holds. */
#ifndef GWT_LOG_FILES_H
#define GWT_LOG_FILES_H

#include "gradwire.h"

#include <stdio.h>

struct gwt_job;

enum { GWT_LOG_CSV = 1, GWT_LOG_TENSORBOARD = 2, GWT_LOG_LINE_CAP = 4096 };

typedef struct gwt_log_files {
    FILE *csv, *events; /* NULL: not asked for */
    double epoch;       /* when the run began, in seconds since 1970 */
    int titled;         /* whether the table has its first line */
} gwt_log_files;

/* Reads --log, a list of names separated by commas; NULL is the empty one. GW_ERR_ARG.
 */
gw_status gwt_log_parse(const char *list, int *out);

/* Removes the files of an earlier run from the job's directory. */
void gwt_log_remove(const struct gwt_job *job);

/* Makes the files that the job asks for, with what metrics.jsonl holds already. `began`
 * seconds of the run are over. Released with gwt_log_close(), also after a failure. */
gw_status gwt_log_open(gwt_log_files *out, const struct gwt_job *job, double began);
void gwt_log_close(gwt_log_files *files);

/* Adds a line of metrics.jsonl. GW_ERR_SYSTEM if it cannot be written. */
gw_status gwt_log_add(gwt_log_files *files, const struct gwt_job *job,
                      const char *line);

#endif
