/* SPDX-License-Identifier: Apache-2.0
 *
 * coder_levels.c - values in a few bits, rounded at random without bias: QSGD
 * (Alistarh et al. 2017), and its values averaged now and then, PQASGD (Jiang & Agrawal
 * 2018). Each bucket of values shares a norm; kernels/levels.h has the arithmetic. */
#include "kernels/levels.h"

#include <math.h>
#include <stdio.h>

#include "sync/coder.h"

typedef struct options {
    uint64_t bits;   /* 2 to 8, 32: not quantized */
    uint64_t bucket; /* values that share a norm */
    uint64_t seed;   /* of rounding; added to the sync's own */
    int norm;        /* gwi_levels_norm */
    int code;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_CODER);
}

static bool bits_fit(double bits)
{
    return bits <= 8 || bits == 32;
}

static bool bucket_fits(double bucket)
{
    return fmod(bucket, 8) == 0;
}

static const gwi_key keys[] = {
    {.name = "bits",
     .meaning = "bits of each value",
     .range = "2 to 8, or 32 (not quantized)",
     .least = 2,
     .most = 32,
     .fits = bits_fit,
     .at = offsetof(options, bits),
     .value = GWI_COUNT},
    {.name = "bucket",
     .meaning = "values that share a norm",
     .fallback = "512",
     .range = "a multiple of 8 from 8 to 65536",
     .least = 8,
     .most = 65536,
     .fits = bucket_fits,
     .at = offsetof(options, bucket),
     .value = GWI_COUNT},
    {.name = "norm",
     .meaning = "what a bucket is scaled by: Euclidean norm, or largest magnitude",
     .fallback = "max",
     .words = "l2|max",
     .at = offsetof(options, norm),
     .value = GWI_WORD},
    {.name = "seed",
     .meaning = "seed of random rounding, added to the seed of the sync",
     .fallback = "0",
     .range = "a count",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, seed),
     .value = GWI_COUNT},
    GWI_CODE_KEY(options),
    {.name = NULL},
};

static bool levels_off(const gwi_spec *spec)
{
    return options_of(spec)->bits == 32;
}

/* ---- rounding and residuals ------------------------------------------------ */

/* Rounding at random adds a variance of up to q times the squared norm. A residual
 * that takes in more than was there grows without bound, so q must be below 1: for
 * the L2 norm it is min(d/s^2, sqrt(d)/s); for the largest magnitude, about 3.5
 * times the root mean square of a bucket, about 3/s^2. */
static double noise_of(const options *opt, uint64_t bits, int norm)
{
    double s = (double)((1u << (bits - 1)) - 1), d = (double)opt->bucket;

    return norm == GWI_NORM_L2 ? fmin(d / (s * s), sqrt(d) / s) : 3 / (s * s);
}

static double levels_noise(const gwi_spec *spec)
{
    const options *opt = options_of(spec);

    return levels_off(spec) ? 0 : noise_of(opt, opt->bits, opt->norm);
}

static bool rounding_fits(const options *opt, uint64_t bits, int norm)
{
    return noise_of(opt, bits, norm) < 1;
}

/* The fewest bits with which a norm fits; 9 if none do. */
static unsigned fewest_bits(const options *opt, int norm)
{
    unsigned bits = 2;

    while (bits <= 8 && !rounding_fits(opt, bits, norm))
        bits++;
    return bits;
}

static gw_status fail_rounding(const gwi_spec *spec)
{
    const options *opt = options_of(spec);
    unsigned bits = (unsigned)opt->bits, more = fewest_bits(opt, opt->norm);
    unsigned max_bits = fewest_bits(opt, GWI_NORM_MAX);
    bool l2 = opt->norm == GWI_NORM_L2;
    char by_bits[40] = "", by_norm[40] = "";

    if (more <= 8)
        snprintf(by_bits, sizeof by_bits, "bits=%u or more, ", more);
    if (l2 && max_bits <= bits)
        snprintf(by_norm, sizeof by_norm, "norm=max, ");
    else if (l2)
        snprintf(by_norm, sizeof by_norm, "norm=max with bits=%u, ", max_bits);
    return gw_fail(
        GW_ERR_SPEC,
        "bits=%u with norm=%s cannot be used with residual=on of '%s': rounding would "
        "add more to the residual than is sent; use %s%sor residual=off",
        bits, l2 ? "l2" : "max", gwi_stage_showing(spec, "residual")->name, by_bits,
        by_norm);
}

static gw_status levels_check(const gwi_spec *spec, const gwi_stage *stage)
{
    const options *opt = options_of(spec);

    (void)stage;
    if (levels_off(spec) || !gwi_keeps_residual(spec) ||
        rounding_fits(opt, opt->bits, opt->norm))
        return GW_OK;
    return fail_rounding(spec);
}

/* ---- coding ------------------------------------------------------------------ */

static gwi_levels_format format_of(const gwi_spec *spec)
{
    const options *opt = options_of(spec);

    return (gwi_levels_format){.bits = (unsigned)opt->bits,
                               .bucket = (uint32_t)opt->bucket,
                               .norm = (gwi_levels_norm)opt->norm};
}

static void levels_form(const gwi_spec *spec, gwi_wire_form *form)
{
    form->coding = GWI_WIRE_LEVELS;
    form->bits = (unsigned)options_of(spec)->bits;
    form->group = (uint32_t)options_of(spec)->bucket;
}

static size_t levels_bucket(const gwi_spec *spec)
{
    return options_of(spec)->bucket;
}

static uint64_t levels_seed(const gwi_spec *spec)
{
    return options_of(spec)->seed;
}

static bool levels_entropy(const gwi_spec *spec)
{
    return options_of(spec)->code == GWI_CODE_ENTROPY;
}

static size_t levels_scales(const gwi_coding *c, size_t k)
{
    gwi_levels_format format = format_of(c->spec);

    return gwi_levels_buckets(&format, k);
}

static void levels_put(gwi_coding *c, gwi_wire_writer *w, float *v, size_t k,
                       const gwi_message_context *at)
{
    gwi_levels_format format = format_of(c->spec);

    gwi_levels_encode_subtract(&format, v, k, at->key, at->bucket, w->values,
                               c->scales);
}

static void levels_get(gwi_coding *c, const gwi_wire_view *view, float *out)
{
    gwi_levels_format format = format_of(c->spec);

    gwi_levels_decode(&format, view->values, c->scales, out, view->form.k);
}

static void levels_add(gwi_coding *c, const gwi_wire_view *view, float *acc)
{
    gwi_levels_format format = format_of(c->spec);

    gwi_levels_decode_add(&format, view->values, c->scales, acc, view->form.k);
}

const gwi_coder gwi_coder_levels = {
    .part = {.name = "levels", .keys = keys, .check = levels_check, .off = levels_off},
    .whole = &gwi_exchange_coded,
    .finite = true,
    .has_peaks = true,
    .form = levels_form,
    .bucket = levels_bucket,
    .seed = levels_seed,
    .noise = levels_noise,
    .entropy = levels_entropy,
    .scales = levels_scales,
    .put = levels_put,
    .get = levels_get,
    .add = levels_add,
};

/* ---- stages ------------------------------------------------------------------- */

const gwi_stage gwi_stage_qsgd = {
    .name = "qsgd",
    .summary = "every gradient in a few bits per entry (Alistarh et al. 2017)",
    .example = "qsgd:4",
    .cost = "n bits/8 + 4n/bucket bytes, to all or to owners and back",
    .expect = "rounding has no bias; the fewer the bits, the more noise it adds",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_CODER] = &gwi_coder_levels.part,
              [GWI_EXCHANGE] = &gwi_exchange_coded.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "bits bucket norm residual via warmup dense_below seed delay lead code",
    .but = {{"residual", "off"}},
};

const gwi_stage gwi_stage_pqasgd = {
    .name = "pqasgd",
    .summary = "quantized model changes every few steps (Jiang & Agrawal 2018)",
    .example = "pqasgd:8,4",
    .cost = "qsgd / every, of the change of the model",
    .expect = "like local, with fewer bytes and with the noise of rounding",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_periods.part,
              [GWI_CODER] = &gwi_coder_levels.part,
              [GWI_EXCHANGE] = &gwi_exchange_coded.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "every bits bucket norm residual via seed code",
    .but = {{"residual", "off"}},
};

const gwi_stage gwi_stage_q = {
    .name = "q",
    .summary = "values in a few bits, rounded at random without bias",
    .example = "q:4",
    .cost = "bits of each value, and 4 bytes for each bucket",
    .expect = "with residual=on it needs at least 3 bits, 6 with norm=l2",
    .role = GWI_ROLE_HOW,
    .parts = {[GWI_CODER] = &gwi_coder_levels.part},
    .keys = "bits bucket norm seed code",
};
