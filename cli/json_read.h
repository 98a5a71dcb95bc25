/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.h - reads JSON objects whose values are plain, as the files of a run
 * directory are. Safe on any bytes. */
#ifndef GWC_JSON_READ_H
#define GWC_JSON_READ_H

#include "gradwire.h"

typedef enum gwc_json_kind {
    GWC_JSON_NULL,
    GWC_JSON_BOOL,
    GWC_JSON_NUMBER,
    GWC_JSON_TEXT
} gwc_json_kind;

/* A value; its text lasts as long as the call that hands it out. */
typedef struct gwc_json_value {
    gwc_json_kind kind;
    double number; /* of a number, or 0 and 1 of a truth value */
    const char *text;
} gwc_json_value;

/* Told each key and its value, in order; what is not GW_OK ends the reading. */
typedef gw_status gwc_json_visit(void *arg, const char *key,
                                 const gwc_json_value *value);

/* Reads one object and nothing else from len bytes. GW_ERR_DATA says at which byte
 * it is no such object; what was visited until then has been visited. */
gw_status gwc_json_object(const char *at, size_t len, gwc_json_visit *visit, void *arg);

#endif
