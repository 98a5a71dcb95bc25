/* SPDX-License-Identifier: Apache-2.0
 *
 * data.h - data sets by name. Loaded once, before the workers start, and shared
 * by them; samples stay bytes and become floats batch by batch. */
#ifndef GWT_DATA_H
#define GWT_DATA_H

#include "layer.h"

enum { GWT_PATH_CAP = 4096 };

/* count samples, each floats(shape) bytes, and their labels. */
typedef struct gwt_split {
    size_t count;
    uint8_t *pixels, *labels;
} gwt_split;

typedef struct gwt_data {
    gwt_shape shape; /* of one sample */
    size_t classes;
    gwt_split train, test;
} gwt_data;

/* One data set as it is listed. */
typedef struct gwt_data_source {
    const char *name;    /* as typed; a ':' and more may follow where usage says so */
    const char *usage;   /* "idx:DIR" */
    const char *summary; /* one line */
    const char *get;     /* how to get it, one sentence; NULL if it is made up */

    /* Writes the directory that holds it to path (GWT_PATH_CAP bytes), or fails
     * saying where it was looked for and how to get it. NULL: needs no files. */
    gw_status (*locate)(const char *rest, const char *data_dir, char *path);

    /* Loads it. rest is what follows ':' in the name, or NULL. */
    gw_status (*load)(gwt_data *out, const char *rest, const char *data_dir);
} gwt_data_source;

/* The i-th data set, NULL past the end; the one that name begins with, with rest
 * set to what follows ':' (GW_ERR_ARG). */
const gwt_data_source *gwt_data_source_at(size_t i);
gw_status gwt_data_find(const char *name, const gwt_data_source **out,
                        const char **rest);

/* Loads the data set of that name into out; data_dir, which may be NULL, is
 * searched first. Released with gwt_data_free(). */
gw_status gwt_data_load(gwt_data *out, const char *name, const char *data_dir);
void gwt_data_free(gwt_data *data);

/* Loads the four files of an IDX data set from a directory. The labels to train
 * with must end at classes - 1; if classes is 0 they say how many there are. */
gw_status gwt_idx_load(gwt_data *out, const char *directory, size_t classes);

/* Makes up a data set; see synthetic.c. */
gw_status gwt_synthetic_load(gwt_data *out, const char *rest, const char *data_dir);

/* Writes count samples of the split to x, one row each, as floats in 0..1, and
 * their labels to y. pick says which; NULL means from `first` on. */
void gwt_data_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y);

#endif
