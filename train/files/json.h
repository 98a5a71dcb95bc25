/* SPDX-License-Identifier: Apache-2.0
 *
 * json.h - writes JSON to a stream, one value after another. */
#ifndef GWT_JSON_H
#define GWT_JSON_H

#include <stdint.h>
#include <stdio.h>

/* Objects and arrays can be nested 32 levels deep. The caller checks the stream for
 * errors (ferror) at the end. */
typedef struct gwt_json {
    FILE *to;
    int indent;      /* spaces per level; 0 puts everything on one line */
    int depth;       /* how many objects and arrays are open */
    uint32_t filled; /* bit d: level d has something in it already */
} gwt_json;

/* key is NULL for a value in an array and for the outermost one. Every object and
 * array that was opened is closed. */
void gwt_json_open(gwt_json *json, const char *key, char bracket);
void gwt_json_close(gwt_json *json, char bracket);
void gwt_json_text(gwt_json *json, const char *key, const char *value); /* NULL: null */
/* With nine digits; NaN and infinity are null. */
void gwt_json_real(gwt_json *json, const char *key, double value);
/* Always with three digits after the point, so that times do not get coarser as they
 * grow. */
void gwt_json_fixed(gwt_json *json, const char *key, double value);
void gwt_json_count(gwt_json *json, const char *key, uint64_t value);
void gwt_json_bool(gwt_json *json, const char *key, int value);
void gwt_json_null(gwt_json *json, const char *key);

/* Bytes of the valid UTF-8 sequence that begins at s, or 0. */
size_t gwt_utf8_len(const unsigned char *s);

#endif
