/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_weights.c - weights as safetensors: there and back, of another model,
 * of other tools, damaged. */
#define _GNU_SOURCE
#include "files/safetensors.h"
#include "run/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "gradwire-weights-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    return 0;
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

static gwt_model *make(const char *name, size_t dim)
{
    const gwt_model_spec *spec;
    gwt_model *model;

    assert_int_equal(gwt_model_find(name, &spec), GW_OK);
    assert_int_equal(gwt_model_new(&model, spec, (gwt_shape){dim, 1, 1}, 3, 4), GW_OK);
    return model;
}

static void write_model(gwt_model *model)
{
    size_t count;
    const gw_tensor *tensors = gwt_model_tensors(model, &count);

    assert_int_equal(gwt_weights_write(path, tensors, gwt_model_windows(model), count,
                                       gwt_model_params(model), NULL, 0),
                     GW_OK);
}

static void there_and_back(void **state)
{
    gwt_model *from = make("fnn3", 7), *to = make("fnn3", 7);
    size_t n = gwt_model_floats(from);

    (void)state;
    gwt_model_init(from, 5);
    write_model(from);
    assert_int_equal(gwt_weights_read(path, to), GW_OK);
    assert_memory_equal(gwt_model_params(from), gwt_model_params(to), 4 * n);
    gwt_model_free(from);
    gwt_model_free(to);
}

static void refuse(gwt_model *model, const char *a, const char *b)
{
    gw_status st = gwt_weights_read(path, model);

    assert_true(st == GW_ERR_DATA);
    if (strstr(gw_error_message(), a) == NULL || strstr(gw_error_message(), b) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", gw_error_message(), a, b);
}

static void another_model(void **state)
{
    gwt_model *small = make("softmax", 7), *wide = make("softmax", 8),
              *deep = make("fnn3", 7);

    (void)state;
    write_model(small);
    refuse(wide, "3 x 7", "3 x 8");
    refuse(deep, "has a tensor", "the model has none of that name");
    gwt_model_free(small);
    gwt_model_free(wide);
    gwt_model_free(deep);
}

/* A file with this header and that many bytes of values. */
static void write_header(const char *header, size_t values)
{
    FILE *file = fopen(path, "wb");
    uint64_t len = strlen(header);

    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(len >> 8 * i & 255), file);
    fputs(header, file);
    for (size_t i = 0; i < values; i++)
        fputc(0, file);
    fclose(file);
}

/* softmax on two inputs: a weight of 3 x 2 and a bias of 3. */
static void of_other_tools(void **state)
{
    gwt_model *model = make("softmax", 2);
    size_t count;
    const gw_tensor *t = gwt_model_tensors(model, &count);
    char header[1000];

    (void)state;
    assert_int_equal(count, 2);
    /* Another order, blanks, four dimensions, escapes, metadata. */
    snprintf(header, sizeof header,
             " {\"%s\" : {\"data_offsets\":[24,36] ,\"shape\":[3], \"dtype\":\"F32\"},"
             "\"__metadata__\":{\"a\\u00e9\\n\":\"b\\\"\"},\n\"%s\":{\"dtype\":\"F32\","
             "\"shape\":[3,1,2,1],\"data_offsets\":[0,24]}}  ",
             t[1].name, t[0].name);
    write_header(header, 36);
    if (gwt_weights_read(path, model) != GW_OK)
        fail_msg("%s", gw_error_message());
    write_header(header, 35);
    refuse(model, "outside", path);
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"BF16\",\"shape\":[3,2],\"data_offsets\":[0,12]},"
             "\"%s\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}",
             t[0].name, t[1].name);
    write_header(header, 24);
    refuse(model, "BF16", "F32");
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
             t[0].name);
    write_header(header, 24);
    refuse(model, "2 x 3", "3 x 2");
    snprintf(header, sizeof header,
             "{\"%s\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[0,24]}}",
             t[0].name);
    write_header(header, 24);
    refuse(model, "no tensor", t[1].name);
    gwt_model_free(model);
}

static void no_header_is_trusted(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{}x",
        "{\"a\"}",
        "{\"a\":{}}",
        "{\"a\":{\"dtype\":\"F32\"}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967297],"
        "\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],"
        "\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],"
        "\"data_offsets\":[0,4]}}",
        "{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\\x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],"
        "\"data_offsets\":[0,4]}}",
        "{\"__metadata__\":{\"a\":1}}",
    };
    gwt_safetensors in;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_header(bad[i], 8);
        if (gwt_safetensors_open(&in, path) != GW_ERR_DATA)
            fail_msg("took %s", bad[i]);
    }
}

/* One tensor of floats in a header. */
#define AT(name, floats, begin, end)                           \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" #floats "]," \
    "\"data_offsets\":[" #begin "," #end "]}"

/* Every name and every byte is there once. */
static void nothing_twice_and_nothing_between(void **state)
{
    static const struct {
        const char *header;
        size_t bytes;
        const char *what; /* NULL: it is good */
    } files[] = {
        {"{" AT("a", 1, 0, 4) "," AT("b", 1, 4, 8) "}", 8, NULL},
        {"{" AT("b", 1, 4, 8) "," AT("a", 1, 0, 4) "," AT("c", 0, 4, 4) "}", 8, NULL},
        {"{" AT("a", 1, 0, 4) "," AT("a", 1, 4, 8) "}", 8, "two tensors named 'a'"},
        {"{" AT("a", 1, 0, 4) "," AT("b", 0, 4, 4) "," AT("\\u0061", 1, 4, 8) "}", 8,
         "two tensors named 'a'"},
        {"{\"__metadata__\":{}," AT("a", 1, 0, 4) ",\"__metadata__\":{}}", 4, "twice"},
        {"{" AT("a", 1, 0, 4) "}", 5, "1 byte after"},
        {"{" AT("a", 1, 0, 4) "}", 8, "4 bytes after"},
        {"{}", 3, "3 bytes after"},
        {"{" AT("a", 1, 4, 8) "}", 8, "'a' in"},
        {"{" AT("a", 1, 0, 4) "," AT("b", 1, 8, 12) "}", 12, "'b' in"},
        {"{" AT("a", 2, 0, 8) "," AT("b", 1, 4, 8) "}", 8, "'b' in"},
        {"{" AT("a", 1, 0, 4) "," AT("b", 1, 0, 4) "}", 4, "begins at byte 0"},
    };
    gwt_safetensors in;

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_header(files[i].header, files[i].bytes);
        gw_status st = gwt_safetensors_open(&in, path);
        if (st != (files[i].what == NULL ? GW_OK : GW_ERR_DATA))
            fail_msg("%s: %s", files[i].header, gw_status_text(st));
        if (st == GW_OK)
            gwt_safetensors_close(&in);
        else if (strstr(gw_error_message(), files[i].what) == NULL)
            fail_msg("%s: %s", files[i].header, gw_error_message());
    }
}

/* Cut anywhere: either not taken, or all of its tensors are still there. */
static void cut_off(void **state)
{
    gwt_model *model = make("softmax", 2);
    uint8_t bytes[4096];
    gwt_safetensors in;

    (void)state;
    write_model(model);
    FILE *file = fopen(path, "rb");
    size_t len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(gwt_safetensors_over(&in, "it", bytes, cut), GW_ERR_DATA);
    assert_int_equal(gwt_safetensors_over(&in, "it", bytes, len), GW_OK);
    gwt_safetensors_close(&in);
    gwt_model_free(model);
    unlink(path);
    assert_int_equal(gwt_safetensors_open(&in, path), GW_ERR_SYSTEM);
    make_path(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(another_model),
        cmocka_unit_test(of_other_tools),
        cmocka_unit_test(no_header_is_trusted),
        cmocka_unit_test(nothing_twice_and_nothing_between),
        cmocka_unit_test(cut_off),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
