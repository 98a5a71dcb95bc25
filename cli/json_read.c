/* SPDX-License-Identifier: Apache-2.0
 *
 * json_read.c - reads JSON objects of plain values. */
#include "json_read.h"
#include "common.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A path is the longest text in a run's files. */
enum { KEY_CAP = 128, TEXT_CAP = 8192, NUMBER_CAP = 64 };

typedef struct reader {
    const char *begin, *at, *end;
    char key[KEY_CAP], text[TEXT_CAP];
} reader;

static gw_status wrong(const reader *r, const char *wanted)
{
    return gw_fail(GW_ERR_DATA, "expected %s at byte %zu", wanted,
                   (size_t)(r->at - r->begin));
}

static void skip_space(reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* Takes the character if it is the next. */
static bool take(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0)
        return false;
    r->at += len;
    return true;
}

/* ---- texts ------------------------------------------------------------------ */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The four digits after "\u", or -1. */
static long code_unit(reader *r)
{
    long unit = 0;

    if (r->end - r->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*r->at++);
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

/* Writes a code point as UTF-8 (at most four bytes) and returns how many. */
static size_t put_utf8(char *to, unsigned long c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xc0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        to[0] = (char)(0xe0 | c >> 12);
        to[1] = (char)(0x80 | (c >> 6 & 0x3f));
        to[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 0x3f));
    to[2] = (char)(0x80 | (c >> 6 & 0x3f));
    to[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* "\u0041", or the two halves of a character beyond 16 bits. */
static size_t read_code_point(reader *r, char *to)
{
    long unit = code_unit(r), second;

    if (unit < 0)
        return 0;
    if (unit >= 0xdc00 && unit < 0xe000)
        return put_utf8(to, 0xfffd);
    if (unit < 0xd800 || unit > 0xdbff)
        /* A C string cannot contain 0. */
        return put_utf8(to, unit == 0 ? 0xfffd : (unsigned long)unit);
    if (!take_word(r, "\\u") || (second = code_unit(r)) < 0xdc00 || second > 0xdfff)
        return 0;
    return put_utf8(to, 0x10000 + ((unsigned long)(unit - 0xd800) << 10) +
                            (unsigned long)(second - 0xdc00));
}

/* Reads what follows a backslash. Returns the number of bytes written, 0 if the escape
 * is invalid. */
static size_t read_escape(reader *r, char *to)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *which;

    if (r->at == r->end || *r->at == '\0')
        return 0;
    if (*r->at == 'u') {
        r->at++;
        return read_code_point(r, to);
    }
    which = strchr(names, *r->at++);
    if (which == NULL)
        return 0;
    *to = meant[which - names];
    return 1;
}

/* Reads a quoted string into to, which has cap bytes. */
static gw_status read_text(reader *r, char *to, size_t cap)
{
    size_t len = 0;

    if (!take(r, '"'))
        return wrong(r, "a string");
    while (r->at < r->end && *r->at != '"') {
        if (len + 5 > cap)
            return wrong(r, "a shorter string");
        if ((unsigned char)*r->at < 0x20)
            return wrong(r, "the end of the string");
        if (*r->at != '\\') {
            to[len++] = *r->at++;
            continue;
        }
        r->at++;
        size_t bytes = read_escape(r, to + len);
        if (bytes == 0)
            return wrong(r, "a valid escape");
        len += bytes;
    }
    to[len] = '\0';
    return take(r, '"') ? GW_OK : wrong(r, "the end of the string");
}

/* ---- values ----------------------------------------------------------------- */

static gw_status read_number(reader *r, double *out)
{
    char text[NUMBER_CAP], *rest;
    size_t len = 0;

    while (r->at + len < r->end && len + 1 < NUMBER_CAP && r->at[len] != '\0' &&
           strchr("+-.eE0123456789", r->at[len]) != NULL) {
        text[len] = r->at[len];
        len++;
    }
    text[len] = '\0';
    *out = strtod(text, &rest);
    /* Numbers begin with a digit or a minus; strtod() is more generous. */
    if (len == 0 || *rest != '\0' || text[0] == '+' || text[0] == '.' ||
        !isfinite(*out))
        return wrong(r, "a number");
    r->at += len;
    return GW_OK;
}

static gw_status read_value(reader *r, gwc_json_value *value)
{
    *value = (gwc_json_value){.kind = GWC_JSON_NULL, .text = ""};
    skip_space(r);
    if (take_word(r, "null"))
        return GW_OK;
    if (r->at < r->end && *r->at == '"') {
        value->kind = GWC_JSON_TEXT;
        value->text = r->text;
        return read_text(r, r->text, TEXT_CAP);
    }
    value->kind = GWC_JSON_BOOL;
    if (take_word(r, "false"))
        return GW_OK;
    value->number = 1.0;
    if (take_word(r, "true"))
        return GW_OK;
    value->kind = GWC_JSON_NUMBER;
    return read_number(r, &value->number);
}

static gw_status read_members(reader *r, gwc_json_visit *visit, void *arg)
{
    do {
        gwc_json_value value;
        GWT_TRY(read_text(r, r->key, KEY_CAP));
        if (!take(r, ':'))
            return wrong(r, "':'");
        GWT_TRY(read_value(r, &value));
        GWT_TRY(visit(arg, r->key, &value));
    } while (take(r, ','));
    return GW_OK;
}

gw_status gwc_json_object(const char *at, size_t len, gwc_json_visit *visit, void *arg)
{
    reader r;

    r.begin = r.at = at;
    r.end = at + len;
    if (!take(&r, '{'))
        return wrong(&r, "'{'");
    if (!take(&r, '}')) {
        GWT_TRY(read_members(&r, visit, arg));
        if (!take(&r, '}'))
            return wrong(&r, "',' or '}'");
    }
    skip_space(&r);
    return r.at == r.end ? GW_OK : wrong(&r, "the end of the input");
}
