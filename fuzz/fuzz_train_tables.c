/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_tables.c - any bytes as a table of numbers, an array of numpy or an
 * archive of arrays. The first says what the rest is taken for; what is accepted can be
 * read from end to end. */
#include "data/csv.h"
#include "data/npy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE, NAMED, ARRAY, ARCHIVE, KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Labels are four bytes of any kind. */
static void read_rows(const gwt_csv *csv, float *x)
{
    gwt_words names;
    size_t classes = 0;

    if (gwt_words_init(&names) != GW_OK)
        return;
    if (gwt_csv_read(csv, x, &names, 1, &classes) == GW_OK)
        for (size_t i = 0; i < csv->rows; i++)
            for (size_t j = 0; j + 1 < csv->columns; j++)
                if (!isfinite(x[i * csv->columns + j]))
                    abort();
    gwt_words_free(&names);
}

static void read_table(const uint8_t *at, size_t len, const char *label)
{
    gwt_csv csv;
    float *x;

    if (gwt_csv_open(&csv, (const char *)at, len, label, GWT_CSV_AUTO, "a file") !=
        GW_OK)
        return;
    /* A field and what separates it from the next one are bytes of the file. */
    if (csv.label >= csv.columns || csv.rows * csv.columns > len)
        abort();
    x = calloc(csv.rows + 1, csv.columns * sizeof *x);
    if (x != NULL)
        read_rows(&csv, x);
    free(x);
}

static void read_array(const uint8_t *at, size_t len)
{
    volatile double sum = 0.0;
    gwt_npy array;

    if (gwt_npy_parse(&array, at, len, "a file") != GW_OK)
        return;
    if (array.at + array.count * array.bytes != at + len || array.count == 0)
        abort();
    for (size_t i = 0; i < array.count; i++)
        sum = sum + gwt_npy_number(&array, i);
}

static void read_archive(const uint8_t *at, size_t len)
{
    gwt_bytes bytes;

    if (gwt_zip_find(&bytes, at, len, "x.npy", "a file") != GW_OK)
        return;
    read_array(bytes.at, bytes.len);
    gwt_bytes_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    switch (data[0] % KINDS) {
    case TABLE:
        read_table(data + 1, len - 1, NULL);
        break;
    case NAMED:
        read_table(data + 1, len - 1, "y");
        break;
    case ARRAY:
        read_array(data + 1, len - 1);
        break;
    default:
        read_archive(data + 1, len - 1);
    }
    return 0;
}
