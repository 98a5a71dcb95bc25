/* SPDX-License-Identifier: Apache-2.0
 *
 * train_table.h - what "gradwire train" prints at the end. */
#ifndef GWC_TRAIN_TABLE_H
#define GWC_TRAIN_TABLE_H

#include "run/train.h"

/* Prints the settings and the results of a run as a table. */
void gwc_train_table(const gwt_config *config, const gwt_job *job);

#endif
