/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.h - the weights of a model, out of it and into it, as safetensors.
 *
 * Statistics (batch normalization) belong to the weights; they are one tensor more,
 * called GWT_STATS_NAME. */
#ifndef GWT_WEIGHTS_H
#define GWT_WEIGHTS_H

#include "models/model.h"

#define GWT_STATS_NAME "gradwire.stats"

/* Writes tensors, whose values are in params, and n statistics, if there are any. */
gw_status gwt_weights_write(const char *path, const gw_tensor *tensors, size_t count,
                            const float *params, const float *stats, size_t n);

/* Sets parameters and statistics of the model from a file that has just its tensors,
 * by name and shape: the dimensions of each, in their order, must be rows and columns
 * once some are multiplied together. GW_ERR_DATA names the first that does not fit. */
gw_status gwt_weights_read(const char *path, gwt_model *model);

/* Whether gwt_weights_read() would: nothing is set, and the model may be an outline. */
gw_status gwt_weights_check(const char *path, gwt_model *model);

/* Takes the weights out of a checkpoint, or out of the newest good one in a run
 * directory: the average where workers' models differ. */
gw_status gwt_weights_export(const char *checkpoint, const char *path);

/* The same for a checkpoint that has been opened, into memory; for tests. Released
 * with gwt_weights_free(). */
typedef struct gwt_weights {
    gw_tensor *tensors;
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
