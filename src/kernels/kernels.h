/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h - the kernels of all families, and the convention that they follow.
 *
 * A family X (vector, select, levels, means, bf16, crc, lowrank, dct) has
 *
 *     gwi_X_kernels           a table of loops, each on one thread
 *     gwi_X_for(flags, &k)    fills a table with the best loops that these flags of
 *                             cpu.h allow; pure, so that tests can ask for any set
 *     gwi_X_avx2(&k) ...      overwrite the entries that an instruction set does
 *                             better, for gwi_X_for(); one file each
 *     gwi_X()                 the table of this CPU: gwi_vector()->add(y, x, n)
 *
 * and functions over whole vectors, such as gwi_add(y, x, n). Those take no table:
 * they use the one of this CPU, on as many threads as are worth it. C comes first and
 * defines what the other instruction sets must do, bit by bit. */
#ifndef GWI_KERNELS_H
#define GWI_KERNELS_H

#include "kernels/bf16.h"
#include "kernels/crc32c.h"
#include "kernels/levels.h"
#include "kernels/matrix/dct.h"
#include "kernels/matrix/lowrank.h"
#include "kernels/means.h"
#include "kernels/select.h"
#include "kernels/vector.h"

typedef struct gwi_kernels {
    gwi_vector_kernels vector;
    gwi_select_kernels select;
    gwi_levels_kernels levels;
    gwi_means_kernels means;
    gwi_bf16_kernels bf16;
    gwi_crc_kernels crc;
    gwi_lowrank_kernels lowrank;
    gwi_dct_kernels dct;
} gwi_kernels;

/* Fills the tables of all families. Pure. */
void gwi_kernels_for(unsigned flags, gwi_kernels *all);

/* For tests and benchmarks: everything uses *all from now on, which stays the
 * caller's; NULL goes back to this CPU's. It must not be called while another thread
 * uses a kernel. */
void gwi_kernels_use(const gwi_kernels *all);

#endif
