/* SPDX-License-Identifier: Apache-2.0
 *
 * signs.c - the loops of means.h over buckets, spread over the thread pool. */
#include "kernels/signs.h"

#include "kernels/means.h"
#include "kernels/pool.h"

/* Entries that one thread takes at a time, about: 256 KiB. */
enum { BLOCK = 1 << 16 };

/* One call: what to do with each bucket, and where it is. */
typedef struct walk {
    void (*each)(const struct walk *w, size_t bucket, size_t at, size_t n);
    const gwi_means_kernels *k;
    float *v;
    size_t n, bucket, per_block;
    uint8_t *signs;
    const uint8_t *signs_in;
    float *means;
    const float *means_in;
} walk;

static void walk_block(void *arg, size_t block)
{
    const walk *w = arg;
    size_t last = (block + 1) * w->per_block;

    for (size_t b = block * w->per_block; b < last && b * w->bucket < w->n; b++) {
        size_t at = b * w->bucket, rest = w->n - at;
        w->each(w, b, at, rest < w->bucket ? rest : w->bucket);
    }
}

static void walk_all(walk *w)
{
    size_t buckets = gwi_signs_buckets(w->n, w->bucket);

    w->k = gwi_means();
    w->per_block = w->bucket < BLOCK ? BLOCK / w->bucket : 1;
    gwi_parallel((buckets + w->per_block - 1) / w->per_block, walk_block, w);
}

static void encode_each(const walk *w, size_t b, size_t at, size_t n)
{
    double sum = w->k->sign_encode(w->v + at, n, w->signs + at / 8);
    float mean = gwi_mean_of(sum, n);

    if (!(mean <= GWI_SIGNS_MEAN_MAX))
        mean = GWI_SIGNS_MEAN_MAX;
    w->k->sign_subtract(w->v + at, n, mean);
    w->means[b] = mean;
}

void gwi_signs_encode_subtract(float *v, size_t n, size_t bucket, uint8_t *signs,
                               float *means)
{
    walk_all(&(walk){.each = encode_each,
                     .v = v,
                     .n = n,
                     .bucket = bucket,
                     .signs = signs,
                     .means = means});
}

static void decode_each(const walk *w, size_t b, size_t at, size_t n)
{
    w->k->sign_decode(w->signs_in + at / 8, w->means_in[b], w->v + at, n);
}

void gwi_signs_decode(const uint8_t *signs, const float *means, float *out, size_t n,
                      size_t bucket)
{
    walk_all(&(walk){.each = decode_each,
                     .v = out,
                     .n = n,
                     .bucket = bucket,
                     .signs_in = signs,
                     .means_in = means});
}

static void add_each(const walk *w, size_t b, size_t at, size_t n)
{
    w->k->sign_decode_add(w->signs_in + at / 8, w->means_in[b], w->v + at, n);
}

void gwi_signs_decode_add(const uint8_t *signs, const float *means, float *acc,
                          size_t n, size_t bucket)
{
    walk_all(&(walk){.each = add_each,
                     .v = acc,
                     .n = n,
                     .bucket = bucket,
                     .signs_in = signs,
                     .means_in = means});
}
