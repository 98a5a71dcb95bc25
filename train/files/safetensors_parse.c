/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors_parse.c - parses the header of a safetensors file, which is a subset of
 * JSON. Strings are decoded in place. */
#include "files/safetensors.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

typedef struct parser {
    gwt_safetensors *in;
    char *begin, *at, *end; /* a 0 stands at end */
    size_t room;            /* in the list */
} parser;

static gw_status wrong(const parser *p, const char *what)
{
    return gw_fail(GW_ERR_DATA, "%s is not a valid safetensors file: %s at byte %zu",
                   p->in->from.name, what, (size_t)(p->at - p->begin) + 8);
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end && strchr(" \t\r\n", *p->at) != NULL && *p->at != '\0')
        p->at++;
}

/* Takes the character c if it is the next one. */
static bool take(parser *p, char c)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static gw_status expect(parser *p, char c)
{
    char what[] = "'?' expected";

    what[1] = c;
    return take(p, c) ? GW_OK : wrong(p, what);
}

/* ---- strings ----------------------------------------------------------------- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Converts four hexadecimal digits to UTF-8. Surrogates are not supported. */
static gw_status take_unicode(parser *p, char **out)
{
    unsigned code = 0;

    for (int i = 0; i < 4; i++, p->at++) {
        int digit = p->at < p->end ? hex_digit(*p->at) : -1;
        if (digit < 0)
            return wrong(p, "an invalid \\u");
        code = 16 * code + (unsigned)digit;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000))
        return wrong(p, "an unsupported \\u");
    if (code < 0x80) {
        *(*out)++ = (char)code;
        return GW_OK;
    }
    if (code < 0x800) {
        *(*out)++ = (char)(0xc0 | code >> 6);
    } else {
        *(*out)++ = (char)(0xe0 | code >> 12);
        *(*out)++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    *(*out)++ = (char)(0x80 | (code & 0x3f));
    return GW_OK;
}

/* Decodes what follows a backslash. The result is never longer than the escape. */
static gw_status take_escape(parser *p, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = p->at < p->end ? *p->at : '\0';
    const char *found = c != '\0' ? strchr(from, c) : NULL;

    if (c == 'u') {
        p->at++;
        return take_unicode(p, out);
    }
    if (found == NULL)
        return wrong(p, "an invalid escape");
    p->at++;
    *(*out)++ = to[found - from];
    return GW_OK;
}

static gw_status take_string(parser *p, const char **text)
{
    char *out;

    GWT_TRY(expect(p, '"'));
    *text = out = p->at;
    while (p->at < p->end && *p->at != '"') {
        char c = *p->at++;
        if ((unsigned char)c < 0x20)
            return wrong(p, "a control character in a string");
        if (c == '\\')
            GWT_TRY(take_escape(p, &out));
        else
            *out++ = c;
    }
    if (p->at == p->end)
        return wrong(p, "an unterminated string");
    p->at++;
    *out = '\0'; /* on the closing quote at the latest */
    return GW_OK;
}

/* ---- numbers ------------------------------------------------------------------- */

static gw_status take_count(parser *p, uint64_t *out)
{
    uint64_t x = 0;

    skip_blanks(p);
    if (p->at == p->end || *p->at < '0' || *p->at > '9')
        return wrong(p, "no number");
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        uint64_t digit = (uint64_t)(*p->at - '0');
        if (x > (UINT64_MAX - digit) / 10)
            return wrong(p, "a number too large");
        x = 10 * x + digit;
    }
    *out = x;
    return GW_OK;
}

/* A list of at most cap counts. */
static gw_status take_counts(parser *p, uint64_t *out, size_t cap, size_t *count)
{
    *count = 0;
    GWT_TRY(expect(p, '['));
    if (take(p, ']'))
        return GW_OK;
    do {
        if (*count == cap)
            return wrong(p, "too many numbers");
        GWT_TRY(take_count(p, &out[(*count)++]));
    } while (take(p, ','));
    return expect(p, ']');
}

/* ---- tensors --------------------------------------------------------------------- */

/* Checks that [begin, end) is in the file and matches the shape, with 4 bytes per
 * value. Other types are not checked, since they are not read. */
static gw_status check_tensor(const parser *p, const gwt_stored *t)
{
    uint64_t room = p->in->from.len - p->in->data, n = 1;

    if (t->begin > t->end || t->end > room)
        return gw_fail(GW_ERR_DATA, "tensor '%.100s' is outside of %s", t->name,
                       p->in->from.name);
    if (strcmp(t->type, "F32") != 0)
        return GW_OK;
    for (size_t i = 0; i < t->dims; i++) {
        if (t->dim[i] != 0 && n > room / t->dim[i])
            return wrong(p, "a shape larger than the file");
        n *= t->dim[i];
    }
    if (n > room / 4 || t->end - t->begin != 4 * n)
        return gw_fail(GW_ERR_DATA,
                       "the length of tensor '%.100s' in %s does not match its shape",
                       t->name, p->in->from.name);
    return GW_OK;
}

static gw_status take_field(parser *p, gwt_stored *t, unsigned *seen)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    const char *key, *type;
    uint64_t offsets[2];
    unsigned which = 0;
    size_t n;

    GWT_TRY(take_string(p, &key));
    GWT_TRY(expect(p, ':'));
    while (which < 3 && strcmp(key, names[which]) != 0)
        which++;
    if (which == 3 || (*seen & 1u << which) != 0)
        return wrong(p, "an unknown or repeated field");
    *seen |= 1u << which;
    if (which == 1)
        return take_counts(p, t->dim, GWT_DIMS_MAX, &t->dims);
    if (which == 2) {
        GWT_TRY(take_counts(p, offsets, 2, &n));
        if (n != 2)
            return wrong(p, "not two offsets");
        t->begin = offsets[0];
        t->end = offsets[1];
        return GW_OK;
    }
    GWT_TRY(take_string(p, &type));
    if (strlen(type) >= GWT_TYPE_CAP)
        return wrong(p, "an unknown type");
    memcpy(t->type, type, strlen(type) + 1);
    return GW_OK;
}

static gw_status append(parser *p, const gwt_stored *t)
{
    gwt_safetensors *in = p->in;

    if (in->count == p->room) {
        size_t room = p->room == 0 ? FIRST_ROOM : 2 * p->room;
        gwt_stored *list = gwt_calloc(room, sizeof *list, "the tensors of a file");
        if (list == NULL)
            return GW_ERR_NOMEM;
        if (in->count > 0)
            memcpy(list, in->list, in->count * sizeof *list);
        gwt_free(in->list);
        in->list = list;
        p->room = room;
    }
    in->list[in->count++] = *t;
    return GW_OK;
}

static gw_status take_tensor(parser *p, const char *name)
{
    gwt_stored t = {.name = name};
    unsigned seen = 0;

    GWT_TRY(expect(p, '{'));
    do
        GWT_TRY(take_field(p, &t, &seen));
    while (take(p, ','));
    GWT_TRY(expect(p, '}'));
    if (seen != 7)
        return wrong(p, "a tensor without type, shape or offsets");
    GWT_TRY(check_tensor(p, &t));
    return append(p, &t);
}

/* Skips the metadata. */
static gw_status skip_metadata(parser *p)
{
    const char *text;

    GWT_TRY(expect(p, '{'));
    if (take(p, '}'))
        return GW_OK;
    do {
        GWT_TRY(take_string(p, &text));
        GWT_TRY(expect(p, ':'));
        GWT_TRY(take_string(p, &text));
    } while (take(p, ','));
    return expect(p, '}');
}

/* ---- all tensors together -------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gwt_stored *)a)->name, ((const gwt_stored *)b)->name);
}

/* Tensors without values come before what begins at the same byte. */
static int by_place(const void *a, const void *b)
{
    const gwt_stored *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Sorts to find duplicates, since a header may have a million tensors. */
static gw_status check_names(gwt_safetensors *in)
{
    if (in->count > 0)
        qsort(in->list, in->count, sizeof *in->list, by_name);
    for (size_t i = 1; i < in->count; i++)
        if (strcmp(in->list[i - 1].name, in->list[i].name) == 0)
            return gw_fail(GW_ERR_DATA, "%s has two tensors named '%.100s'",
                           in->from.name, in->list[i].name);
    return GW_OK;
}

/* Checks that every byte after the header belongs to one tensor, as the format
 * requires. */
static gw_status check_places(gwt_safetensors *in)
{
    uint64_t at = 0, room = in->from.len - in->data;

    if (in->count > 0)
        qsort(in->list, in->count, sizeof *in->list, by_place);
    for (size_t i = 0; i < in->count; i++) {
        const gwt_stored *t = &in->list[i];
        if (t->begin != at)
            return gw_fail(GW_ERR_DATA,
                           "tensor '%.100s' in %s begins at byte %" PRIu64
                           " of the values, but the one before ends at %" PRIu64,
                           t->name, in->from.name, t->begin, at);
        at = t->end;
    }
    if (at != room)
        return gw_fail(GW_ERR_DATA, "%s has %" PRIu64 " byte%s after its last tensor",
                       in->from.name, room - at, room - at == 1 ? "" : "s");
    return GW_OK;
}

/* One name with what belongs to it. */
static gw_status take_entry(parser *p, int *metadata)
{
    const char *name;

    GWT_TRY(take_string(p, &name));
    GWT_TRY(expect(p, ':'));
    if (strcmp(name, "__metadata__") != 0)
        return take_tensor(p, name);
    if ((*metadata)++ > 0)
        return wrong(p, "__metadata__ twice");
    return skip_metadata(p);
}

gw_status gwt_safetensors_parse(gwt_safetensors *in, char *json, size_t len)
{
    parser p = {.in = in, .begin = json, .at = json, .end = json + len};
    int metadata = 0;

    GWT_TRY(expect(&p, '{'));
    if (!take(&p, '}')) {
        do
            GWT_TRY(take_entry(&p, &metadata));
        while (take(&p, ','));
        GWT_TRY(expect(&p, '}'));
    }
    skip_blanks(&p);
    if (p.at != p.end)
        return wrong(&p, "text after the end of the header");
    GWT_TRY(check_names(in));
    return check_places(in);
}
