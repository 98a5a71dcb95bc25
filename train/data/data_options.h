/* SPDX-License-Identifier: Apache-2.0
 *
 * data_options.h - settings behind a made-up data set's name: "train=100,dim=3". */
#ifndef GWT_DATA_OPTIONS_H
#define GWT_DATA_OPTIONS_H

#include "common.h"

typedef struct gwt_data_option {
    const char *name;
    size_t offset; /* of its uint64_t in the settings */
    uint64_t min, max;
} gwt_data_option;

/* Reads rest, which may be NULL, into settings, which already has the defaults.
 * GW_ERR_ARG names the data set and its options. */
gw_status gwt_data_options(const char *set, const char *rest,
                           const gwt_data_option *words, size_t count, void *settings);

#endif
