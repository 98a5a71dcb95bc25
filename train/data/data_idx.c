/* SPDX-License-Identifier: Apache-2.0
 *
 * data_idx.c - loads the four IDX files in a directory: training and test images and
 * labels, each gzipped or not. */
#define _GNU_SOURCE
#include "data/data.h"
#include "data/idx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_CAP = GWT_PATH_CAP + 64 };

/* directory/name, with .gz if only that is there. */
static void file_path(char path[FILE_CAP], const char *directory, const char *name)
{
    char packed[FILE_CAP];

    snprintf(path, FILE_CAP, "%s/%s", directory, name);
    snprintf(packed, FILE_CAP, "%s/%s.gz", directory, name);
    if (access(path, F_OK) != 0 && access(packed, F_OK) == 0)
        memcpy(path, packed, FILE_CAP);
}

/* Stores the contents of the file in *kept, even on failure. */
static gw_status read_idx(gwt_idx *idx, gwt_bytes *kept, const char *path, size_t dims)
{
    GWT_TRY(gwt_bytes_load(kept, path));
    return gwt_idx_parse(idx, kept->at, kept->len, dims, path);
}

static gw_status read_images(gwt_block *block, gwt_shape *shape, gwt_bytes *kept,
                             const char *path)
{
    gwt_idx idx;

    GWT_TRY(read_idx(&idx, kept, path, 3));
    block->count = idx.dim[0];
    block->samples = idx.at;
    block->sample_step = idx.dim[1] * idx.dim[2];
    *shape = (gwt_shape){1, idx.dim[1], idx.dim[2]};
    if (block->count > UINT32_MAX)
        return gw_fail(GW_ERR_DATA, "%s has too many images", path);
    return GW_OK;
}

/* Labels start at 0, so the largest one determines the number of classes. */
static gw_status read_labels(gwt_block *block, size_t *classes, gwt_bytes *kept,
                             const char *path, const char *images)
{
    gwt_idx idx;

    GWT_TRY(read_idx(&idx, kept, path, 1));
    block->labels = idx.at;
    block->label_step = 1;
    if (idx.dim[0] != block->count)
        return gw_fail(GW_ERR_DATA, "%s has %zu labels, but %s has %zu images", path,
                       idx.dim[0], images, block->count);
    for (size_t i = 0; i < block->count; i++)
        if (block->labels[i] >= *classes)
            *classes = (size_t)block->labels[i] + 1;
    return GW_OK;
}

/* kept has room for the contents of two files. */
static gw_status read_split(gwt_split *split, gwt_shape *shape, size_t *classes,
                            gwt_bytes *kept, const char *directory, const char *part)
{
    char images[FILE_CAP], labels[FILE_CAP], name[64];
    gwt_block block;

    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    file_path(images, directory, name);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    file_path(labels, directory, name);
    GWT_TRY(read_images(&block, shape, &kept[0], images));
    GWT_TRY(read_labels(&block, classes, &kept[1], labels, images));
    gwt_split_add(split, block);
    return GW_OK;
}

gw_status gwt_idx_load(gwt_data *out, const char *directory, size_t classes)
{
    gwt_shape test_shape;
    size_t test_classes = 0;

    GWT_TRY(read_split(&out->train, &out->shape, &out->classes, out->owned, directory,
                       "train"));
    if (classes != 0 && out->classes != classes)
        return gw_fail(
            GW_ERR_DATA,
            "%s: the largest training label is %zu, but this data set has %zu classes",
            directory, out->classes - 1, classes);
    GWT_TRY(read_split(&out->test, &test_shape, &test_classes, out->owned + 2,
                       directory, "t10k"));
    if (test_shape.height != out->shape.height || test_shape.width != out->shape.width)
        return gw_fail(GW_ERR_DATA,
                       "%s: test images are %zux%zu, but training images are %zux%zu",
                       directory, test_shape.height, test_shape.width,
                       out->shape.height, out->shape.width);
    if (test_classes > out->classes)
        return gw_fail(GW_ERR_DATA,
                       "%s: a test label is %zu, but the largest training label is %zu",
                       directory, test_classes - 1, out->classes - 1);
    return GW_OK;
}
