/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_json.c - the JSON writer: nesting, escapes, numbers JSON lacks. */
#define _GNU_SOURCE
#include "files/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static char *text;
static size_t len;

static gwt_json begin(int indent)
{
    FILE *to = open_memstream(&text, &len);

    assert_non_null(to);
    return (gwt_json){.to = to, .indent = indent};
}

static void expect(gwt_json *j, const char *want)
{
    fclose(j->to);
    assert_string_equal(text, want);
    free(text);
}

static void nests(void **state)
{
    gwt_json j = begin(0);

    (void)state;
    gwt_json_open(&j, NULL, '{');
    gwt_json_count(&j, "a", UINT64_MAX);
    gwt_json_open(&j, "b", '[');
    gwt_json_bool(&j, NULL, 1);
    gwt_json_null(&j, NULL);
    gwt_json_open(&j, NULL, '{');
    gwt_json_close(&j, '}');
    gwt_json_close(&j, ']');
    gwt_json_bool(&j, "c", 0);
    gwt_json_close(&j, '}');
    expect(&j, "{\"a\": 18446744073709551615, \"b\": [true, null, {}], \"c\": false}");
}

static void indents(void **state)
{
    gwt_json j = begin(2);

    (void)state;
    gwt_json_open(&j, NULL, '{');
    gwt_json_count(&j, "a", 1);
    gwt_json_open(&j, "b", '[');
    gwt_json_count(&j, NULL, 2);
    gwt_json_close(&j, ']');
    gwt_json_open(&j, "c", '[');
    gwt_json_close(&j, ']');
    gwt_json_close(&j, '}');
    expect(&j, "{\n  \"a\": 1,\n  \"b\": [\n    2\n  ],\n  \"c\": []\n}");
}

static void escapes(void **state)
{
    static const struct {
        const char *in, *out;
    } each[] = {
        {"plain", "\"plain\""},
        {"", "\"\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
        {"\xf0\x9f\x9a\x80", "\"\xf0\x9f\x9a\x80\""},
        {"\xff", "\"\\ufffd\""},
        {"a\xc3", "\"a\\ufffd\""},
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        gwt_json j = begin(0);
        gwt_json_text(&j, NULL, each[i].in);
        expect(&j, each[i].out);
    }
}

static void numbers(void **state)
{
    static const struct {
        double in;
        const char *out;
    } each[] = {
        {0.0, "0"},
        {-1.5, "-1.5"},
        {0.1, "0.1"},
        {1e300, "1e+300"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
        {-(double)INFINITY, "null"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        gwt_json j = begin(0);
        gwt_json_real(&j, NULL, each[i].in);
        expect(&j, each[i].out);
    }
}

static void fixed_numbers(void **state)
{
    static const struct {
        double in;
        const char *out;
    } each[] = {
        {0.0, "0.000"},
        {-1.5, "-1.500"},
        {12229203.25, "12229203.250"},
        {1e12 + 0.125, "1000000000000.125"},
        {(double)NAN, "null"},
        {(double)INFINITY, "null"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        gwt_json j = begin(0);
        gwt_json_fixed(&j, NULL, each[i].in);
        expect(&j, each[i].out);
    }
}

static void absent_text_is_null(void **state)
{
    gwt_json j = begin(0);

    (void)state;
    gwt_json_text(&j, NULL, NULL);
    expect(&j, "null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nests),         cmocka_unit_test(indents),
        cmocka_unit_test(escapes),       cmocka_unit_test(numbers),
        cmocka_unit_test(fixed_numbers), cmocka_unit_test(absent_text_is_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
