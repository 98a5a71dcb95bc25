/* SPDX-License-Identifier: Apache-2.0
 *
 * data_npy.c - arrays of numpy as a data set: npy:DIR with x_train.npy, y_train.npy,
 * x_test.npy and y_test.npy, or npz:FILE with these four.
 *
 *     x    samples, features                      or
 *          samples, height, width                 or
 *          samples, channels, height, width       bytes become 0..1, others stay
 *     y    samples                                integers are classes, floats are
 *                                                 numbers to predict
 *
 * Bytes and float32 stay where they are in the files; other types are converted. */
#include "data/data.h"
#include "data/npy.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASSES_MAX = 1 << 16, NAME_CAP = GWT_PATH_CAP + 32 };

/* Where things are kept in gwt_data. */
enum { OWN_ARCHIVE, OWN_TRAIN, OWN_TEST, OWN_OF_PART = 3 };

/* One half of the data: to train with or to test with. */
typedef struct half {
    char x_name[NAME_CAP], y_name[NAME_CAP]; /* for messages */
    gwt_npy x, y;
    gwt_bytes y_bytes;
} half;

/* Where the arrays are: an archive, or a directory if archive is NULL. */
typedef struct place {
    const char *path;
    const gwt_bytes *archive;
} place;

/* ---- arrays ------------------------------------------------------------------------
 */

static gw_status get_array(const place *from, const char *name, gwt_npy *out,
                           gwt_bytes *kept, char shown[NAME_CAP])
{
    const gwt_bytes *a = from->archive;

    if (a == NULL) {
        snprintf(shown, NAME_CAP, "%s/%s", from->path, name);
        GWT_TRY(gwt_bytes_load(kept, shown));
    } else {
        snprintf(shown, NAME_CAP, "%s(%s)", from->path, name);
        GWT_TRY(gwt_zip_find(kept, a->at, a->len, name, from->path));
    }
    return gwt_npy_parse(out, kept->at, kept->len, shown);
}

static gw_status get_half(const place *from, const char *part, half *out,
                          gwt_bytes *x_bytes)
{
    char name[32];

    snprintf(name, sizeof name, "x_%s.npy", part);
    GWT_TRY(get_array(from, name, &out->x, x_bytes, out->x_name));
    snprintf(name, sizeof name, "y_%s.npy", part);
    return get_array(from, name, &out->y, &out->y_bytes, out->y_name);
}

/* A numpy picture with its channels last looks like this. */
static int channels_are_last(const gwt_npy *x)
{
    return x->dims == 4 && x->dim[3] <= 4 && x->dim[1] > 4;
}

static gw_status shape_of(const half *h, gwt_shape *out)
{
    const size_t *d = h->x.dim;

    if (h->x.dims < 2)
        return gw_fail(GW_ERR_DATA,
                       "%s has one dimension; expected (samples, features), (samples, "
                       "height, width) or (samples, channels, height, width)",
                       h->x_name);
    if (channels_are_last(&h->x))
        return gw_fail(GW_ERR_DATA,
                       "%s has its channels last; save "
                       "numpy.ascontiguousarray(x.transpose(0, 3, 1, 2))",
                       h->x_name);
    *out = h->x.dims == 2   ? (gwt_shape){1, 1, d[1]}
           : h->x.dims == 3 ? (gwt_shape){1, d[1], d[2]}
                            : (gwt_shape){d[1], d[2], d[3]};
    return GW_OK;
}

static gw_status check_half(const half *h)
{
    if (h->y.count != h->x.dim[0] || h->y.dim[0] != h->x.dim[0])
        return gw_fail(GW_ERR_DATA, "%s has %zu samples, but %s has %zu labels",
                       h->x_name, h->x.dim[0], h->y_name, h->y.count);
    if (h->x.dim[0] > UINT32_MAX)
        return gw_fail(GW_ERR_DATA, "%s has too many samples", h->x_name);
    return GW_OK;
}

static gw_status check_alike(const half *train, const half *test, gwt_shape *shape)
{
    gwt_shape other;

    GWT_TRY(shape_of(train, shape));
    GWT_TRY(shape_of(test, &other));
    if (memcmp(shape, &other, sizeof other) != 0)
        return gw_fail(GW_ERR_DATA,
                       "samples of %s are %zux%zux%zu, but those of %s are %zux%zux%zu",
                       test->x_name, other.channels, other.height, other.width,
                       train->x_name, shape->channels, shape->height, shape->width);
    if ((train->y.kind == 'f') != (test->y.kind == 'f'))
        return gw_fail(GW_ERR_DATA, "%s and %s must both be integers or both be floats",
                       train->y_name, test->y_name);
    GWT_TRY(check_half(train));
    return check_half(test);
}

/* ---- values ------------------------------------------------------------------------
 */

static gw_status not_finite(const char *name, size_t i)
{
    return gw_fail(GW_ERR_DATA, "%s: element %zu is not a finite number, or too large",
                   name, i);
}

/* The samples as floats: in place if that is what they are. */
static gw_status float_samples(const half *h, gwt_bytes *kept, const uint8_t **out)
{
    const gwt_npy *x = &h->x;
    int in_place = x->kind == 'f' && x->bytes == 4;
    double unit = x->kind == 'u' && x->bytes == 1 ? 1.0 / 255.0 : 1.0;
    float *to = NULL;

    if (!in_place) {
        to = gwt_calloc(x->count, sizeof *to, "an array");
        kept->owned = to;
        if (to == NULL)
            return GW_ERR_NOMEM;
    }
    for (size_t i = 0; i < x->count; i++) {
        double value = gwt_npy_number(x, i) * unit;
        if (!(fabs(value) <= FLT_MAX))
            return not_finite(h->x_name, i);
        if (to != NULL)
            to[i] = (float)value;
    }
    *out = in_place ? x->at : (const uint8_t *)to;
    return GW_OK;
}

/* The largest class of integers must be less than that. */
static gw_status count_classes(const half *h, size_t *classes)
{
    *classes = 0;
    for (size_t i = 0; i < h->y.count && h->y.kind != 'f'; i++) {
        double class = gwt_npy_number(&h->y, i);
        if (class < 0 || class >= CLASSES_MAX)
            return gw_fail(GW_ERR_DATA,
                           "%s: element %zu is %.0f, which is not the number of a "
                           "class, 0 to %d; to predict numbers, save them as float32",
                           h->y_name, i, class, CLASSES_MAX - 1);
        if ((size_t) class >= *classes)
            *classes = (size_t) class + 1;
    }
    return GW_OK;
}

/* Labels of `bytes` bytes: 1 where samples are bytes, otherwise 4. */
static gw_status make_labels(const half *h, gwt_bytes *kept, size_t bytes)
{
    uint8_t *to = gwt_calloc(h->y.count, bytes, "labels");

    kept->owned = to;
    kept->at = to;
    if (to == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < h->y.count; i++) {
        double value = gwt_npy_number(&h->y, i);
        float number = (float)value;
        uint32_t class = h->y.kind != 'f' ? (uint32_t)value : 0;
        if (h->y.kind == 'f' && !(fabs(value) <= FLT_MAX))
            return not_finite(h->y_name, i);
        if (bytes == 1)
            to[i] = (uint8_t) class;
        else
            memcpy(to + 4 * i, h->y.kind == 'f' ? (void *)&number : (void *)&class, 4);
    }
    return GW_OK;
}

/* kept has room for the samples and the labels. */
static gw_status add_half(gwt_data *out, gwt_split *split, const half *h,
                          gwt_bytes kept[2])
{
    size_t element = out->floats ? sizeof(float) : 1;
    const uint8_t *samples = h->x.at;

    if (out->floats)
        GWT_TRY(float_samples(h, &kept[0], &samples));
    GWT_TRY(make_labels(h, &kept[1], out->floats ? 4 : 1));
    gwt_split_add(split,
                  (gwt_block){.count = h->x.dim[0],
                              .samples = samples,
                              .labels = kept[1].at,
                              .sample_step = gwt_shape_floats(out->shape) * element,
                              .label_step = out->floats ? 4 : 1});
    return GW_OK;
}

static int are_bytes(const half *h)
{
    return h->x.kind == 'u' && h->x.bytes == 1 && h->y.kind != 'f';
}

/* ---- loading -----------------------------------------------------------------------
 */

static gw_status load_halves(gwt_data *out, const place *from, half *train, half *test)
{
    size_t classes;

    GWT_TRY(get_half(from, "train", train, &out->owned[OWN_TRAIN]));
    GWT_TRY(get_half(from, "test", test, &out->owned[OWN_TEST]));
    GWT_TRY(check_alike(train, test, &out->shape));
    GWT_TRY(count_classes(train, &out->classes));
    GWT_TRY(count_classes(test, &classes));
    if (classes > out->classes)
        return gw_fail(GW_ERR_DATA,
                       "%s has class %zu, but the largest one of %s is %zu",
                       test->y_name, classes - 1, train->y_name, out->classes - 1);
    out->floats = !are_bytes(train) || !are_bytes(test) || out->classes > 256;
    GWT_TRY(add_half(out, &out->train, train, out->owned + OWN_OF_PART));
    return add_half(out, &out->test, test, out->owned + OWN_OF_PART + 2);
}

static gw_status load(gwt_data *out, const place *from)
{
    half *both = gwt_calloc(2, sizeof *both, "a data set");
    gw_status st =
        both != NULL ? load_halves(out, from, &both[0], &both[1]) : GW_ERR_NOMEM;

    for (int i = 0; both != NULL && i < 2; i++)
        gwt_bytes_free(&both[i].y_bytes);
    gwt_free(both);
    return st;
}

gw_status gwt_npy_load(gwt_data *out, const char *rest, const char *data_dir)
{
    (void)data_dir;
    if (rest == NULL || rest[0] == '\0' || strlen(rest) >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set npy needs a directory: npy:DIR");
    return load(out, &(place){.path = rest});
}

gw_status gwt_npz_load(gwt_data *out, const char *rest, const char *data_dir)
{
    gwt_bytes *archive = &out->owned[OWN_ARCHIVE];

    (void)data_dir;
    if (rest == NULL || rest[0] == '\0' || strlen(rest) >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set npz needs a file: npz:FILE");
    GWT_TRY(gwt_bytes_load(archive, rest));
    return load(out, &(place){.path = rest, .archive = archive});
}
