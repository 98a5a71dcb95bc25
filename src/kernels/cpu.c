/* SPDX-License-Identifier: Apache-2.0
 *
 * cpu.c - feature detection. */
#include "cpu.h"
#include "gradwire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static unsigned hardware_flags(void)
{
#if defined(__x86_64__)
    unsigned flags = 0;

    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2"))
        flags |= GWI_CPU_AVX2;
    if ((flags & GWI_CPU_AVX2) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        flags |= GWI_CPU_AVX512;
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        flags |= GWI_CPU_CRC;
    return flags;
#elif defined(__aarch64__)
    return GWI_CPU_NEON; /* part of the base architecture */
#else
    return 0;
#endif
}

static int lists(const char *words, const char *name)
{
    size_t len = strlen(name);

    for (const char *w = words; w != NULL && *w != '\0';) {
        size_t span = strcspn(w, ",");
        if (span == len && memcmp(w, name, len) == 0)
            return 1;
        w += span + (w[span] == ',');
    }
    return 0;
}

unsigned gwi_cpu_flags_without(const char *off)
{
    unsigned flags = hardware_flags();

    if (lists(off, "avx2"))
        flags &= ~(unsigned)(GWI_CPU_AVX2 | GWI_CPU_AVX512 | GWI_CPU_CRC);
    if (lists(off, "avx512"))
        flags &= ~(unsigned)GWI_CPU_AVX512;
    if (lists(off, "neon"))
        flags &= ~(unsigned)GWI_CPU_NEON;
    return flags;
}

unsigned gwi_cpu_flags(void)
{
    /* Racing threads compute the same value, so relaxed order is enough. The top
     * bit says "known", since no features at all is a legal answer. */
    static atomic_uint known;
    const unsigned marker = 1u << 31;
    unsigned flags = atomic_load_explicit(&known, memory_order_relaxed);

    if ((flags & marker) == 0) {
        flags = marker | gwi_cpu_flags_without(getenv("GW_CPU_OFF"));
        atomic_store_explicit(&known, flags, memory_order_relaxed);
    }
    return flags & ~marker;
}

const char *gwi_cpu_name(unsigned flags)
{
    if (flags & GWI_CPU_AVX512)
        return "avx512";
    if (flags & GWI_CPU_AVX2)
        return "avx2";
    if (flags & GWI_CPU_NEON)
        return "neon";
    return "c";
}

const char *gw_isa(void)
{
    return gwi_cpu_name(gwi_cpu_flags());
}
