/* SPDX-License-Identifier: Apache-2.0
 *
 * ramp.h - the first steps of a training: dense steps, then a ladder of densities. */
#ifndef GWI_RAMP_H
#define GWI_RAMP_H

#include "sync/parts.h"

/* How many steps at the beginning are dense. */
uint64_t gwi_ramp_dense_steps(const gwi_spec *spec);

/* Whether a step, 1 in the first, is one of the dense ones at the beginning. */
bool gwi_ramp_is_dense(const gwi_spec *spec, uint64_t step);

/* How many steps there are before the density that was asked for is reached. */
uint64_t gwi_ramp_length(const gwi_spec *spec);

/* The density that a step after these asks for, and the largest of all. */
double gwi_ramp_density(const gwi_spec *spec, uint64_t step);
double gwi_ramp_most(const gwi_spec *spec);

#endif
