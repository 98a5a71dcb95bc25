/* SPDX-License-Identifier: Apache-2.0
 *
 * coder_signs.c - values as their signs and the mean magnitude of each bucket. The
 * average of what the workers send is a vote in which each bucket of a worker has the
 * weight of its mean. kernels/signs.h has the arithmetic. */
#include "kernels/signs.h"

#include <math.h>

#include "sync/coder.h"

typedef struct options {
    uint64_t bucket; /* values that share a mean */
    int code;
} options;

static size_t signs_bucket(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_CODER))->bucket;
}

static bool bucket_fits(double bucket)
{
    return fmod(bucket, 8) == 0;
}

static const gwi_key keys[] = {
    {.name = "bucket",
     .meaning = "values that share a mean",
     .fallback = "512",
     .range = "a multiple of 8 from 8 to 65536",
     .least = 8,
     .most = 65536,
     .fits = bucket_fits,
     .at = offsetof(options, bucket),
     .value = GWI_COUNT},
    GWI_CODE_KEY(options),
    {.name = NULL},
};

static void signs_form(const gwi_spec *spec, gwi_wire_form *form)
{
    form->coding = GWI_WIRE_SIGNS;
    form->bits = 1;
    form->group = (uint32_t)signs_bucket(spec);
}

static bool signs_entropy(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_CODER))->code == GWI_CODE_ENTROPY;
}

static size_t signs_scales(const gwi_coding *c, size_t k)
{
    return gwi_signs_buckets(k, signs_bucket(c->spec));
}

static void signs_put(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                      const gwi_message_context *at)
{
    (void)at;
    gwi_signs_encode_subtract(v, k, signs_bucket(c->spec), w->values, c->scales);
}

static void signs_get(gwi_coding *c, const gwi_wire_view *view, float *out)
{
    gwi_signs_decode(view->values, c->scales, out, view->form.k, signs_bucket(c->spec));
}

static void signs_add(gwi_coding *c, const gwi_wire_view *view, float *acc)
{
    gwi_signs_decode_add(view->values, c->scales, acc, view->form.k,
                         signs_bucket(c->spec));
}

const gwi_coder gwi_coder_signs = {
    .part = {.name = "signs", .keys = keys},
    .whole = &gwi_exchange_coded,
    .finite = true,
    .has_peaks = true,
    .form = signs_form,
    .bucket = signs_bucket,
    .entropy = signs_entropy,
    .scales = signs_scales,
    .put = signs_put,
    .get = signs_get,
    .add = signs_add,
};

const gwi_stage gwi_stage_sign = {
    .name = "sign",
    .summary = "the sign of every entry, and the mean magnitude of each bucket",
    .example = "sign",
    .cost = "n/8 + 4n/bucket bytes, to all or to owners and back",
    .expect =
        "1 bit per entry; do not use it without the residual, which keeps the error",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_CODER] = &gwi_coder_signs.part,
              [GWI_EXCHANGE] = &gwi_exchange_coded.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "bucket residual via warmup dense_below delay lead code",
};
