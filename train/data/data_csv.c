/* SPDX-License-Identifier: Apache-2.0
 *
 * data_csv.c - tables of numbers as text: csv:PATH[,label=COLUMN][,as=class|number]
 * [,scale=off].
 *
 * PATH is a directory with train.csv and test.csv, or one file, of which every tenth
 * row is kept for the test. Rows of a file may be sorted by their label, so the test
 * does not get the last ones. Each column is scaled to mean 0 and deviation 1 over the
 * training rows: an age and an income are of no use to a network as they are.
 *
 *     in memory     train rows, then test rows, each: numbers ..., label */
#define _GNU_SOURCE
#include "data/csv.h"
#include "data/data.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Every tenth row of one file is for the test. */
enum { TEST_EVERY = 10, FILE_CAP = GWT_PATH_CAP + 16 };

typedef struct reader {
    char path[GWT_PATH_CAP];
    char label_text[128];
    const char *label; /* label_text or NULL */
    gwt_csv_label kind;
    int raw; /* scale=off */
    gwt_words names;
    gwt_bytes bytes; /* of the training rows; names point into it */
} reader;

/* ---- options ----------------------------------------------------------------------
 */

static size_t path_len(const char *rest)
{
    static const char *const names[] = {",label=", ",as=", ",scale="};
    size_t len = strlen(rest);

    for (size_t i = 0; i < 3; i++) {
        const char *at = strstr(rest, names[i]);
        if (at != NULL && (size_t)(at - rest) < len)
            len = (size_t)(at - rest);
    }
    return len;
}

gw_status gwt_csv_path(const char *rest, char *path)
{
    size_t len = rest == NULL ? 0 : path_len(rest);

    if (len == 0 || len >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set csv needs a file, or a directory with "
                                   "train.csv and test.csv: csv:FILE or csv:DIR");
    snprintf(path, GWT_PATH_CAP, "%.*s", (int)len, rest);
    return GW_OK;
}

static gw_status parse_option(reader *r, const char *option)
{
    if (strncmp(option, "label=", 6) == 0 && option[6] != '\0') {
        snprintf(r->label_text, sizeof r->label_text, "%s", option + 6);
        r->label = r->label_text;
        return GW_OK;
    }
    if (strcmp(option, "as=number") == 0)
        r->kind = GWT_CSV_NUMBERS;
    else if (strcmp(option, "as=class") == 0)
        r->kind = GWT_CSV_NAMES;
    else if (strcmp(option, "scale=off") == 0)
        r->raw = 1;
    else if (strcmp(option, "scale=on") != 0)
        return gw_fail(GW_ERR_ARG,
                       "data set csv: unknown option '%s'; expected label=COLUMN, "
                       "as=class, as=number or scale=off",
                       option);
    return GW_OK;
}

static gw_status parse(reader *r, const char *rest)
{
    char options[256], *save = NULL;

    GWT_TRY(gwt_csv_path(rest, r->path));
    snprintf(options, sizeof options, "%s", rest + path_len(rest));
    for (char *o = strtok_r(options, ",", &save); o != NULL;
         o = strtok_r(NULL, ",", &save))
        GWT_TRY(parse_option(r, o));
    return GW_OK;
}

/* ---- rows --------------------------------------------------------------------------
 */

static void add_rows(gwt_split *split, const float *x, size_t rows, size_t columns)
{
    gwt_split_add(split, (gwt_block){.count = rows,
                                     .samples = (const uint8_t *)x,
                                     .labels = (const uint8_t *)(x + columns - 1),
                                     .sample_step = columns * sizeof *x,
                                     .label_step = columns * sizeof *x});
}

/* Moves every tenth row behind the others, all in their order. */
static gw_status move_test_rows(float *x, size_t rows, size_t columns)
{
    size_t test = rows / TEST_EVERY, len = columns * sizeof *x, kept = 0;
    float *aside = gwt_calloc(test, len, "the test rows");

    if (aside == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < rows; i++) {
        int is_test = i % TEST_EVERY == TEST_EVERY - 1;
        float *to = is_test ? aside + i / TEST_EVERY * columns : x + kept++ * columns;
        if (to != x + i * columns)
            memcpy(to, x + i * columns, len);
    }
    memcpy(x + kept * columns, aside, test * len);
    gwt_free(aside);
    return GW_OK;
}

/* Mean and deviation are sums over the training rows in their order, in double. */
static void scale_column(float *x, size_t rows, size_t train, size_t columns)
{
    double sum = 0.0, squares = 0.0;

    for (size_t i = 0; i < train; i++)
        sum += x[i * columns];
    double mean = sum / (double)train;
    for (size_t i = 0; i < train; i++)
        squares += (x[i * columns] - mean) * (x[i * columns] - mean);
    double deviation = sqrt(squares / (double)train);
    double factor = deviation > 0.0 ? 1.0 / deviation : 0.0;
    for (size_t i = 0; i < rows; i++)
        x[i * columns] = (float)((x[i * columns] - mean) * factor);
}

static gw_status open_table(const reader *r, gwt_csv *csv, const gwt_bytes *bytes,
                            const char *path)
{
    GWT_TRY(gwt_csv_open(csv, (const char *)bytes->at, bytes->len, r->label, r->kind,
                         path));
    if (csv->rows == 0 || csv->rows > UINT32_MAX)
        return gw_fail(GW_ERR_DATA, "%s has %zu rows; a data set needs 1 to %u", path,
                       csv->rows, UINT32_MAX);
    return GW_OK;
}

/* ---- loading -----------------------------------------------------------------------
 */

/* Makes the splits of x, which has `train` rows to train with, then the others. */
static void finish(const reader *r, gwt_data *out, float *x, const gwt_csv *csv,
                   size_t train, size_t rows)
{
    for (size_t i = 0; i + 1 < csv->columns && !r->raw; i++)
        scale_column(x + i, rows, train, csv->columns);
    add_rows(&out->train, x, train, csv->columns);
    add_rows(&out->test, x + train * csv->columns, rows - train, csv->columns);
    out->shape = (gwt_shape){1, 1, csv->columns - 1};
    out->floats = 1;
    if (csv->kind == GWT_CSV_NUMBERS)
        out->classes = 0;
}

static void note_file(const reader *r, gwt_data *out)
{
    char labels[64] = "numbers to predict";

    if (out->classes > 0)
        snprintf(labels, sizeof labels, "labels of %zu classes", out->classes);
    snprintf(out->note, sizeof out->note,
             "%.120s has %zu columns and %s; every tenth row is kept for the test",
             r->path, out->shape.width, labels);
}

static gw_status load_file(reader *r, gwt_data *out)
{
    gwt_csv csv;
    float *x;

    GWT_TRY(gwt_bytes_load(&r->bytes, r->path));
    GWT_TRY(open_table(r, &csv, &r->bytes, r->path));
    if (csv.rows < TEST_EVERY)
        return gw_fail(
            GW_ERR_DATA,
            "%s has %zu rows; it needs 10, since every tenth is for the test", r->path,
            csv.rows);
    x = gwt_calloc(csv.rows, csv.columns * sizeof *x, "a table");
    out->owned[0].owned = x;
    if (x == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(gwt_csv_read(&csv, x, &r->names, 1, &out->classes));
    GWT_TRY(move_test_rows(x, csv.rows, csv.columns));
    finish(r, out, x, &csv, csv.rows - csv.rows / TEST_EVERY, csv.rows);
    note_file(r, out);
    return GW_OK;
}

static gw_status check_alike(const gwt_csv *train, const gwt_csv *test)
{
    if (train->columns != test->columns || train->label != test->label)
        return gw_fail(
            GW_ERR_DATA,
            "%s has %zu columns with the label in column %zu, but %s has %zu "
            "with the label in column %zu",
            test->path, test->columns, test->label + 1, train->path, train->columns,
            train->label + 1);
    return GW_OK;
}

/* Reads the rows of both tables, one after the other. */
static gw_status read_both(reader *r, gwt_data *out, const gwt_csv *train,
                           gwt_csv *test)
{
    size_t rows = train->rows + test->rows, classes = 0;
    float *x = gwt_calloc(rows, train->columns * sizeof *x, "a table");

    out->owned[0].owned = x;
    if (x == NULL)
        return GW_ERR_NOMEM;
    test->kind = train->kind;
    GWT_TRY(gwt_csv_read(train, x, &r->names, 1, &out->classes));
    GWT_TRY(
        gwt_csv_read(test, x + train->rows * train->columns, &r->names, 0, &classes));
    if (classes > out->classes && train->kind != GWT_CSV_NUMBERS)
        return gw_fail(GW_ERR_DATA,
                       "%s has class %zu, but the largest one of %s is %zu", test->path,
                       classes - 1, train->path, out->classes - 1);
    finish(r, out, x, train, train->rows, rows);
    return GW_OK;
}

static gw_status load_directory(reader *r, gwt_data *out)
{
    char train_path[FILE_CAP], test_path[FILE_CAP];
    gwt_bytes bytes = {0};
    gwt_csv train, test;
    gw_status st;

    snprintf(train_path, sizeof train_path, "%s/train.csv", r->path);
    snprintf(test_path, sizeof test_path, "%s/test.csv", r->path);
    GWT_TRY(gwt_bytes_load(&r->bytes, train_path));
    GWT_TRY(open_table(r, &train, &r->bytes, train_path));
    st = gwt_bytes_load(&bytes, test_path);
    if (st == GW_OK)
        st = open_table(r, &test, &bytes, test_path);
    if (st == GW_OK)
        st = check_alike(&train, &test);
    if (st == GW_OK)
        st = read_both(r, out, &train, &test);
    gwt_bytes_free(&bytes);
    return st;
}

gw_status gwt_csv_load(gwt_data *out, const char *rest, const char *data_dir)
{
    reader r = {.kind = GWT_CSV_AUTO};
    struct stat info;
    gw_status st;

    (void)data_dir;
    GWT_TRY(parse(&r, rest));
    int is_directory = stat(r.path, &info) == 0 && S_ISDIR(info.st_mode);
    st = gwt_words_init(&r.names);
    if (st == GW_OK)
        st = is_directory ? load_directory(&r, out) : load_file(&r, out);
    gwt_words_free(&r.names);
    gwt_bytes_free(&r.bytes);
    return st;
}
