/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.h - saves and loads the weights of a model as safetensors.
 *
 * The statistics of batch normalisation belong to the weights. They are stored as one
 * more tensor, named GWT_STATS_NAME. */
#ifndef GWT_WEIGHTS_H
#define GWT_WEIGHTS_H

#include "models/model.h"

#define GWT_STATS_NAME "gradwire.stats"

/* Writes tensors, whose values are in params, and n statistics, if there are any.
 * windows are as gwt_model_windows() has them; NULL: there are no convolutions. */
gw_status gwt_weights_write(const char *path, const gw_tensor *tensors,
                            const size_t *windows, size_t count, const float *params,
                            const float *stats, size_t n);

/* Sets parameters and statistics of the model from a file that has exactly its tensors.
 * The dimensions of each must equal rows and columns after multiplying neighbours.
 * GW_ERR_DATA names the first tensor that does not fit. */
gw_status gwt_weights_read(const char *path, gwt_model *model);

/* Checks whether gwt_weights_read() would succeed, without setting anything. The model
 * may be an outline. */
gw_status gwt_weights_check(const char *path, gwt_model *model);

/* Exports the weights in a checkpoint, or in the newest good one of a run directory.
 * Where the workers' models differ, exports their average. */
gw_status gwt_weights_export(const char *checkpoint, const char *path);

/* The same for a checkpoint that has been opened, into memory; for tests. Released
 * with gwt_weights_free(). */
typedef struct gwt_weights {
    gw_tensor *tensors;
    size_t *windows; /* all 0 if the file does not say */
    size_t count, stats_floats;
    char *names;
    float *params, *stats;
} gwt_weights;

struct gwt_sections;
struct gwt_checkpoint_job;
gw_status gwt_weights_of(gwt_weights *out, const struct gwt_sections *in,
                         const struct gwt_checkpoint_job *job);
void gwt_weights_free(gwt_weights *weights);

#endif
