/* SPDX-License-Identifier: Apache-2.0
 *
 * support_model.h - a small model with three tensors, and gradients for it that any
 * sync can be tried on. */
#ifndef SUPPORT_MODEL_H
#define SUPPORT_MODEL_H

#include <stdint.h>

#include "gradwire.h"

enum {
    MODEL_ROWS = 40,
    MODEL_COLS = 30,
    MODEL_BIAS = 30,
    MODEL_LAST = 1200,
    MODEL_FLOATS = MODEL_ROWS * MODEL_COLS + MODEL_BIAS + MODEL_LAST
};

/* A sync for the model, seeded. */
gw_status model_sync(gw_sync **sync, gw_comm *comm, const char *spec,
                     gw_nonfinite nonfinite);

/* A gradient with a heavy tail that depends on model, worker and step. */
void model_gradient(float *g, const float *x, int rank, int step);

/* Tells vectors of different bits apart. */
uint64_t model_digest(const float *x);

#endif
