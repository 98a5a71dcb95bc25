/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_cifar.c - CIFAR-10's files right and wrong, normalised batches, and
 * what augmentation does to a picture. */
#define _GNU_SOURCE
#include "data/augment.h"
#include "data/data.h"
#include "support_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RECORD = 3073, PER_FILE = 4, SIDE = 32, PLANE = SIDE * SIDE };

/* Byte k of record i of file f. */
static uint8_t byte_of(size_t f, size_t i, size_t k)
{
    return (uint8_t)(k == 0 ? (f * PER_FILE + i) % 10 : f * 31 + i * 7 + k * 3);
}

static void write_batch(size_t f, size_t len)
{
    static uint8_t all[PER_FILE * RECORD + 1];
    char name[32] = "test_batch.bin";

    for (size_t i = 0; i < PER_FILE; i++)
        for (size_t k = 0; k < RECORD; k++)
            all[i * RECORD + k] = byte_of(f, i, k);
    if (f < 5)
        snprintf(name, sizeof name, "data_batch_%zu.bin", f + 1);
    write_file(name, all, len);
}

static void write_all(void)
{
    for (size_t f = 0; f < 6; f++)
        write_batch(f, PER_FILE * RECORD);
}

static gw_status load(gwt_data *data)
{
    char name[128];

    snprintf(name, sizeof name, "cifar10:%s", test_folder);
    return gwt_data_load(data, name, NULL);
}

static void loads_six_files(void **state)
{
    static const float mean[] = {0.4914f, 0.4822f, 0.4465f};
    static const float deviation[] = {0.2470f, 0.2435f, 0.2616f};
    static float x[3 * PLANE];
    gwt_data data;
    uint32_t y;

    (void)state;
    write_all();
    assert_int_equal(load(&data), GW_OK);
    assert_int_equal(data.train.count, 5 * PER_FILE);
    assert_int_equal(data.test.count, PER_FILE);
    assert_int_equal(data.classes, 10);
    assert_int_equal(data.augment, GWT_AUGMENT_CROP | GWT_AUGMENT_FLIP);
    for (size_t f = 0; f < 5; f++)
        assert_true(data.owned[f].mapped);
    for (uint32_t s = 0; s < 5 * PER_FILE; s++) {
        gwt_data_batch(&data, &data.train, &s, 0, 1, x, &y);
        assert_int_equal(y, byte_of(s / PER_FILE, s % PER_FILE, 0));
        for (size_t k = 0; k < 3 * PLANE; k++) {
            float p = (float)byte_of(s / PER_FILE, s % PER_FILE, 1 + k) / 255.0f;
            float want = (p - mean[k / PLANE]) / deviation[k / PLANE];
            assert_float_equal(x[k], want, 1e-5);
        }
    }
    gwt_data_batch(&data, &data.test, NULL, 2, 1, x, &y);
    assert_int_equal(y, byte_of(5, 2, 0));
    gwt_data_free(&data);
}

static void expect_bad(const char *const *words)
{
    gwt_data data;

    if (load(&data) == GW_OK)
        fail_msg("loaded, though '%s' was expected", words[0]);
    for (; *words != NULL; words++)
        if (strstr(gw_error_message(), *words) == NULL)
            fail_msg("'%s' lacks '%s'", gw_error_message(), *words);
    assert_null(strchr(gw_error_message(), '\n'));
    assert_null(data.owned[0].owned);
}

#define EXPECT_BAD(...) expect_bad((const char *const[]){__VA_ARGS__, NULL})

static void refuses_wrong_files(void **state)
{
    (void)state;
    write_all();
    write_batch(2, 2 * RECORD - 1);
    EXPECT_BAD("data_batch_3.bin", "6145 bytes", "3073", "6146");
    write_batch(2, PER_FILE * RECORD + 1);
    EXPECT_BAD("data_batch_3.bin", "12293 bytes", "12292");
    write_batch(2, 0);
    EXPECT_BAD("data_batch_3.bin", "empty");
    write_batch(2, PER_FILE * RECORD);
    FILE *file = fopen(in_folder("test_batch.bin"), "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, 3 * RECORD, SEEK_SET), 0);
    putc(10, file);
    assert_int_equal(fclose(file), 0);
    EXPECT_BAD("test_batch.bin", "record 3", "label 10", "0 to 9");
    assert_int_equal(remove(in_folder("test_batch.bin")), 0);
    EXPECT_BAD("test_batch.bin", "cannot read");
}

/* ---- augmentation ---------------------------------------------------------------- */

static const gwt_shape shape = {2, 9, 11};

enum { FLOATS = 2 * 9 * 11, BOTH = GWT_AUGMENT_CROP | GWT_AUGMENT_FLIP };

static void fill(float x[FLOATS])
{
    for (size_t i = 0; i < FLOATS; i++)
        x[i] = (float)(i + 1);
}

/* What the definition says, for a picture that fill() made. */
static float expected(int c, int y, int x, int dy, int dx, int flip)
{
    int h = (int)shape.height, w = (int)shape.width;
    int from_y = y + dy, from_x = (flip ? w - 1 - x : x) + dx;

    if (from_y < 0 || from_y >= h || from_x < 0 || from_x >= w)
        return 0.0f;
    return (float)((c * h + from_y) * w + from_x + 1);
}

static int agrees(const float *x, int dy, int dx, int flip)
{
    for (int c = 0; c < (int)shape.channels; c++)
        for (int y = 0; y < (int)shape.height; y++)
            for (int i = 0; i < (int)shape.width; i++)
                if (*x++ != expected(c, y, i, dy, dx, flip))
                    return 0;
    return 1;
}

/* Which of the 9 x 9 x 2 pictures it is. */
static int which(const float *x)
{
    for (int k = 0; k < 9 * 9 * 2; k++)
        if (agrees(x, k / 18 - 4, k / 2 % 9 - 4, k % 2))
            return k;
    fail_msg("no crop or flip gives this picture");
    return -1;
}

static void crops_and_flips(void **state)
{
    enum { TRIALS = 8100 };
    int seen[9 * 9 * 2] = {0};
    float x[FLOATS];

    (void)state;
    for (uint64_t i = 0; i < TRIALS; i++) {
        fill(x);
        gwt_augment(x, shape, BOTH, 1, i % 90, i / 90);
        seen[which(x)]++;
    }
    /* A binomial around 50 with a deviation of 7: six of them either way. */
    for (int k = 0; k < 9 * 9 * 2; k++)
        assert_in_range(seen[k], 8, 92);
}

static void only_what_is_asked(void **state)
{
    float x[FLOATS];

    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        fill(x);
        gwt_augment(x, shape, GWT_AUGMENT_CROP, 1, 0, i);
        assert_int_equal(which(x) % 2, 0);
        fill(x);
        gwt_augment(x, shape, GWT_AUGMENT_FLIP, 1, 0, i);
        assert_int_equal(which(x) / 2, 4 * 9 + 4);
    }
}

/* The same counters give the same picture, others mostly another. */
static void depends_on_counters_alone(void **state)
{
    int same[3] = {0};

    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        float x[4][FLOATS], again[FLOATS];
        const uint64_t seed[] = {1, 2, 1, 1}, epoch[] = {5, 5, 6, 5},
                       sample[] = {i, i, i, i + 1};
        for (size_t k = 0; k < 4; k++) {
            fill(x[k]);
            gwt_augment(x[k], shape, BOTH, seed[k], epoch[k], sample[k]);
        }
        fill(again);
        gwt_augment(again, shape, BOTH, 1, 5, i);
        assert_memory_equal(x[0], again, sizeof again);
        for (size_t k = 0; k < 3; k++)
            same[k] += memcmp(x[0], x[k + 1], sizeof again) == 0;
    }
    for (size_t k = 0; k < 3; k++)
        assert_true(same[k] < 20);
}

static void small_pictures_are_refused(void **state)
{
    (void)state;
    assert_int_equal(gwt_augment_check(BOTH, (gwt_shape){1, 8, 8}), GW_OK);
    assert_int_equal(gwt_augment_check(BOTH, (gwt_shape){1, 7, 8}), GW_ERR_ARG);
    assert_int_equal(gwt_augment_check(GWT_AUGMENT_FLIP, (gwt_shape){1, 1, 784}),
                     GW_ERR_ARG);
    assert_int_equal(gwt_augment_check(GWT_AUGMENT_NONE, (gwt_shape){1, 1, 784}),
                     GW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_six_files),
        cmocka_unit_test(refuses_wrong_files),
        cmocka_unit_test(crops_and_flips),
        cmocka_unit_test(only_what_is_asked),
        cmocka_unit_test(depends_on_counters_alone),
        cmocka_unit_test(small_pictures_are_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
