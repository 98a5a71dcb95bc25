/* SPDX-License-Identifier: Apache-2.0
 *
 * support_emulated_select.c - select_avx512.c once more, built with SIMDe. */
#define GWI_EMULATE_AVX512
#define gwi_select_avx512 emulated_select_avx512

#if __has_include(<simde/x86/avx512.h>)

#include "kernels/select_avx512.c"
#include "support_emulated.h"

int emulated_select(gwi_select_kernels *k)
{
    emulated_select_avx512(k);
    return 1;
}

#else

#include "support_emulated.h"

int emulated_select(gwi_select_kernels *k)
{
    (void)k;
    return 0;
}

#endif
