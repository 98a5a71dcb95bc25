/* SPDX-License-Identifier: Apache-2.0
 *
 * support_training.h - a training of a second at most, in the folder of the test, and
 * running one. Define _GNU_SOURCE before. */
#ifndef SUPPORT_TRAINING_H
#define SUPPORT_TRAINING_H

#include "support_folder.h"
#include "run/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* Tests change what they are about, and say how long. */
static inline gwt_config small_training(void)
{
    return (gwt_config){
        .model = "softmax",
        .data = "synthetic:train=700,test=90,dim=30,classes=4",
        .sync = "dense",
        .optimizer = "sgd",
        .schedule = "constant",
        .warmup = "0",
        .out = test_folder,
        .threads = 1,
        .timeout = 60,
        .batch = 8,
        .seed = 3,
        .log_every = 7,
        .eval_every = "1epochs",
        .lr = 0.1,
        .hyper.momentum = 0.9,
    };
}

/* Runs it, or fails the test. Its warnings are put into 2048 bytes, if not NULL. */
static inline gwt_summary run_with(const gwt_config *config, char *warnings)
{
    gwt_summary summary;
    gwt_job *job;

    if (gwt_job_new(&job, config) != GW_OK || gwt_job_run(job, NULL) != GW_OK)
        fail_msg("%s", gw_error_message());
    summary = *gwt_job_summary(job);
    if (warnings != NULL)
        snprintf(warnings, 2048, "%s", gwt_job_warnings(job));
    gwt_job_free(job);
    return summary;
}

static inline gwt_summary run(const gwt_config *config)
{
    return run_with(config, NULL);
}

#endif
