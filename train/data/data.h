/* SPDX-License-Identifier: Apache-2.0
 *
 * data.h - data sets by name. Loaded once, before the workers start, and shared
 * by them; samples stay as they are in the files, which are mapped where that is
 * possible, and become floats batch by batch. */
#ifndef GWT_DATA_H
#define GWT_DATA_H

#include "data/bytes.h"
#include "shape.h"

/* Consecutive samples in a file. Each sample and each label is a fixed number of bytes
 * after the previous one. */
typedef struct gwt_block {
    size_t count;
    const uint8_t *samples, *labels;
    size_t sample_step, label_step;
} gwt_block;

enum { GWT_BLOCKS_MAX = 5, GWT_OWNED_MAX = 12 };

typedef struct gwt_split {
    size_t count, blocks;
    gwt_block block[GWT_BLOCKS_MAX];

    uint32_t *token; /* in place of blocks, for text: the whole of it */
    size_t tokens;
} gwt_split;

/* Mean and standard deviation of a channel's values, of which 1 is the largest. */
typedef struct gwt_channel {
    float mean, deviation;
} gwt_channel;

/* How images are augmented; see augment.h. */
enum { GWT_AUGMENT_NONE = 0, GWT_AUGMENT_CROP = 1, GWT_AUGMENT_FLIP = 2 };

typedef struct gwt_data {
    gwt_shape shape; /* of one sample */
    size_t classes;  /* 0: targets are numbers, not classes */
    int floats;      /* samples are floats, labels 4 bytes; otherwise all are bytes */
    int augment;     /* the usual augmentation of these images */
    const gwt_channel *normal; /* of each channel, or NULL: leave bytes in 0..1 */
    gwt_split train, test;
    gwt_split valid; /* evaluated while training; empty: test is */
    int text;        /* whether samples are rows of tokens; see data_text.c */
    char note[256];  /* what the user should know about it, one line; "" if nothing */
    gwt_bytes owned[GWT_OWNED_MAX]; /* what the blocks point into */
} gwt_data;

/* One data set as it is listed. */
typedef struct gwt_data_source {
    const char *name;    /* as typed; a ':' and more may follow where usage says so */
    const char *usage;   /* "idx:DIR" */
    const char *summary; /* one line */
    const char *get;     /* how to get it, one sentence; NULL if it is made up or
                            always named by its directory */

    /* Writes its directory to path (GWT_PATH_CAP bytes). On failure the message says
     * where it was searched for and how to get it. NULL: it needs no files. */
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

/* Adds a block to a split. */
void gwt_split_add(gwt_split *split, gwt_block block);

/* The i-th sample of a split as it lies in its file, and its label. */
const uint8_t *gwt_split_sample(const gwt_split *split, size_t i,
                                const uint8_t **label);

/* Loads the four files of an IDX data set from a directory. The largest training label
 * must be classes - 1; if classes is 0, it determines the number of classes. */
gw_status gwt_idx_load(gwt_data *out, const char *directory, size_t classes);

/* Loads CIFAR-10's six binary files from a directory; see data_cifar.c. */
gw_status gwt_cifar_load(gwt_data *out, const char *directory);

/* Checks the len bytes of one of them; path is for the message. GW_ERR_DATA. */
gw_status gwt_cifar_check(const uint8_t *at, size_t len, const char *path);

/* These make up a data set; see data_convex.c and data_synthetic.c. */
gw_status gwt_logistic_load(gwt_data *out, const char *rest, const char *data_dir);
gw_status gwt_squares_load(gwt_data *out, const char *rest, const char *data_dir);
gw_status gwt_synthetic_load(gwt_data *out, const char *rest, const char *data_dir);

/* Writes the path in "PATH,by=..." to path (GWT_PATH_CAP bytes). GW_ERR_ARG. */
gw_status gwt_text_path(const char *rest, char *path);

/* Loads plain text; its samples have no length before gwt_text_cut(), which makes
 * rows of `sequence` tokens of it. GW_ERR_DATA if a text is shorter than that. */
gw_status gwt_text_load(gwt_data *out, const char *rest, const char *data_dir);
gw_status gwt_text_cut(gwt_data *data, size_t sequence);

/* Load tables of numbers, and arrays of numpy; see data_csv.c and data_npy.c. */
gw_status gwt_csv_path(const char *rest, char *path);
gw_status gwt_csv_load(gwt_data *out, const char *rest, const char *data_dir);
gw_status gwt_npy_load(gwt_data *out, const char *rest, const char *data_dir);
gw_status gwt_npz_load(gwt_data *out, const char *rest, const char *data_dir);

/* gwt_data_batch() for text. */
void gwt_text_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y);

/* Writes count samples of the split to x, one row each, as floats: bytes in 0..1, or
 * normalised by channel where the data set says so. Their labels go to y; where
 * they are numbers, y holds the bits of floats. pick says which samples; NULL means
 * from `first` on. Of text x holds the tokens, and y a label for each of them. */
void gwt_data_batch(const gwt_data *data, const gwt_split *split, const uint32_t *pick,
                    size_t first, size_t count, float *x, uint32_t *y);

#endif
