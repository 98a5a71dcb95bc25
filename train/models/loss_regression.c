/* SPDX-License-Identifier: Apache-2.0
 *
 * loss_regression.c - the losses of models with one output z per sample.
 *
 *     logistic   y is 0 or 1:  loss = log(1 + exp(z)) - y z,   dz = sigmoid(z) - y
 *     squares    y a number:   loss = (z - y)^2 / 2,           dz = z - y
 */
#include "models/loss.h"

#include <math.h>
#include <string.h>

size_t gwt_loss_outputs(gwt_loss loss, size_t classes)
{
    return loss == GWT_LOSS_SOFTMAX ? classes : 1;
}

gw_status gwt_loss_check(gwt_loss loss, const char *model, size_t classes)
{
    if (loss == GWT_LOSS_SQUARES && classes != 0)
        return gw_fail(GW_ERR_ARG,
                       "model %s predicts numbers, but this data set has %zu classes; "
                       "use --data least-squares",
                       model, classes);
    if (loss == GWT_LOSS_LOGISTIC && classes != 2)
        return gw_fail(GW_ERR_ARG,
                       "model %s separates two classes, but this data set has %zu; use "
                       "--model softmax",
                       model, classes);
    if (loss == GWT_LOSS_SOFTMAX && classes == 0)
        return gw_fail(GW_ERR_ARG,
                       "model %s predicts classes, but this data set has numbers; use "
                       "--model least-squares",
                       model);
    return GW_OK;
}

gwt_score gwt_logistic_loss(const float *z, const uint32_t *labels, size_t batch,
                            float *delta)
{
    gwt_score score = {.count = batch};
    float scale = 1.0f / (float)batch;

    for (size_t i = 0; i < batch; i++) {
        double x = (double)z[i], y = (double)labels[i];
        score.loss += fmax(x, 0.0) + log1p(exp(-fabs(x))) - y * x;
        score.correct += (x > 0.0) == (labels[i] == 1) && isfinite(x);
        if (delta != NULL)
            delta[i] = scale * (float)(1.0 / (1.0 + exp(-x)) - y);
    }
    return score;
}

gwt_score gwt_squares_loss(const float *z, const uint32_t *targets, size_t batch,
                           float *delta)
{
    gwt_score score = {.count = batch};
    float scale = 1.0f / (float)batch, y;

    for (size_t i = 0; i < batch; i++) {
        memcpy(&y, &targets[i], sizeof y);
        double error = (double)z[i] - (double)y;
        score.loss += 0.5 * error * error;
        if (delta != NULL)
            delta[i] = scale * (float)error;
    }
    return score;
}
