/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.c - the tables of this CPU, filled when the first of them is asked for. */
#include "kernels/kernels.h"

#include "kernels/cpu.h"

#include <pthread.h>

static gwi_kernels this_cpu;
static const gwi_kernels *used_instead;

void gwi_kernels_for(unsigned flags, gwi_kernels *all)
{
    gwi_vector_for(flags, &all->vector);
    gwi_select_for(flags, &all->select);
    gwi_levels_for(flags, &all->levels);
    gwi_means_for(flags, &all->means);
    gwi_bf16_for(flags, &all->bf16);
    gwi_crc_for(flags, &all->crc);
    gwi_lowrank_for(flags, &all->lowrank);
    gwi_dct_for(flags, &all->dct);
}

void gwi_kernels_use(const gwi_kernels *all)
{
    used_instead = all;
}

static void fill(void)
{
    gwi_kernels_for(gwi_cpu_flags(), &this_cpu);
}

static const gwi_kernels *in_use(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill);
    return used_instead != NULL ? used_instead : &this_cpu;
}

const gwi_vector_kernels *gwi_vector(void)
{
    return &in_use()->vector;
}

const gwi_select_kernels *gwi_select(void)
{
    return &in_use()->select;
}

const gwi_levels_kernels *gwi_levels(void)
{
    return &in_use()->levels;
}

const gwi_means_kernels *gwi_means(void)
{
    return &in_use()->means;
}

const gwi_bf16_kernels *gwi_bf16(void)
{
    return &in_use()->bf16;
}

const gwi_crc_kernels *gwi_crc(void)
{
    return &in_use()->crc;
}

const gwi_lowrank_kernels *gwi_lowrank(void)
{
    return &in_use()->lowrank;
}

const gwi_dct_kernels *gwi_dct(void)
{
    return &in_use()->dct;
}
