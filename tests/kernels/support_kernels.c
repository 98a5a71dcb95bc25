/* SPDX-License-Identifier: Apache-2.0
 *
 * support_kernels.c - one loop over instruction sets and places in memory. */
#include "support_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu.h"
#include "kernels/pool.h"
#include "support_emulated.h"

gwi_kernels kernels_tested[4];
size_t kernels_tested_count;
guard kernels_floats, kernels_bytes;

static size_t native_count;

static void add_tested(unsigned flags)
{
    gwi_kernels_for(flags, &kernels_tested[kernels_tested_count++]);
}

static void add_emulated(void)
{
#if __has_include(<simde/x86/avx512.h>)
    gwi_kernels *k = &kernels_tested[kernels_tested_count];

    add_tested(0);
    emulated_vector(&k->vector);
    emulated_select(&k->select);
    emulated_levels(&k->levels);
    emulated_means(&k->means);
    emulated_bf16(&k->bf16);
#else
    print_message("no SIMDe: AVX-512 kernels not tested\n");
#endif
}

int kernels_setup(size_t floats, size_t bytes)
{
    const unsigned flags = gwi_cpu_flags_without(NULL);
    const unsigned less = flags & ~(unsigned)GWI_CPU_AVX512;

    values_seed();
    kernels_tested_count = 0;
    add_tested(0);
    if (less != 0)
        add_tested(less);
    if (flags != less)
        add_tested(flags);
    native_count = kernels_tested_count;
    add_emulated();
    guard_init(&kernels_floats, floats * sizeof(float));
    guard_init(&kernels_bytes, bytes);
    return 0;
}

int kernels_teardown(void **unused)
{
    (void)unused;
    guard_fini(&kernels_floats);
    guard_fini(&kernels_bytes);
    gwi_kernels_use(NULL);
    gwi_threads_set(0);
    return 0;
}

static const size_t longer[] = {96,   100,  127,  128,  129,  512,
                                1000, 1001, 1023, 4096, 4097, 4983};

enum { SHORT = 68, LENGTHS = SHORT + sizeof longer / sizeof *longer };

void kernels_everywhere(kernels_check *check, size_t most, size_t emulated_step)
{
    for (size_t t = 0; t < kernels_tested_count; t++)
        for (size_t at = 0; at < 16; at += t < native_count ? 1 : emulated_step)
            for (size_t i = 0; i < LENGTHS; i++) {
                size_t n = i < SHORT ? i : longer[i - SHORT];
                values_kind kind = (values_kind)((i + at) % VALUES_KINDS);
                if (n > most)
                    break;
                check(&kernels_tested[t], &(kernels_place){n, GUARD_END, at, kind});
                check(&kernels_tested[t],
                      &(kernels_place){n, GUARD_START, at, VALUES_HOSTILE});
            }
}

void kernels_same_floats(const char *isa, const char *what, const float *got,
                         const float *want, size_t n)
{
    size_t at = values_differ(got, want, n);

    if (at != n)
        fail_msg("%s %s, n=%zu: differs at %zu", isa, what, n, at);
    assert_true(guard_intact(&kernels_floats));
}

void kernels_same_double(double got, double want)
{
    assert_true(memcmp(&got, &want, sizeof got) == 0 || (isnan(got) && isnan(want)));
}
