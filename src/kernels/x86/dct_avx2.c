/* SPDX-License-Identifier: Apache-2.0
 *
 * dct_avx2.c - the cosine transform for AVX2. */
#include "kernels/matrix/dct.h"

#if defined(__x86_64__)

#define GWI_TARGET __attribute__((target("avx2")))
#define GWI_VECTOR 32

#include "kernels/matrix/dct_loops.h"

void gwi_dct_avx2(gwi_dct_kernels *k)
{
    k->isa = "avx2";
    k->forward = forward_tile;
    k->back = back_tile;
}

#endif
