/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_never.c - nothing is ever sent: the control that every experiment needs. */
#include "sync/parts.h"

const gwi_schedule gwi_schedule_never = {
    .part = {.name = "never"},
    .subject = GWI_GRADIENT,
    .never = true,
};

const gwi_stage gwi_stage_none = {
    .name = "none",
    .summary = "never talk: the control every experiment needs",
    .example = "none",
    .cost = "nothing",
    .expect =
        "each worker trains alone; what others gain over it is what talking is worth",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_never.part},
};
