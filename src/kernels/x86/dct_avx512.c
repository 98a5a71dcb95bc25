/* SPDX-License-Identifier: Apache-2.0
 *
 * dct_avx512.c - the cosine transform for AVX-512. */
#include "kernels/matrix/dct.h"

#if defined(__x86_64__)

#define GWI_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define GWI_VECTOR 64

#include "kernels/matrix/dct_loops.h"

void gwi_dct_avx512(gwi_dct_kernels *k)
{
    k->isa = "avx512";
    k->forward = forward_tile;
    k->back = back_tile;
}

#endif
