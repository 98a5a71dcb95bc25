/* SPDX-License-Identifier: Apache-2.0
 *
 * data_cifar.c - CIFAR-10 from its six binary files, which are rows of records and
 * nothing else:
 *
 *     byte  0         the label, 0..9
 *     bytes 1-3072    the red plane, the green and the blue, each 32 rows of 32
 *
 * The original files have 10000 records each; any number is taken. */
#include "data/data.h"

#include <stdio.h>

enum { FILE_CAP = GWT_PATH_CAP + 64, SIDE = 32, CHANNELS = 3, CLASSES = 10 };
enum { RECORD = 1 + CHANNELS * SIDE * SIDE, TRAIN_FILES = 5 };

/* Of all training images; these are the usual values. */
static const gwt_channel normal[CHANNELS] = {
    {0.4914f, 0.2470f},
    {0.4822f, 0.2435f},
    {0.4465f, 0.2616f},
};

gw_status gwt_cifar_check(const uint8_t *at, size_t len, const char *path)
{
    size_t records = len / RECORD;

    if (len == 0)
        return gw_fail(GW_ERR_DATA, "%s is empty; download it again", path);
    if (len % RECORD != 0)
        return gw_fail(GW_ERR_DATA,
                       "%s has %zu bytes, which is not a multiple of %d, the size of a "
                       "CIFAR-10 record (%zu or %zu would be); download it again",
                       path, len, RECORD, records * RECORD, (records + 1) * RECORD);
    for (size_t i = 0; i < records; i++)
        if (at[i * RECORD] >= CLASSES)
            return gw_fail(GW_ERR_DATA,
                           "%s: record %zu has label %d, but CIFAR-10 labels are 0 to "
                           "%d; download it again",
                           path, i, at[i * RECORD], CLASSES - 1);
    return GW_OK;
}

static gw_status load_file(gwt_split *split, gwt_bytes *kept, const char *directory,
                           const char *name)
{
    char path[FILE_CAP];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    GWT_TRY(gwt_bytes_load(kept, path));
    GWT_TRY(gwt_cifar_check(kept->at, kept->len, path));
    gwt_split_add(split, (gwt_block){.count = kept->len / RECORD,
                                     .samples = kept->at + 1,
                                     .labels = kept->at,
                                     .sample_step = RECORD,
                                     .label_step = RECORD});
    return GW_OK;
}

gw_status gwt_cifar_load(gwt_data *out, const char *directory)
{
    char name[32];

    out->shape = (gwt_shape){CHANNELS, SIDE, SIDE};
    out->classes = CLASSES;
    out->normal = normal;
    out->augment = GWT_AUGMENT_CROP | GWT_AUGMENT_FLIP;
    for (int i = 0; i < TRAIN_FILES; i++) {
        snprintf(name, sizeof name, "data_batch_%d.bin", i + 1);
        GWT_TRY(load_file(&out->train, &out->owned[i], directory, name));
    }
    return load_file(&out->test, &out->owned[TRAIN_FILES], directory, "test_batch.bin");
}
