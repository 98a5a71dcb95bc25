/* SPDX-License-Identifier: Apache-2.0
 *
 * data_idx.c - a data set from the four IDX files of a directory: images and labels
 * to train with and to test with, each gzipped or not. */
#define _GNU_SOURCE
#include "data.h"
#include "idx.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FILE_CAP = GWT_PATH_CAP + 64 };

/* directory/name, with .gz if only that is there. */
static void file_path(char path[FILE_CAP], const char *directory, const char *name)
{
    snprintf(path, FILE_CAP, "%s/%s.gz", directory, name);
    if (access(path, F_OK) != 0)
        snprintf(path, FILE_CAP, "%s/%s", directory, name);
}

static gw_status read_images(gwt_split *split, gwt_shape *shape, const char *path)
{
    gwt_idx idx;

    GWT_TRY(gwt_idx_read(&idx, path, 3));
    split->count = idx.dim[0];
    split->pixels = idx.at;
    *shape = (gwt_shape){1, idx.dim[1], idx.dim[2]};
    if (split->count > UINT32_MAX)
        return gw_fail(GW_ERR_DATA, "%s has more images than gradwire can count", path);
    return GW_OK;
}

/* Labels are counted from 0; the largest says how many classes there are. */
static gw_status read_labels(gwt_split *split, size_t *classes, const char *path,
                             const char *images)
{
    gwt_idx idx;

    GWT_TRY(gwt_idx_read(&idx, path, 1));
    split->labels = idx.at;
    if (idx.dim[0] != split->count)
        return gw_fail(GW_ERR_DATA, "%s has %zu labels, but %s has %zu images", path,
                       idx.dim[0], images, split->count);
    for (size_t i = 0; i < split->count; i++)
        if (split->labels[i] >= *classes)
            *classes = (size_t)split->labels[i] + 1;
    return GW_OK;
}

static gw_status read_split(gwt_split *split, gwt_shape *shape, size_t *classes,
                            const char *directory, const char *part)
{
    char images[FILE_CAP], labels[FILE_CAP], name[64];

    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    file_path(images, directory, name);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    file_path(labels, directory, name);
    GWT_TRY(read_images(split, shape, images));
    return read_labels(split, classes, labels, images);
}

gw_status gwt_idx_load(gwt_data *out, const char *directory, size_t classes)
{
    gwt_shape test_shape;
    size_t test_classes = 0;

    GWT_TRY(read_split(&out->train, &out->shape, &out->classes, directory, "train"));
    if (classes != 0 && out->classes != classes)
        return gw_fail(GW_ERR_DATA,
                       "%s: the largest label to train with is %zu, but this data set "
                       "has %zu classes",
                       directory, out->classes - 1, classes);
    GWT_TRY(read_split(&out->test, &test_shape, &test_classes, directory, "t10k"));
    if (test_shape.height != out->shape.height || test_shape.width != out->shape.width)
        return gw_fail(GW_ERR_DATA,
                       "%s: the images to test with are %zux%zu, those to train with "
                       "%zux%zu",
                       directory, test_shape.height, test_shape.width,
                       out->shape.height, out->shape.width);
    if (test_classes > out->classes)
        return gw_fail(
            GW_ERR_DATA,
            "%s: a label to test with is %zu, but those to train with end at "
            "%zu",
            directory, test_classes - 1, out->classes - 1);
    return GW_OK;
}
