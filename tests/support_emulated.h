/* SPDX-License-Identifier: Apache-2.0
 *
 * support_emulated.h - the AVX-512 kernels on a CPU without AVX-512. */
#ifndef GW_SUPPORT_EMULATED_H
#define GW_SUPPORT_EMULATED_H

#include "kernels/select.h"
#include "kernels/vector.h"

/* Overwrites the entries of *k with AVX-512 kernels that run on any CPU. Returns 0
 * and leaves *k alone if the tests were built without SIMDe. */
int emulated_vector(gwi_vector_kernels *k);
int emulated_select(gwi_select_kernels *k);

#endif
