/* SPDX-License-Identifier: Apache-2.0
 *
 * lowrank_avx512.c - the products with thin matrices for AVX-512. */
#include "kernels/matrix/lowrank.h"

#if defined(__x86_64__)

#define GWI_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

#include "kernels/matrix/lowrank_loops.h"

void gwi_lowrank_avx512(gwi_lowrank_kernels *k)
{
    k->isa = "avx512";
    k->project = project_loop;
    k->project_back = back_loop;
    k->expand = expand_loop;
}

#endif
