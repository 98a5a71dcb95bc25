/* SPDX-License-Identifier: Apache-2.0
 *
 * compute_dnnl.c - the heavy arithmetic on oneDNN; no other file includes its
 * header.
 *
 * Matrix products use dnnl_sgemm(), which is the same in versions 2 and 3. The
 * inner-product primitive is no faster for layers whose weights change in every
 * step: on AVX2 it is the same code behind a packing of its own choice (one layer
 * of 784 x 200, batch 64, one thread of a Zen 3: 0.21 ms forward and 0.07 to pack,
 * where dnnl_sgemm takes 0.23 from the weights as they lie). */
#define _GNU_SOURCE
#include "layers/compute.h"

#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <string.h>

/* A build of oneDNN with OpenMP takes the number of threads from the OpenMP runtime it
 * was linked with (GNU's or LLVM's). The function is looked up by name, because linking
 * a runtime here could load a second one into the process. Builds with other runtimes
 * lack the symbol and keep the default of the engine. The number belongs to the calling
 * thread, so workers that are threads do not affect each other. */
void gwt_compute_threads(int threads)
{
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    void (*set)(int);

    if (symbol == NULL)
        return;
    /* ISO C has no conversion from object to function pointers; POSIX does. */
    memcpy(&set, &symbol, sizeof set);
    set(threads);
}

const char *gwt_compute_name(void)
{
    static char name[64];
    const dnnl_version_t *v = dnnl_version();

    if (name[0] == '\0')
        snprintf(name, sizeof name, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return name;
}

/* c = a * b + keep * c. */
static gw_status product(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                         float keep, float *c, size_t ldc)
{
    dnnl_status_t st =
        dnnl_sgemm(a.turned ? 'T' : 'N', b.turned ? 'T' : 'N', (dnnl_dim_t)m,
                   (dnnl_dim_t)n, (dnnl_dim_t)k, 1.0f, a.at, (dnnl_dim_t)a.ld, b.at,
                   (dnnl_dim_t)b.ld, keep, c, (dnnl_dim_t)ldc);

    if (st == dnnl_success)
        return GW_OK;
    return gw_fail(GW_ERR_SYSTEM,
                   "oneDNN cannot multiply %zu x %zu by %zu x %zu (status %d)", m, k, k,
                   n, (int)st);
}

gw_status gwt_matmul(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                     float *c, size_t ldc)
{
    return product(m, n, k, a, b, 0.0f, c, ldc);
}

gw_status gwt_matmul_add(size_t m, size_t n, size_t k, gwt_operand a, gwt_operand b,
                         float *c, size_t ldc)
{
    return product(m, n, k, a, b, 1.0f, c, ldc);
}
