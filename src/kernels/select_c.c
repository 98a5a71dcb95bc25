/* SPDX-License-Identifier: Apache-2.0
 *
 * select_c.c - the collecting loop in portable C, which defines it, and the
 * choice between it and the others. */
#include "kernels/select.h"

#include "kernels/cpu.h"
#include "kernels/float_bits.h"

/* Few entries are above in practice, so the floats are looked at in runs: a loop
 * without branches adds and finds the largest, and most runs end there. */
enum { RUN = 16 };

static size_t collect_c(float *r, const float *g, size_t begin, size_t end,
                        int32_t above, gwi_list *out)
{
    size_t i = begin, n = out->n;

    while (i < end && n + GWI_COLLECT_ROOM <= out->cap) {
        size_t stop = end - i < RUN ? end : i + RUN;
        int32_t most = -1;
        for (size_t j = i; j < stop; j++) {
            r[j] = g ? r[j] + g[j] : r[j];
            int32_t bits = gwi_magnitude_bits(r[j]);
            most = bits > most ? bits : most;
        }
        for (; most > above && i < stop; i++) {
            if (gwi_magnitude_bits(r[i]) <= above)
                continue;
            out->index[n] = (uint32_t)i;
            out->value[n++] = r[i];
            r[i] = 0.0f;
        }
        i = stop;
    }
    out->n = n;
    return i;
}

void gwi_select_for(unsigned flags, gwi_select_kernels *k)
{
    k->isa = "c";
    k->collect = collect_c;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_select_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_select_avx512(k);
#elif defined(__aarch64__)
    if (flags & GWI_CPU_NEON)
        gwi_select_neon(k);
#endif
    (void)flags;
}
