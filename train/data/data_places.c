/* SPDX-License-Identifier: Apache-2.0
 *
 * data_places.c - finds the files of data sets. */
#define _GNU_SOURCE
#include "data/data_places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const gwt_place gwt_place_fashion = {
    .name = "fashion-mnist",
    .mark = "train-images-idx3-ubyte",
    .system = "/usr/share/datasets/fashion-mnist",
};

const gwt_place gwt_place_mnist = {
    .name = "mnist",
    .mark = "train-images-idx3-ubyte",
};

const gwt_place gwt_place_cifar10 = {
    .name = "cifar10",
    .mark = "data_batch_1.bin",
    .also = "cifar-10-batches-bin",
};

const gwt_place gwt_place_ptb = {
    .name = "ptb",
    .mark = "ptb.train.txt",
};

const gwt_place gwt_place_multi30k = {
    .name = "multi30k",
    .mark = "train.en",
};

/* Whether the directory holds the mark, gzipped or not. */
static int has_mark(const gwt_place *place, const char *directory)
{
    char path[GWT_PATH_CAP + 64];

    snprintf(path, sizeof path, "%s/%s", directory, place->mark);
    if (access(path, F_OK) == 0)
        return 1;
    snprintf(path, sizeof path, "%s/%s.gz", directory, place->mark);
    return access(path, F_OK) == 0;
}

/* As the rules of XDG have it. */
static void user_directory(char path[GWT_PATH_CAP])
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    path[0] = '\0';
    if (xdg != NULL && xdg[0] == '/')
        snprintf(path, GWT_PATH_CAP, "%s/gradwire", xdg);
    else if (home != NULL && home[0] == '/')
        snprintf(path, GWT_PATH_CAP, "%s/.local/share/gradwire", home);
}

void gwt_data_base(char base[GWT_PATH_CAP])
{
    const char *chosen = getenv("GRADWIRE_DATA");

    if (chosen != NULL && chosen[0] != '\0')
        snprintf(base, GWT_PATH_CAP, "%s", chosen);
    else
        user_directory(base);
}

/* Looks for base/name, base/also, then for base itself. */
static int try_base(const gwt_place *place, const char *base, char path[GWT_PATH_CAP])
{
    if (base == NULL || base[0] == '\0')
        return 0;
    snprintf(path, GWT_PATH_CAP, "%s/%s", base, place->name);
    if (has_mark(place, path))
        return 1;
    if (place->also != NULL) {
        snprintf(path, GWT_PATH_CAP, "%s/%s", base, place->also);
        if (has_mark(place, path))
            return 1;
    }
    snprintf(path, GWT_PATH_CAP, "%s", base);
    return has_mark(place, path);
}

static gw_status search_in(const gwt_place *place, const char *data_dir,
                           const char *get, char path[GWT_PATH_CAP])
{
    if (try_base(place, data_dir, path))
        return GW_OK;
    /* The data set may be in a directory that we may not read. */
    if (access(data_dir, R_OK | X_OK) != 0 && errno == EACCES)
        return gw_fail(GW_ERR_SYSTEM, "data set %s: cannot read %s: permission denied",
                       place->name, data_dir);
    return gw_fail(GW_ERR_SYSTEM, "data set %s: found no %s[.gz] in %s or %s/%s; %s",
                   place->name, place->mark, data_dir, data_dir, place->name, get);
}

gw_status gwt_data_search(const gwt_place *place, const char *data_dir, const char *get,
                          char path[GWT_PATH_CAP])
{
    char user[GWT_PATH_CAP];

    if (data_dir != NULL)
        return search_in(place, data_dir, get, path);
    user_directory(user);
    if (try_base(place, getenv("GRADWIRE_DATA"), path) || try_base(place, user, path) ||
        try_base(place, place->system, path))
        return GW_OK;
    return gw_fail(GW_ERR_SYSTEM,
                   "data set %s not found (looked in $GRADWIRE_DATA/%s and "
                   "~/.local/share/gradwire/%s); %s",
                   place->name, place->name, place->name, get);
}
