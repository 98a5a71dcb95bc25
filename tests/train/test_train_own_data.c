/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_own_data.c - files of the user's own as data: one text, tables of numbers,
 * arrays of numpy; every value in its place, and every fault named. Archives of numpy
 * are in test_cli_own_data.py. */
#define _GNU_SOURCE
#include "data/csv.h"
#include "data/data.h"
#include "data/npy.h"
#include "data/words.h"
#include "support_folder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static gw_status load(gwt_data *data, const char *set, const char *file,
                      const char *options)
{
    char name[256];

    snprintf(name, sizeof name, "%s:%s%s", set, in_folder(file), options);
    return gwt_data_load(data, name, NULL);
}

static void load_fails(const char *set, const char *file, const char *options,
                       gw_status want, const char *word, const char *another)
{
    gwt_data data;

    assert_int_equal(load(&data, set, file, options), want);
    if (strstr(gw_error_message(), word) == NULL ||
        strstr(gw_error_message(), another) == NULL ||
        strchr(gw_error_message(), '\n') != NULL)
        fail_msg("'%s' lacks '%s' or '%s'", gw_error_message(), word, another);
}

/* ---- text ------------------------------------------------------------------------ */

static void one_text_is_split_by_place(void **state)
{
    char text[201];
    gwt_data data;

    (void)state;
    for (int i = 0; i < 200; i++)
        text[i] = (char)('a' + i % 20);
    text[200] = '\0';
    write_text("one.txt", text);
    assert_int_equal(load(&data, "text", "one.txt", ",by=byte"), GW_OK);
    assert_int_equal(data.train.tokens, 180);
    assert_int_equal(data.valid.tokens, 10);
    assert_int_equal(data.test.tokens, 10);
    assert_int_equal(data.valid.token[0], (uint32_t)text[180]);
    assert_int_equal(data.test.token[9], (uint32_t)text[199]);
    assert_non_null(strstr(data.note, "90 %"));
    gwt_data_free(&data);
    write_text("short.txt", "abc");
    load_fails("text", "short.txt", "", GW_ERR_DATA, "short.txt", "too few");
}

/* 18 words to train with: a 8, b 6, c 2, d 1, e 1, and 1 that ends the text. */
static void rare_words_are_unknown(void **state)
{
    static const uint32_t want[] = {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 1, 0, 0, 0};
    gwt_data data;

    (void)state;
    mkdir(in_folder("words"), 0777);
    write_text("words/train.txt", "a b a b a b a b a b a b a a c d c");
    write_text("words/test.txt", "a never c\n");
    load_fails("text", "words", "", GW_ERR_DATA, "never", "line 1");
    assert_int_equal(load(&data, "text", "words", ",vocab=3"), GW_OK);
    assert_int_equal(data.classes, 3);
    assert_int_equal(data.train.tokens, 18);
    assert_memory_equal(data.train.token, want, sizeof want);
    assert_int_equal(data.test.token[1], 0);
    gwt_data_free(&data);
    /* A word that comes once is rare whatever the limit: c stays, d does not. */
    assert_int_equal(load(&data, "text", "words", ",vocab=100,by=word"), GW_OK);
    assert_int_equal(data.classes, 4);
    assert_int_equal(data.train.token[14], 3);
    assert_int_equal(data.train.token[15], 0);
    gwt_data_free(&data);
    load_fails("text", "words", ",vocab=9,by=byte", GW_ERR_ARG, "vocab", "by=word");
    load_fails("text", "words", ",vocab=x", GW_ERR_ARG, "vocab", "whole number");
    load_fails("text", "words", ",by=letter", GW_ERR_ARG, "by=letter", "vocab=N");
}

static void one_text_by_word_knows_all(void **state)
{
    gwt_data data;
    char text[4000] = "";

    (void)state;
    for (int i = 0; i < 200; i++)
        strcat(text, i % 2 ? "it " : "is ");
    strcat(text, "unheard unseen unsaid\n");
    write_text("prose.txt", text);
    assert_int_equal(load(&data, "text", "prose.txt", ""), GW_OK);
    assert_int_equal(data.classes, 3);
    assert_int_equal(data.test.token[data.test.tokens - 2], 0);
    gwt_data_free(&data);
}

/* ---- tables -----------------------------------------------------------------------
 */

static void write_table(const char *name, const char *header, int rows)
{
    FILE *file = fopen(in_folder(name), "w");

    assert_non_null(file);
    fputs(header, file);
    for (int i = 0; i < rows; i++)
        fprintf(file, "%d,7,%s,%d\n", i, i % 3 == 0 ? "red" : "blue", i % 2);
    fclose(file);
}

static void rows_go_where_they_belong(void **state)
{
    float x[3];
    uint32_t y[1];
    gwt_data data;

    (void)state;
    write_table("a.csv", "size,seven,colour,odd\n", 23);
    assert_int_equal(load(&data, "csv", "a.csv", ",label=colour,scale=off"), GW_OK);
    assert_int_equal(data.train.count, 21);
    assert_int_equal(data.test.count, 2);
    assert_int_equal(data.classes, 2);
    assert_int_equal(data.shape.width, 3);
    gwt_data_batch(&data, &data.test, NULL, 1, 1, x, y);
    assert_true(x[0] == 19.0f && x[1] == 7.0f && x[2] == 1.0f && y[0] == 1);
    gwt_data_batch(&data, &data.train, NULL, 9, 1, x, y);
    assert_true(x[0] == 10.0f && y[0] == 1);
    gwt_data_batch(&data, &data.train, NULL, 0, 1, x, y);
    assert_true(x[0] == 0.0f && y[0] == 0);
    assert_non_null(strstr(data.note, "every tenth row"));
    gwt_data_free(&data);
}

static void columns_are_scaled(void **state)
{
    double sum = 0.0, squares = 0.0;
    float x[2];
    uint32_t y[1];
    gwt_data data;

    (void)state;
    write_text("b.csv",
               "1,5,0\n2,5,1\n3,5,2\n4,5,0\n5,5,1\n6,5,0\n7,5,1\n8,5,2\n9,5,0\n"
               "\r\n\n10,5,1\r\n");
    assert_int_equal(load(&data, "csv", "b.csv", ""), GW_OK);
    assert_int_equal(data.train.count, 9);
    assert_int_equal(data.classes, 3);
    for (size_t i = 0; i < 9; i++) {
        gwt_data_batch(&data, &data.train, NULL, i, 1, x, y);
        sum += x[0];
        squares += x[0] * x[0];
        assert_true(x[1] == 0.0f);
    }
    assert_true(fabs(sum) < 1e-5 && fabs(squares - 9.0) < 1e-5);
    gwt_data_free(&data);
}

static void labels_may_be_numbers(void **state)
{
    float x[1], number;
    uint32_t y[1];
    gwt_data data;

    (void)state;
    write_text("c.csv", "0;1\n1;1\n2;1\n3;1\n4;1\n5;1\n6;1\n7;1\n8;1\n9;-2.5\n");
    assert_int_equal(load(&data, "csv", "c.csv", ""), GW_OK);
    assert_int_equal(data.classes, 0);
    gwt_data_batch(&data, &data.test, NULL, 0, 1, x, y);
    memcpy(&number, y, sizeof number);
    assert_true(number == -2.5f);
    gwt_data_free(&data);
    assert_int_equal(load(&data, "csv", "c.csv", ",as=class"), GW_OK);
    assert_int_equal(data.classes, 2);
    gwt_data_free(&data);
}

static void two_tables_are_two_splits(void **state)
{
    gwt_data data;

    (void)state;
    mkdir(in_folder("two"), 0777);
    write_table("two/train.csv", "", 6);
    write_table("two/test.csv", "a,b,c,d\n", 4);
    /* A first line with a word that is not the label is a header. */
    load_fails("csv", "two", "", GW_ERR_DATA, "train.csv, line 2, column 3", "number");
    assert_int_equal(load(&data, "csv", "two", ",label=3"), GW_OK);
    assert_int_equal(data.train.count, 6);
    assert_int_equal(data.test.count, 4);
    gwt_data_free(&data);
    write_text("two/test.csv", "1,7,green,0\n");
    load_fails("csv", "two", ",label=3", GW_ERR_DATA, "test.csv, line 1", "'green'");
    write_text("two/test.csv", "1,7,0\n");
    load_fails("csv", "two", ",label=3", GW_ERR_DATA, "test.csv has 3 columns",
               "has 4");
}

static void bad_tables_are_named(void **state)
{
    static const struct bad {
        const char *text, *options, *word, *another;
    } list[] = {
        {"", "", "bad.csv", "empty"},
        {"\n\n", "", "bad.csv", "empty"},
        {"1\n2\n", "", "line 1", "one column"},
        {"a,b\n", "", "header", "no rows"},
        {"1,0\n1,0\n", "", "2 rows", "every tenth"},
        {"1,2,0\n1,0\n", "", "line 2", "2 columns instead of 3"},
        {"1,2,0\n\n1,2,3,0\n", "", "line 3", "more than 3 columns"},
        {"1,2,0\n1,x,0\n", "", "line 2, column 2", "'x' is not a number"},
        {"1,2,0\n1,nan,0\n", "", "line 2, column 2", "'nan'"},
        {"1,2,0\n1,,0\n", "", "line 2, column 2", "''"},
        {"1,2,0\n1,2,\n", "", "line 2, column 3", "'' is not a label"},
        {"1,2,0\n1,1e99,0\n", "", "line 2, column 2", "'1e99'"},
        {"1,2,0\n1,\"2,0\n", "", "line 2, column 2", "quote"},
        {"1,2,0\n1,\"2\"3,0\n", "", "line 2, column 2", "quotes"},
        {"1,2,x\n1,2,0\n", ",label=nobody", "'nobody'", "from 1 to 3"},
        {"1,2,x\n1,2,0\n", ",label=4", "'4'", "from 1 to 3"},
        {"1,2,x\n1,2,0\n", ",label=0", "'0'", "from 1 to 3"},
        {"1,2,0\n1,2,0\n", ",as=text", "as=text", "as=number"},
        {"1,2,x\n1,2,y\n", ",as=number", "2 rows", "10"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const char *at = list[i].options;
        int argument = strstr(at, "label=") != NULL || strstr(at, "=text") != NULL;
        write_text("bad.csv", list[i].text);
        load_fails("csv", "bad.csv", at, argument ? GW_ERR_ARG : GW_ERR_DATA,
                   list[i].word, list[i].another);
    }
    load_fails("csv", "none.csv", "", GW_ERR_SYSTEM, "none.csv", "cannot read");
}

/* ---- arrays -----------------------------------------------------------------------
 */

/* Writes an array with that header and those bytes. */
static void write_npy(const char *name, const char *header, const void *at, size_t len)
{
    uint8_t bytes[4096] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t n = strlen(header);

    assert_true(n + len + 10 <= sizeof bytes);
    bytes[8] = (uint8_t)n;
    bytes[9] = (uint8_t)(n >> 8);
    memcpy(bytes + 10, header, n);
    memcpy(bytes + 10 + n, at, len);
    write_file(name, bytes, 10 + n + len);
}

#define HEADER(type, shape) \
    "{'descr': '" type "', 'fortran_order': False, 'shape': " shape ", }   \n"

static const uint8_t pixels[12] = {0, 255, 51, 102, 1, 2, 3, 4, 5, 6, 7, 8};
static const int64_t classes[3] = {2, 0, 1};

static void write_arrays(void)
{
    mkdir(in_folder("arrays"), 0777);
    write_npy("arrays/x_train.npy", HEADER("|u1", "(3, 2, 2)"), pixels, 12);
    write_npy("arrays/y_train.npy", HEADER("<i8", "(3,)"), classes, 24);
    write_npy("arrays/x_test.npy", HEADER("|u1", "(1, 2, 2)"), pixels + 4, 4);
    write_npy("arrays/y_test.npy", HEADER("<i8", "(1,)"), classes, 8);
}

static void arrays_are_read(void **state)
{
    float x[4];
    uint32_t y[1];
    gwt_data data;

    (void)state;
    write_arrays();
    assert_int_equal(load(&data, "npy", "arrays", ""), GW_OK);
    assert_int_equal(data.floats, 0);
    assert_int_equal(data.classes, 3);
    assert_int_equal(data.shape.height, 2);
    gwt_data_batch(&data, &data.train, NULL, 0, 1, x, y);
    assert_true(x[1] == 1.0f && fabsf(x[2] - 0.2f) < 1e-6f && y[0] == 2);
    gwt_data_free(&data);
}

static void every_type_is_a_number(void **state)
{
    static const double doubles[2] = {0.25, -1.5};
    static const float floats[2] = {0.25f, -1.5f};
    static const int16_t shorts[2] = {300, -2};
    static const int64_t longs[2] = {INT64_C(1) << 40, -3};
    static const struct type {
        const char *header;
        const void *at;
        size_t len;
        double first, second;
    } list[] = {{HEADER("<f8", "(2,)"), doubles, 16, 0.25, -1.5},
                {HEADER("<f4", "(2,)"), floats, 8, 0.25, -1.5},
                {HEADER("<i2", "(2,)"), shorts, 4, 300, -2},
                {HEADER("<i8", "(2,)"), longs, 16, 0x1p40, -3},
                {HEADER("<u2", "(2,)"), shorts, 4, 300, 65534},
                {"{ \"shape\":(1,2),\"descr\":'|i1','fortran_order':False}", "\x7f\x80",
                 2, 127, -128}};
    gwt_bytes bytes;
    gwt_npy array;

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        write_npy("one.npy", list[i].header, list[i].at, list[i].len);
        assert_int_equal(gwt_bytes_load(&bytes, in_folder("one.npy")), GW_OK);
        assert_int_equal(gwt_npy_parse(&array, bytes.at, bytes.len, "one.npy"), GW_OK);
        assert_true(gwt_npy_number(&array, 0) == list[i].first);
        assert_true(gwt_npy_number(&array, 1) == list[i].second);
        gwt_bytes_free(&bytes);
    }
}

/* Floats to predict make floats of bytes, too. */
static void numbers_to_predict(void **state)
{
    static const float numbers[3] = {0.5f, -2.0f, 1.0f};
    float x[4], number;
    uint32_t y[1];
    gwt_data data;

    (void)state;
    write_arrays();
    write_npy("arrays/y_train.npy", HEADER("<f4", "(3,)"), numbers, 12);
    load_fails("npy", "arrays", "", GW_ERR_DATA, "y_test.npy", "both");
    write_npy("arrays/y_test.npy", HEADER("<f4", "(1,)"), numbers, 4);
    assert_int_equal(load(&data, "npy", "arrays", ""), GW_OK);
    assert_true(data.floats && data.classes == 0);
    gwt_data_batch(&data, &data.train, NULL, 1, 1, x, y);
    memcpy(&number, y, sizeof number);
    assert_true(number == -2.0f && fabsf(x[0] - 1.0f / 255.0f) < 1e-7f);
    gwt_data_free(&data);
}

static void bad_arrays_are_named(void **state)
{
    static const float not_a_number[12] = {0, 1, NAN};
    static const int64_t negative[3] = {1, -1, 0}, large[1] = {7};
    static const struct bad {
        const char *name, *header;
        const void *at;
        size_t len;
        const char *word;
    } list[] = {
        {"x_train", HEADER("|u1", "(3, 2, 2)"), pixels, 11, "11 bytes of elements"},
        {"x_train", HEADER("|u1", "(12,)"), pixels, 12, "one dimension"},
        {"x_train", HEADER("|u1", "()"), pixels, 1, "not an array"},
        {"x_train", HEADER("|u1", "(3, 0, 2)"), pixels, 0, "size 0"},
        {"x_train", HEADER("|u1", "(2, 2, 2)"), pixels, 8, "2 samples"},
        {"x_train", HEADER("|u1", "(3, 4)"), pixels, 12, "1x1x4"},
        {"x_train", HEADER("|u1", "(1, 6, 2, 1)"), pixels, 12, "transpose(0, 3, 1, 2)"},
        {"x_train", HEADER("|O", "(3, 2, 2)"), pixels, 12, "astype"},
        {"x_train", HEADER(">f4", "(3, 1)"), pixels, 12, "astype"},
        {"x_train", HEADER("|u1", "(99999999999999999, 99999999999999999)"), pixels, 12,
         "invalid size"},
        {"x_train", HEADER("|u1", "(999999999999999999999999,)"), pixels, 12, "sizes"},
        {"x_train", "{'descr': '|u1', 'fortran_order': True, 'shape': (3, 4)}", pixels,
         12, "ascontiguousarray"},
        {"x_train", "{'descr': '|u1', 'shape': (3, 4)}", pixels, 12, "missing"},
        {"x_train", "{'descr': '|u1', 'descr': '|u1'}", pixels, 12, "twice"},
        {"x_train", "{'descr", pixels, 12, "':'"},
        {"x_train", HEADER("<f4", "(3, 2, 2)"), not_a_number, 48, "element 2"},
        {"y_train", HEADER("<i8", "(3,)"), negative, 24, "element 1 is -1"},
        {"y_train", HEADER("<i8", "(2,)"), classes, 16, "2 labels"},
        {"y_test", HEADER("<i8", "(1,)"), large, 8, "class 7"},
    };
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        write_arrays();
        snprintf(name, sizeof name, "arrays/%s.npy", list[i].name);
        write_npy(name, list[i].header, list[i].at, list[i].len);
        load_fails("npy", "arrays", "", GW_ERR_DATA, list[i].name, list[i].word);
    }
    write_arrays();
    write_text("arrays/x_test.npy", "GIF89a, no array");
    load_fails("npy", "arrays", "", GW_ERR_DATA, "x_test.npy", "not an array of numpy");
    write_text("arrays.npz", "PK but no archive, and long enough for its end");
    load_fails("npz", "arrays.npz", "", GW_ERR_DATA, "arrays.npz", "damaged");
}

static void no_memory_is_an_error(void **state)
{
    static const char *const sets[][2] = {
        {"npy", "arrays"}, {"csv", "a.csv"}, {"text", "prose.txt"}};
    gwt_data data;

    (void)state;
    write_arrays();
    write_table("a.csv", "a,b,label,c\n", 23);
    write_text("prose.txt", "it is it is it is it is it is it is it is it is it is it");
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0;; k++) {
            gwt_alloc_fail_at(k);
            gw_status st =
                load(&data, sets[i][0], sets[i][1], i == 1 ? ",label=label" : "");
            gwt_alloc_fail_at((size_t)-1);
            if (st == GW_OK)
                gwt_data_free(&data);
            if (st == GW_OK)
                break;
            assert_int_equal(st, GW_ERR_NOMEM);
        }
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(one_text_is_split_by_place),
        RUN(rare_words_are_unknown),
        RUN(one_text_by_word_knows_all),
        RUN(rows_go_where_they_belong),
        RUN(columns_are_scaled),
        RUN(labels_may_be_numbers),
        RUN(two_tables_are_two_splits),
        RUN(bad_tables_are_named),
        RUN(arrays_are_read),
        RUN(every_type_is_a_number),
        RUN(numbers_to_predict),
        RUN(bad_arrays_are_named),
        RUN(no_memory_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
