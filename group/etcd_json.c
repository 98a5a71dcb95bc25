/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd_json.c - reads the JSON that etcd answers with. It is safe on any text. */
#define _GNU_SOURCE
#include "etcd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts that grow ------------------------------------------------------------- */

static bool make_room(gwg_text *t, size_t len)
{
    size_t cap = t->cap > 0 ? t->cap : 256;

    if (t->failed || len > GWG_TEXT_MOST - 1 - t->len) {
        t->failed = true;
        return false;
    }
    while (cap < t->len + len + 1)
        cap *= 2;
    if (cap == t->cap)
        return true;
    char *more = realloc(t->at, cap);
    if (more == NULL) {
        t->failed = true;
        return false;
    }
    t->at = more;
    t->cap = cap;
    return true;
}

void gwg_text_bytes(gwg_text *t, const void *bytes, size_t len)
{
    if (!make_room(t, len))
        return;
    if (len > 0)
        memcpy(t->at + t->len, bytes, len);
    t->len += len;
    t->at[t->len] = '\0';
}

void gwg_text_add(gwg_text *t, const char *format, ...)
{
    char part[1024];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof part)
        t->failed = true;
    else
        gwg_text_bytes(t, part, (size_t)n);
}

void gwg_text_free(gwg_text *t)
{
    free(t->at);
    *t = (gwg_text){0};
}

/* ---- base64 ------------------------------------------------------------------------
 */

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void gwg_text_base64(gwg_text *t, const char *bytes, size_t len)
{
    const unsigned char *in = (const unsigned char *)bytes;

    for (size_t i = 0; i < len; i += 3) {
        size_t n = len - i < 3 ? len - i : 3;
        unsigned bits = (unsigned)in[i] << 16;
        bits |= n > 1 ? (unsigned)in[i + 1] << 8 : 0;
        bits |= n > 2 ? in[i + 2] : 0;
        char out[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                       n > 1 ? digits[bits >> 6 & 63] : '=',
                       n > 2 ? digits[bits & 63] : '='};
        gwg_text_bytes(t, out, sizeof out);
    }
}

long gwg_base64_decode(char *text)
{
    size_t len = strlen(text), out = 0;
    unsigned bits = 0;

    while (len > 0 && text[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++) {
        const char *digit = strchr(digits, text[i]);
        if (digit == NULL)
            return -1;
        bits = bits << 6 | (unsigned)(digit - digits);
        /* The second, third and fourth digit of four complete a byte each. */
        if (i % 4 != 0)
            text[out++] = (char)(bits >> (6 - 2 * (i % 4)) & 255);
    }
    text[out] = '\0';
    return (long)out;
}

/* ---- JSON --------------------------------------------------------------------------
 */

enum { DEEPEST = 16, PATH_CAP = 128 };

typedef struct reader {
    char *at;
    int depth;
    char path[PATH_CAP];
    gwg_json_visit *visit;
    void *arg;
} reader;

static gw_status fail(const char *what)
{
    return gw_fail(GW_ERR_DATA, "etcd answers with JSON that %s", what);
}

static void skip_blanks(reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'r':
    case 'b':
    case 'f':
        return ' ';
    default:
        return c;
    }
}

/* Reads a string in place: what comes out is never longer. Characters outside of ASCII
 * that are spelled \uXXXX become question marks. */
static gw_status read_string(reader *r, char **out)
{
    char *to = ++r->at;

    *out = to;
    for (; *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < ' ')
            return fail("has a string without an end");
        if (*r->at != '\\') {
            *to++ = *r->at;
            continue;
        }
        r->at++;
        if (*r->at == 'u') {
            if (strspn(r->at + 1, "0123456789abcdefABCDEF") < 4)
                return fail("has a malformed character");
            r->at += 4;
            *to++ = '?';
        } else if (*r->at != '\0' && strchr("\"\\/bfnrt", *r->at) != NULL) {
            *to++ = unescape(*r->at);
        } else {
            return fail("has a malformed character");
        }
    }
    r->at++;
    *to = '\0';
    return GW_OK;
}

static gw_status read_value(reader *r);

/* Numbers and words are handed on as they are. */
static gw_status read_word(reader *r)
{
    static const char letters[] = "+-.0123456789abcdefghijklmnopqrstuvwxyzE";
    char word[32];
    size_t len = strspn(r->at, letters);

    if (len == 0 || len >= sizeof word)
        return fail("is malformed");
    memcpy(word, r->at, len);
    word[len] = '\0';
    r->at += len;
    return r->visit(r->arg, r->path, word);
}

static gw_status read_member(reader *r)
{
    size_t len = strlen(r->path);
    char *name;

    if (*r->at != '"')
        return fail("has no name where one belongs");
    GWG_TRY(read_string(r, &name));
    if (len + strlen(name) + 2 > sizeof r->path)
        return fail("has too long names");
    snprintf(r->path + len, sizeof r->path - len, "%s%s", len > 0 ? "." : "", name);
    skip_blanks(r);
    if (*r->at++ != ':')
        return fail("has no colon where one belongs");
    GWG_TRY(read_value(r));
    r->path[len] = '\0';
    return GW_OK;
}

/* What stands between brackets: members of objects, or values of arrays. */
static gw_status read_list(reader *r, char end, gw_status (*read_one)(reader *r))
{
    if (++r->depth > DEEPEST)
        return fail("is too deep");
    r->at++;
    skip_blanks(r);
    for (int first = 1; *r->at != end; first = 0) {
        if (!first && *r->at++ != ',')
            return fail("is malformed");
        skip_blanks(r);
        GWG_TRY(read_one(r));
        skip_blanks(r);
    }
    r->at++;
    r->depth--;
    return GW_OK;
}

static gw_status read_value(reader *r)
{
    char *text;

    skip_blanks(r);
    if (*r->at == '{') {
        GWG_TRY(r->visit(r->arg, r->path, NULL));
        return read_list(r, '}', read_member);
    }
    if (*r->at == '[')
        return read_list(r, ']', read_value);
    if (*r->at != '"')
        return read_word(r);
    GWG_TRY(read_string(r, &text));
    return r->visit(r->arg, r->path, text);
}

gw_status gwg_json_walk(char *text, gwg_json_visit *visit, void *arg)
{
    reader r = {.at = text, .visit = visit, .arg = arg};

    return read_value(&r);
}
