/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.h - reads JSON objects without nested values, such as those in a run
 * directory. It is safe on any input. */
#ifndef GWC_JSON_READ_H
#define GWC_JSON_READ_H

#include "gradwire.h"

typedef enum gwc_json_kind {
    GWC_JSON_NULL,
    GWC_JSON_BOOL,
    GWC_JSON_NUMBER,
    GWC_JSON_TEXT
} gwc_json_kind;

/* A value. Its text is valid only during the call of the visitor. */
typedef struct gwc_json_value {
    gwc_json_kind kind;
    double number; /* of a number, or 0 and 1 of a truth value */
    const char *text;
} gwc_json_value;

/* Called for each key and value, in order. Reading stops if it does not return
 * GW_OK. */
typedef gw_status gwc_json_visit(void *arg, const char *key,
                                 const gwc_json_value *value);

/* Reads exactly one object from len bytes. GW_ERR_DATA: the message says at which byte
 * the error is; the visitor was called for everything before that. */
gw_status gwc_json_object(const char *at, size_t len, gwc_json_visit *visit, void *arg);

#endif
