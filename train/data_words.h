/* SPDX-License-Identifier: Apache-2.0
 *
 * data_words.h - settings behind a made-up data set's name: "train=100,dim=3". */
#ifndef GWT_DATA_WORDS_H
#define GWT_DATA_WORDS_H

#include "common.h"

typedef struct gwt_word {
    const char *name;
    size_t offset; /* of its uint64_t in the settings */
    uint64_t min, max;
} gwt_word;

/* Reads rest, which may be NULL, into settings, where the defaults are already.
 * GW_ERR_ARG names the data set and the words that it knows. */
gw_status gwt_data_words(const char *set, const char *rest, const gwt_word *words,
                         size_t count, void *settings);

#endif
