/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.h - parses tables of numbers as text, one row per line, one column of which is
 * the label.
 *
 *     5.1,3.5,1.4,0.2,setosa        a first line that is no row of numbers is a header
 *
 * Fields are separated by the first of comma, semicolon and tab that the first line
 * has. They may be in double quotes. Empty lines are skipped. */
#ifndef GWT_CSV_H
#define GWT_CSV_H

#include "data/bytes.h"
#include "data/words.h"

enum { GWT_CSV_COLUMNS_MAX = 1 << 20, GWT_CSV_CLASSES_MAX = 1 << 16 };

/* What a column of labels is. */
typedef enum gwt_csv_label {
    GWT_CSV_AUTO,    /* NAMES if one is no number, CLASSES if all are whole numbers
                        from 0 to below GWT_CSV_CLASSES_MAX, otherwise NUMBERS */
    GWT_CSV_CLASSES, /* numbers of classes, counted from 0 */
    GWT_CSV_NAMES,   /* names of classes, any text, numbered as they come */
    GWT_CSV_NUMBERS, /* numbers to predict */
} gwt_csv_label;

typedef struct gwt_csv {
    const char *path; /* for messages */
    const char *at, *end;
    size_t first_line; /* where the rows begin, in lines before `at` */
    char separator;
    size_t rows, columns;
    size_t label; /* which column it is, from 0 */
    gwt_csv_label kind;
} gwt_csv;

/* Looks at the len bytes of a file: counts rows and columns, and finds the label, whose
 * column is named in the header or counted from 1; NULL is the last one. Every row has
 * as many fields, and all but the label are finite numbers, once this has succeeded. It
 * is safe on any bytes. GW_ERR_DATA names the line and the column; GW_ERR_ARG: there is
 * no such column. */
gw_status gwt_csv_open(gwt_csv *out, const char *at, size_t len, const char *label,
                       gwt_csv_label kind, const char *path);

/* Reads all rows: row i goes to x + i * columns, the numbers first, in order, and then
 * the label: a number of a class as uint32_t, or a float. names holds the names of
 * classes, and receives new ones if `learn`; *classes is raised to hold every class. */
gw_status gwt_csv_read(const gwt_csv *csv, float *x, gwt_words *names, int learn,
                       size_t *classes);

#endif
