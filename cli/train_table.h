/* SPDX-License-Identifier: Apache-2.0
 *
 * train_table.h - what "gradwire train" prints before its first step and at the end. */
#ifndef GWC_TRAIN_TABLE_H
#define GWC_TRAIN_TABLE_H

#include "run/train.h"

/* Prints, to standard error, what is to be known before the first step. */
void gwc_train_start(const gwt_config *config, const gwt_job *job, int quiet);

/* Prints how to continue a run that Ctrl-C ended, if it did. */
void gwc_train_stopped(const gwt_config *config, const gwt_job *job, int quiet);

/* Prints the settings and the results of a run as a table. */
void gwc_train_table(const gwt_config *config, const gwt_job *job);

#endif
