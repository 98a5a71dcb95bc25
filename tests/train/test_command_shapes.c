/* SPDX-License-Identifier: Apache-2.0
 *
 * test_command_shapes.c - numbers of parameters as users write them, and the models
 * that 'gradwire plan' and 'gradwire simulate' know by name. */
#include "../../cli/model_shapes.c"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t most = 1000000000000;

static void reads_numbers(void **state)
{
    static const struct {
        const char *text;
        uint64_t count;
    } good[] = {
        {"124m", 124000000},   {"25.6M", 25600000},
        {"7b", 7000000000},    {"1e9", 1000000000},
        {"1.5K", 1500},        {"2G", 2000000000},
        {"1t", 1000000000000}, {"25557032", 25557032},
        {".5k", 500},          {"1", 1},
        {"1e+3", 1000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t x = 0;
        assert_int_equal(gwc_parse_params("--params", good[i].text, most, &x), GW_OK);
        assert_int_equal(x, good[i].count);
    }
}

static void refuses_others(void **state)
{
    static const char *const bad[] = {"124q", "m",    "-5",  "0x10", "nan",  "inf",
                                      "1e",   "1mm",  "",    "1e99", "0",    " 5",
                                      "5 m",  "1.1t", "1m5", "+5",   "1e-9", "."};

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t x = 77;
        assert_int_equal(gwc_parse_params("--params", bad[i], most, &x), GW_ERR_ARG);
        assert_non_null(strstr(gw_error_message(), "--params"));
        assert_int_equal(x, 77);
    }
}

static void knows_models(void **state)
{
    (void)state;
    assert_int_equal(gwc_shape_find("resnet50")->params, 25557032);
    assert_int_equal(gwc_shape_find("gpt2-124m")->params, 124439808);
    assert_int_equal(gwc_shape_find("llama-7b")->params, 6738415616);
    assert_null(gwc_shape_find("resnet51"));
    for (size_t i = 0; gwc_shape_at(i) != NULL; i++)
        assert_ptr_equal(gwc_shape_find(gwc_shape_at(i)->name), gwc_shape_at(i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(refuses_others),
        cmocka_unit_test(knows_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
