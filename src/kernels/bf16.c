/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16.c - the definition of the bf16 kernels, their choice, and the walk over
 * the blocks of a vector. */
#include "kernels/bf16.h"

#include "kernels/cpu.h"
#include "kernels/float_bits.h"
#include "kernels/pool.h"

/* What one call from the thread pool does. */
enum { BLOCK_FLOATS = 65536 };

/* ---- the definition -------------------------------------------------------- */

uint16_t gwi_bf16_of(float x)
{
    uint32_t bits = gwi_float_bits(x);

    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40);
    /* Just under half a step, and the rest of the half if the result would be odd. */
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float gwi_bf16_value(uint16_t b)
{
    return gwi_bits_float((uint32_t)b << 16);
}

static void put(uint8_t *bytes, size_t j, uint16_t b)
{
    bytes[2 * j] = (uint8_t)b;
    bytes[2 * j + 1] = (uint8_t)(b >> 8);
}

static float value_at(const uint8_t *bytes, size_t j)
{
    return gwi_bf16_value((uint16_t)(bytes[2 * j] | bytes[2 * j + 1] << 8));
}

static void encode_c(const float *v, size_t n, uint8_t *bytes)
{
    for (size_t j = 0; j < n; j++)
        put(bytes, j, gwi_bf16_of(v[j]));
}

static void encode_subtract_c(float *v, size_t n, uint8_t *bytes)
{
    for (size_t j = 0; j < n; j++) {
        uint16_t b = gwi_bf16_of(v[j]);
        put(bytes, j, b);
        v[j] -= gwi_bf16_value(b);
    }
}

static void decode_c(const uint8_t *bytes, float *out, size_t n)
{
    for (size_t j = 0; j < n; j++)
        out[j] = value_at(bytes, j);
}

static void decode_add_c(const uint8_t *bytes, float *acc, size_t n)
{
    for (size_t j = 0; j < n; j++)
        acc[j] += value_at(bytes, j);
}

/* ---- the choice ------------------------------------------------------------ */

static const gwi_bf16_kernels reference = {
    .isa = "c",
    .encode = encode_c,
    .encode_subtract = encode_subtract_c,
    .decode = decode_c,
    .decode_add = decode_add_c,
};

void gwi_bf16_for(unsigned flags, gwi_bf16_kernels *k)
{
    *k = reference;
#if defined(__x86_64__)
    if (flags & GWI_CPU_AVX2)
        gwi_bf16_avx2(k);
    if (flags & GWI_CPU_AVX512)
        gwi_bf16_avx512(k);
#endif
    (void)flags;
}

/* ---- whole vectors --------------------------------------------------------- */

/* One walk over the blocks of a vector; each operation uses the pointers it
 * needs. */
typedef struct walk {
    const gwi_bf16_kernels *k;
    size_t n;
    const float *source;
    float *target;
    uint8_t *bytes;
    const uint8_t *bytes_in;
    /* Does the m entries that begin at entry `at`. */
    void (*each)(const struct walk *w, size_t at, size_t m);
} walk;

static void walk_block(void *arg, size_t block)
{
    const walk *w = arg;
    size_t at = block * BLOCK_FLOATS;
    size_t left = w->n - at;

    w->each(w, at, left < BLOCK_FLOATS ? left : BLOCK_FLOATS);
}

static void walk_all(walk *w)
{
    w->k = gwi_bf16();
    gwi_parallel(w->n / BLOCK_FLOATS + (w->n % BLOCK_FLOATS != 0), walk_block, w);
}

static void encode_each(const walk *w, size_t at, size_t m)
{
    w->k->encode(w->source + at, m, w->bytes + 2 * at);
}

void gwi_bf16_encode(const float *v, size_t n, uint8_t *bytes)
{
    walk w = {.n = n, .source = v, .bytes = bytes, .each = encode_each};

    walk_all(&w);
}

static void encode_subtract_each(const walk *w, size_t at, size_t m)
{
    w->k->encode_subtract(w->target + at, m, w->bytes + 2 * at);
}

void gwi_bf16_encode_subtract(float *v, size_t n, uint8_t *bytes)
{
    walk w = {.n = n, .target = v, .bytes = bytes, .each = encode_subtract_each};

    walk_all(&w);
}

static void decode_each(const walk *w, size_t at, size_t m)
{
    w->k->decode(w->bytes_in + 2 * at, w->target + at, m);
}

void gwi_bf16_decode(const uint8_t *bytes, float *out, size_t n)
{
    walk w = {.n = n, .target = out, .bytes_in = bytes, .each = decode_each};

    walk_all(&w);
}

static void decode_add_each(const walk *w, size_t at, size_t m)
{
    w->k->decode_add(w->bytes_in + 2 * at, w->target + at, m);
}

void gwi_bf16_decode_add(const uint8_t *bytes, float *acc, size_t n)
{
    walk w = {.n = n, .target = acc, .bytes_in = bytes, .each = decode_add_each};

    walk_all(&w);
}
