/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_end.c - models are averaged once, when training ends. */
#include "sync/parts.h"

const gwi_schedule gwi_schedule_end = {
    .part = {.name = "end"},
    .subject = GWI_MODEL,
};

const gwi_stage gwi_stage_oneshot = {
    .name = "oneshot",
    .summary = "one average of the models, at the end",
    .example = "oneshot",
    .cost = "dense, once, at the end",
    .expect =
        "made for convex problems; models that have drifted far apart average badly",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_end.part},
    .keys = "average",
};
