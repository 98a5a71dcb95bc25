/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_steps.c - every step exchanges gradients: what is done where nothing else is
 * asked for. */
#include "sync/parts.h"

const gwi_schedule gwi_schedule_steps = {
    .part = {.name = "steps"},
    .subject = GWI_GRADIENT,
    .talks = true,
};
