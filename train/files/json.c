/* SPDX-License-Identifier: Apache-2.0
 *
 * json.c - writes JSON. */
#include "files/json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

static void new_line(gwt_json *j)
{
    if (j->indent > 0)
        fprintf(j->to, "\n%*s", j->depth * j->indent, "");
}

size_t gwt_utf8_len(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and beyond the last code point. */
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

/* A path may contain any bytes. Bytes that are not valid UTF-8 become the replacement
 * character, since JSON must be UTF-8. */
static void write_text(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    putc('"', to);
    while (*s != '\0') {
        size_t n = gwt_utf8_len(s);
        if (n == 0)
            fputs("\\ufffd", to);
        else if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", *s);
        else
            fwrite(s, 1, n, to);
        s += n == 0 ? 1 : n;
    }
    putc('"', to);
}

/* What comes before a value: the comma, the line, the key. */
static void begin(gwt_json *j, const char *key)
{
    uint32_t bit = UINT32_C(1) << (j->depth & 31);

    if (j->filled & bit)
        fputs(j->indent > 0 || j->depth == 0 ? "," : ", ", j->to);
    j->filled |= bit;
    if (j->depth > 0)
        new_line(j);
    if (key != NULL) {
        write_text(j->to, key);
        fputs(": ", j->to);
    }
}

void gwt_json_open(gwt_json *json, const char *key, char bracket)
{
    begin(json, key);
    putc(bracket, json->to);
    json->depth++;
    json->filled &= ~(UINT32_C(1) << (json->depth & 31));
}

void gwt_json_close(gwt_json *json, char bracket)
{
    int filled = (json->filled >> (json->depth & 31)) & 1;

    json->depth--;
    if (filled)
        new_line(json);
    putc(bracket, json->to);
}

void gwt_json_text(gwt_json *json, const char *key, const char *value)
{
    begin(json, key);
    if (value == NULL)
        fputs("null", json->to);
    else
        write_text(json->to, value);
}

void gwt_json_real(gwt_json *json, const char *key, double value)
{
    begin(json, key);
    if (isfinite(value))
        fprintf(json->to, "%.9g", value); /* enough for any float */
    else
        fputs("null", json->to);
}

void gwt_json_fixed(gwt_json *json, const char *key, double value)
{
    begin(json, key);
    if (isfinite(value))
        fprintf(json->to, "%.3f", value);
    else
        fputs("null", json->to);
}

void gwt_json_count(gwt_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    fprintf(json->to, "%" PRIu64, value);
}

void gwt_json_bool(gwt_json *json, const char *key, int value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->to);
}

void gwt_json_null(gwt_json *json, const char *key)
{
    begin(json, key);
    fputs("null", json->to);
}
