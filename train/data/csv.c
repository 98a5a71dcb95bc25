/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - understands tables of numbers as text. Nothing in them is believed before it
 * is checked. */
#define _GNU_SOURCE
#include "data/csv.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_CAP = 64, SHOWN = 40 };

/* Goes through a file field by field. */
typedef struct cursor {
    const char *at, *end; /* the rest of the file */
    size_t line, column;  /* of the last field, counted from 1 */
    char separator;
} cursor;

static int is_end_of_line(char c)
{
    return c == '\n' || c == '\r';
}

/* Goes to the next line that is not empty; 0 if there is none. */
static int next_row(cursor *c)
{
    while (c->at < c->end && is_end_of_line(*c->at))
        c->line += *c->at++ == '\n';
    c->column = 0;
    return c->at < c->end;
}

static gw_status fail_at(const gwt_csv *csv, const cursor *c, const char *what,
                         gwt_span field)
{
    int len = field.len < SHOWN ? (int)field.len : SHOWN;
    char shown[SHOWN + 1];

    snprintf(shown, sizeof shown, "%.*s", len, field.at);
    return gw_fail(GW_ERR_DATA, "%s, line %zu, column %zu: '%s' %s", csv->path, c->line,
                   c->column, shown, what);
}

static gwt_span without_blanks(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (gwt_span){from, (size_t)(to - from)};
}

/* The next field of the line, without blanks and quotes. *more says whether another one
 * follows in the line. */
static gw_status next_field(const gwt_csv *csv, cursor *c, gwt_span *out, int *more)
{
    const char *from = c->at, *to;

    c->column++;
    while (from < c->end && *from == ' ')
        from++;
    to = from;
    if (from < c->end && *from == '"') {
        to = ++from;
        while (to < c->end && *to != '"' && *to != '\n')
            to++;
        if (to == c->end || *to != '"')
            return fail_at(csv, c, "has no closing quote", without_blanks(from, to));
        *out = (gwt_span){from, (size_t)(to - from)};
        for (from = ++to; from < c->end && *from == ' ';)
            from++;
    } else {
        while (to < c->end && *to != c->separator && !is_end_of_line(*to))
            to++;
        *out = without_blanks(from, to);
        from = to;
    }
    if (from < c->end && *from != c->separator && !is_end_of_line(*from))
        return fail_at(csv, c, "is in quotes, but more follows before the separator",
                       *out);
    *more = from < c->end && *from == c->separator;
    c->at = from + *more;
    return GW_OK;
}

/* Whether the field is a finite number that a float can hold. */
static int to_number(gwt_span field, float *out)
{
    char text[NUMBER_CAP], *end;

    if (field.len == 0 || field.len >= sizeof text)
        return 0;
    memcpy(text, field.at, field.len);
    text[field.len] = '\0';
    if (strspn(text, "+-.0123456789eE") != field.len)
        return 0;
    double x = strtod(text, &end);
    *out = (float)x;
    return *end == '\0' && end != text && fabs(x) <= FLT_MAX;
}

/* ---- looking --------------------------------------------------------------------- */

/* The first of the usual separators in the first line; a comma if there is none. */
static char separator_of(const char *at, const char *end)
{
    for (; at < end && !is_end_of_line(*at); at++)
        if (*at == ',' || *at == ';' || *at == '\t')
            return *at;
    return ',';
}

static int same(gwt_span field, const char *text)
{
    return field.len == strlen(text) && memcmp(field.at, text, field.len) == 0;
}

/* What the first line says. */
typedef struct first_line {
    size_t columns, words; /* fields, and how many of them are no numbers */
    size_t named;          /* the column of the label's name, or SIZE_MAX */
    size_t last_word;      /* the last column that is no number */
} first_line;

static gw_status read_first(const gwt_csv *csv, cursor *c, const char *label,
                            first_line *out)
{
    gwt_span field;
    int more = 1;
    float x;

    *out = (first_line){.named = SIZE_MAX};
    for (size_t i = 0; more; i++) {
        GWT_TRY(next_field(csv, c, &field, &more));
        if (i == GWT_CSV_COLUMNS_MAX)
            return gw_fail(GW_ERR_DATA, "%s, line %zu has more than %d columns",
                           csv->path, c->line, GWT_CSV_COLUMNS_MAX);
        if (label != NULL && same(field, label))
            out->named = i;
        if (!to_number(field, &x)) {
            out->words++;
            out->last_word = i;
        }
        out->columns = i + 1;
    }
    return GW_OK;
}

/* Sets csv->label; named is where the header has the name, or SIZE_MAX. */
static gw_status find_label(gwt_csv *csv, const char *label, size_t named)
{
    char *end;

    csv->label = csv->columns - 1;
    if (label == NULL)
        return GW_OK;
    csv->label = named;
    if (named != SIZE_MAX)
        return GW_OK;
    unsigned long number = strtoul(label, &end, 10);
    if (label[0] < '0' || label[0] > '9' || *end != '\0' || number < 1 ||
        number > csv->columns)
        return gw_fail(GW_ERR_ARG,
                       "%s has no column '%s'; give a name in its first line, or a "
                       "number from 1 to %zu",
                       csv->path, label, csv->columns);
    csv->label = number - 1;
    return GW_OK;
}

/* A first line with a word in it is a header, unless that word can be the label. */
static gw_status look_at_first(gwt_csv *csv, cursor *c, const char *label)
{
    cursor begin = *c;
    first_line first;

    GWT_TRY(read_first(csv, c, label, &first));
    csv->columns = first.columns;
    if (first.columns < 2)
        return gw_fail(
            GW_ERR_DATA,
            "%s, line %zu has one column; a table needs numbers and a label, "
            "separated by commas",
            csv->path, c->line);
    GWT_TRY(find_label(csv, label, first.words > 0 ? first.named : SIZE_MAX));
    int header = first.words > 1 || (first.words == 1 && first.last_word != csv->label);
    if (header && !next_row(c))
        return gw_fail(GW_ERR_DATA, "%s has a header, but no rows", csv->path);
    if (!header)
        *c = begin;
    return GW_OK;
}

/* What the labels are, as far as they were seen. */
typedef struct labels {
    size_t words, fractions, others;
} labels;

static void count_label(labels *l, gwt_span field)
{
    float x;

    if (!to_number(field, &x))
        l->words++;
    else if (x < 0.0f || x != floorf(x) || x >= GWT_CSV_CLASSES_MAX)
        l->fractions++;
    else
        l->others++;
}

static gw_status look_at_row(const gwt_csv *csv, cursor *c, labels *l)
{
    gwt_span field = {"", 0};
    int more = 1;
    float x;
    size_t i = 0;

    for (; more && i < csv->columns; i++) {
        GWT_TRY(next_field(csv, c, &field, &more));
        if (i == csv->label && field.len == 0)
            return fail_at(csv, c, "is not a label", field);
        if (i == csv->label)
            count_label(l, field);
        else if (!to_number(field, &x))
            return fail_at(csv, c, "is not a number", field);
    }
    if (i != csv->columns || more)
        return gw_fail(GW_ERR_DATA, "%s, line %zu has %s%zu columns instead of %zu",
                       csv->path, c->line, more ? "more than " : "", i, csv->columns);
    return GW_OK;
}

static gwt_csv_label kind_of(const labels *l)
{
    if (l->words > 0)
        return GWT_CSV_NAMES;
    return l->fractions > 0 ? GWT_CSV_NUMBERS : GWT_CSV_CLASSES;
}

gw_status gwt_csv_open(gwt_csv *out, const char *at, size_t len, const char *label,
                       gwt_csv_label kind, const char *path)
{
    static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8, by some programs */
    cursor c = {.at = at, .end = len > 0 ? at + len : at, .line = 1};
    labels l = {0};

    *out = (gwt_csv){.path = path, .end = c.end, .kind = kind};
    if (len >= 3 && memcmp(at, mark, 3) == 0)
        c.at += 3;
    if (!next_row(&c))
        return gw_fail(GW_ERR_DATA, "%s is empty", path);
    out->separator = c.separator = separator_of(c.at, c.end);
    GWT_TRY(look_at_first(out, &c, label));
    out->at = c.at;
    out->first_line = c.line;
    for (; next_row(&c); out->rows++)
        GWT_TRY(look_at_row(out, &c, &l));
    if (kind == GWT_CSV_AUTO)
        out->kind = kind_of(&l);
    return GW_OK;
}

/* ---- reading ----------------------------------------------------------------------
 */

static gw_status read_name(const gwt_csv *csv, const cursor *c, gwt_span field,
                           gwt_words *names, int learn, uint32_t *class)
{
    if (learn)
        GWT_TRY(gwt_words_add(names, field, class));
    else
        *class = gwt_words_find(names, field);
    if (*class == UINT32_MAX)
        return fail_at(csv, c, "is a class that no training row has", field);
    if (*class >= GWT_CSV_CLASSES_MAX)
        return fail_at(csv, c, "is one class too many; are these numbers to predict?",
                       field);
    return GW_OK;
}

/* The label as four bytes. */
static gw_status read_label(const gwt_csv *csv, const cursor *c, gwt_span field,
                            gwt_words *names, int learn, size_t *classes, float *out)
{
    uint32_t class;
    float x = 0.0f;
    int number = to_number(field, &x);

    if (csv->kind == GWT_CSV_NAMES) {
        GWT_TRY(read_name(csv, c, field, names, learn, &class));
    } else if (!number) {
        return fail_at(csv, c, "is not a number", field);
    } else if (csv->kind == GWT_CSV_NUMBERS) {
        *out = x;
        return GW_OK;
    } else if (x < 0.0f || x != floorf(x) || x >= GWT_CSV_CLASSES_MAX) {
        return fail_at(csv, c, "is not the number of a class, which is 0, 1, 2, ...",
                       field);
    } else {
        class = (uint32_t)x;
    }
    if (class >= *classes)
        *classes = (size_t) class + 1;
    memcpy(out, &class, sizeof class);
    return GW_OK;
}

gw_status gwt_csv_read(const gwt_csv *csv, float *x, gwt_words *names, int learn,
                       size_t *classes)
{
    cursor c = {.at = csv->at,
                .end = csv->end,
                .line = csv->first_line,
                .separator = csv->separator};
    gwt_span field;
    int more;

    for (; next_row(&c); x += csv->columns)
        for (size_t i = 0; i < csv->columns; i++) {
            GWT_TRY(next_field(csv, &c, &field, &more));
            if (i == csv->label)
                GWT_TRY(read_label(csv, &c, field, names, learn, classes,
                                   x + csv->columns - 1));
            else
                (void)to_number(field, x + i - (i > csv->label));
        }
    return GW_OK;
}
