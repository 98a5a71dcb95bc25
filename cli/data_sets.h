/* SPDX-License-Identifier: Apache-2.0
 *
 * data_sets.h - the data sets that "gradwire data" knows: their files, the checksums of
 * these, and how to get them. */
#ifndef GWC_DATA_SETS_H
#define GWC_DATA_SETS_H

#include "data/data_places.h"

/* One file. Its length and md5 are those of the unpacked contents. */
typedef struct gwc_file {
    const char *name;
    uint64_t len;
    const char *md5;
} gwc_file;

typedef struct gwc_set {
    const gwt_place *place;
    const char *summary;
    const gwc_file *files;
    size_t count;
    int copies; /* accept other contents, with a note: altered copies are common */
    const char *by_hand; /* what to do if fetch is NULL or finds nothing */

    /* Checks the len bytes of one file, which may be a copy with other contents; path
     * is for the message. GW_ERR_DATA. Optional. */
    gw_status (*check)(const uint8_t *at, size_t len, const char *path);

    /* Brings the files into the directory work, and writes the name of the directory
     * below it that holds them to from (GWT_PATH_CAP bytes). base is where data sets
     * are kept. GW_PENDING: the user has to download the files first. NULL: the user
     * always has to. */
    gw_status (*fetch)(const char *work, const char *base, char *from);
} gwc_set;

/* The i-th set, NULL past the end; the one of that name (GW_ERR_ARG). */
const gwc_set *gwc_set_at(size_t i);
gw_status gwc_set_find(const char *name, const gwc_set **out);

/* Gets a data set, or checks the installed one, and prints what it does. Its directory
 * is created in into, which may be NULL. On GW_OK the set is complete. GW_PENDING: the
 * user was told what to do. */
gw_status gwc_set_get(const gwc_set *set, const char *into);

#endif
