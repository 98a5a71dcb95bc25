/* SPDX-License-Identifier: Apache-2.0
 *
 * support_emulated.h - the AVX-512 kernels on a CPU without AVX-512. They are there
 * where the tests were built with SIMDe. */
#ifndef GW_SUPPORT_EMULATED_H
#define GW_SUPPORT_EMULATED_H

#include "kernels/kernels.h"

/* Each overwrites the entries that gwi_X_avx512() would, with loops for any CPU. */
void emulated_vector(gwi_vector_kernels *k);
void emulated_select(gwi_select_kernels *k);
void emulated_levels(gwi_levels_kernels *k);
void emulated_means(gwi_means_kernels *k);
void emulated_bf16(gwi_bf16_kernels *k);

#endif
