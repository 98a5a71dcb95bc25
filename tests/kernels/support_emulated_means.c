/* SPDX-License-Identifier: Apache-2.0
 *
 * support_emulated_means.c - means_avx512.c once more, built with SIMDe. */
#define GWI_EMULATE_AVX512
#define gwi_means_avx512 emulated_means

#include "support_emulated.h"

#if __has_include(<simde/x86/avx512.h>)
#include "kernels/x86/means_avx512.c"
#endif
