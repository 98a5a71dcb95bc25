/* SPDX-License-Identifier: Apache-2.0
 *
 * lowrank_avx2.c - the products with thin matrices for AVX2. */
#include "kernels/matrix/lowrank.h"

#if defined(__x86_64__)

#define GWI_TARGET __attribute__((target("avx2")))

#include "kernels/matrix/lowrank_loops.h"

void gwi_lowrank_avx2(gwi_lowrank_kernels *k)
{
    k->isa = "avx2";
    k->project = project_loop;
    k->project_back = back_loop;
    k->expand = expand_loop;
}

#endif
