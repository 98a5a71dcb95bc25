/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.h - what this CPU can do, less what GW_CPU_OFF takes away. */
#ifndef GWI_CPU_H
#define GWI_CPU_H

enum {
    GWI_CPU_AVX2 = 1u << 0,
    GWI_CPU_AVX512 = 1u << 1, /* F, BW, DQ, VL */
    GWI_CPU_NEON = 1u << 2,
    GWI_CPU_CRC = 1u << 3 /* SSE 4.2 and PCLMUL: the check of messages */
};

/* The features in use; the environment is read once. */
unsigned gwi_cpu_flags(void);

/* The features of the hardware less those that `off` lists ("avx512,avx2"; NULL
 * for none). Words that name no feature are ignored. Removing a feature removes
 * those built on it: without AVX2 there is no AVX-512, and nothing that is newer
 * than SSE2. Pure, for tests. */
unsigned gwi_cpu_flags_without(const char *off);

/* "avx512", "avx2", "neon" or "c": the best of flags. */
const char *gwi_cpu_name(unsigned flags);

#endif
