/* SPDX-License-Identifier: Apache-2.0
 *
 * support_emulated_levels.c - levels_avx512.c once more, built with SIMDe. */
#define GWI_EMULATE_AVX512
#define gwi_levels_avx512 emulated_levels

#include "support_emulated.h"

#if __has_include(<simde/x86/avx512.h>)
#include "kernels/x86/levels_avx512.c"
#endif
