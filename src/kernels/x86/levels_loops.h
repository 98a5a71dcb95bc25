/* SPDX-License-Identifier: Apache-2.0
 *
 * levels_loops.h - the loops over a bucket that AVX2 and AVX-512 share, steps of many
 * entries and a last one that touches no byte too many. The file that includes this
 * has defined
 *
 *     GWI_TARGET                 the attribute that allows its intrinsics
 *     STEP, LANES                entries of a step when encoding and when decoding
 *     coder, coder_make()        what encoding a bucket keeps in registers
 *     encode_step()              writes the levels of STEP entries
 *     subtract_step()            the same, and subtracts what was encoded
 *     decoder, decoder_make()    what decoding a bucket keeps in registers
 *     decode_step()              writes or adds the values of LANES entries, of which
 *     decode_add_step()          every eight take `bits` bytes and are read as 8 bytes
 */
#include <string.h>

/* ---- encode ---------------------------------------------------------------- */

/* A step of m entries, at most STEP, that writes no byte too many: by way of memory of
 * its own for the bytes and, where zeros must follow, for the floats. */
GWI_TARGET static void encode_last(coder *c, const float *v, size_t m, unsigned bits,
                                   uint8_t *out)
{
    float padded[STEP];
    uint8_t packed[STEP];

    if (m < STEP) {
        memset(padded, 0, sizeof padded);
        v = memcpy(padded, v, m * sizeof *v);
    }
    encode_step(c, v, bits, packed);
    memcpy(out, packed, (m * bits + 7) / 8);
}

GWI_TARGET static void subtract_last(coder *c, float *v, size_t m, unsigned bits,
                                     uint8_t *out)
{
    float padded[STEP] = {0};
    uint8_t packed[STEP];

    memcpy(padded, v, m * sizeof *v);
    subtract_step(c, padded, bits, packed);
    memcpy(v, padded, m * sizeof *v);
    memcpy(out, packed, (m * bits + 7) / 8);
}

GWI_TARGET static void encode_loop(const gwi_levels_rule *rule, const float *v,
                                   size_t n, uint8_t *out)
{
    const unsigned bits = rule->bits;
    const uint8_t *end = out + (n * bits + 7) / 8;
    coder c = coder_make(rule);
    size_t j = 0;

    for (; j + STEP <= n && (size_t)(end - out) >= 2 * bits + 16; j += STEP) {
        encode_step(&c, v + j, bits, out);
        out += 4 * bits;
    }
    for (; j < n; j += STEP, out += 4 * bits)
        encode_last(&c, v + j, n - j < STEP ? n - j : STEP, bits, out);
}

GWI_TARGET static void encode_subtract_loop(const gwi_levels_rule *rule, float *v,
                                            size_t n, uint8_t *out)
{
    const unsigned bits = rule->bits;
    const uint8_t *end = out + (n * bits + 7) / 8;
    coder c = coder_make(rule);
    size_t j = 0;

    for (; j + STEP <= n && (size_t)(end - out) >= 2 * bits + 16; j += STEP) {
        subtract_step(&c, v + j, bits, out);
        out += 4 * bits;
    }
    for (; j < n; j += STEP, out += 4 * bits)
        subtract_last(&c, v + j, n - j < STEP ? n - j : STEP, bits, out);
}

/* ---- decode ---------------------------------------------------------------- */

enum { WORDS = LANES / 8 }; /* of `bits` bytes in a step */

/* The first m levels at in, at most LANES, as values[0..m). */
GWI_TARGET static void decode_last(const decoder *d, const uint8_t *in, unsigned bits,
                                   size_t m, float *values)
{
    uint8_t bytes[LANES + 8] = {0};

    memcpy(bytes, in, (m * bits + 7) / 8);
    decode_step(d, bytes, bits, values);
}

/* Both decoders read 8 bytes per word where the bucket has them, though only `bits`
 * of them matter, and a copy towards its end. */
GWI_TARGET static void decode_loop(const uint8_t *in, unsigned bits, float unit,
                                   float *out, size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[LANES];
    size_t j = 0;

    for (; j + LANES <= n && (size_t)(end - in) >= (WORDS - 1) * bits + 8; j += LANES) {
        decode_step(&d, in, bits, out + j);
        in += WORDS * bits;
    }
    for (; j < n; j += LANES, in += WORDS * bits) {
        size_t m = n - j < LANES ? n - j : LANES;
        decode_last(&d, in, bits, m, value);
        memcpy(out + j, value, m * sizeof *out);
    }
}

GWI_TARGET static void decode_add_loop(const uint8_t *in, unsigned bits, float unit,
                                       float *acc, size_t n)
{
    const decoder d = decoder_make(bits, unit);
    const uint8_t *end = in + (n * bits + 7) / 8;
    float value[LANES];
    size_t j = 0;

    for (; j + LANES <= n && (size_t)(end - in) >= (WORDS - 1) * bits + 8; j += LANES) {
        decode_add_step(&d, in, bits, acc + j);
        in += WORDS * bits;
    }
    for (; j < n; j += LANES, in += WORDS * bits) {
        size_t m = n - j < LANES ? n - j : LANES;
        decode_last(&d, in, bits, m, value);
        for (size_t i = 0; i < m; i++)
            acc[j + i] += value[i];
    }
}
