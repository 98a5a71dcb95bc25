/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16_loops.h - the loops that AVX2 and AVX-512 share. The file that includes this
 * has defined
 *
 *     GWI_TARGET                 the attribute that allows its intrinsics
 *     STEP, LANES                entries of a step when encoding and when decoding
 *     encode_step()              writes STEP bf16
 *     subtract_step()            the same, and subtracts what was encoded
 *     decode_step()              writes or adds the values of LANES bf16
 *     decode_add_step() */
#include <string.h>

GWI_TARGET static void encode_loop(const float *v, size_t n, uint8_t *bytes)
{
    float rest[STEP] = {0};
    uint8_t out[2 * STEP];
    size_t j = 0;

    for (; j + STEP <= n; j += STEP)
        encode_step(v + j, bytes + 2 * j);
    if (j < n) {
        memcpy(rest, v + j, (n - j) * sizeof *v);
        encode_step(rest, out);
        memcpy(bytes + 2 * j, out, 2 * (n - j));
    }
}

GWI_TARGET static void encode_subtract_loop(float *v, size_t n, uint8_t *bytes)
{
    float rest[STEP] = {0};
    uint8_t out[2 * STEP];
    size_t j = 0;

    for (; j + STEP <= n; j += STEP)
        subtract_step(v + j, bytes + 2 * j);
    if (j < n) {
        memcpy(rest, v + j, (n - j) * sizeof *v);
        subtract_step(rest, out);
        memcpy(v + j, rest, (n - j) * sizeof *v);
        memcpy(bytes + 2 * j, out, 2 * (n - j));
    }
}

GWI_TARGET static void decode_loop(const uint8_t *bytes, float *out, size_t n)
{
    size_t j = 0;

    for (; j + LANES <= n; j += LANES)
        decode_step(bytes + 2 * j, out + j);
    for (; j < n; j++)
        out[j] = gwi_bf16_value((uint16_t)(bytes[2 * j] | bytes[2 * j + 1] << 8));
}

GWI_TARGET static void decode_add_loop(const uint8_t *bytes, float *acc, size_t n)
{
    size_t j = 0;

    for (; j + LANES <= n; j += LANES)
        decode_add_step(bytes + 2 * j, acc + j);
    for (; j < n; j++)
        acc[j] += gwi_bf16_value((uint16_t)(bytes[2 * j] | bytes[2 * j + 1] << 8));
}
