/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_coded.c - whole vectors in few bits per entry: QSGD, PQASGD, bf16.
 *
 * Sums of b-bit numbers need more than b bits, so there are two ways:
 *
 *   gather   every worker sends its vector to all, all add up: (P-1) M bytes
 *   scatter  every worker sends each segment to its owner, who adds up, codes the
 *            average anew and sends it to all: 2 (P-1)/P M bytes, coded twice
 *
 * with M the bytes of one coded vector, that of the tensors which are not small.
 * Segments are whole buckets. */
#include <float.h>
#include <string.h>

#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"
#include "sync/small.h"

typedef struct coded {
    uint8_t *in, *out; /* P messages each; gather uses `in` alone */
    size_t cap;        /* of one message */
    size_t *lens, *out_lens;
    void *memory;
} coded;

enum { VIA_AUTO, VIA_GATHER, VIA_SCATTER };

typedef struct options {
    int via;
} options;

static const gwi_key keys[] = {
    {.name = "via",
     .meaning =
         "whole vectors to all, or segments to owners and back; auto: what sends less",
     .fallback = "auto",
     .words = "auto|gather|scatter",
     .at = offsetof(options, via),
     .value = GWI_WORD},
    {.name = NULL},
};

static int via_of(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_EXCHANGE))->via;
}

static bool coded_off(const gwi_spec *spec)
{
    return spec->part[GWI_CODER] == &gwi_coder_f32.part;
}

typedef struct segment {
    size_t begin, end, bucket;
} segment;

/* Vectors are cut where a coder would cut them. */
static size_t bucket_of(const gwi_spec *spec)
{
    const gwi_coder *coder = gwi_coder_of(spec);

    return coder->bucket != NULL ? coder->bucket(spec) : 512;
}

static segment segment_of(const gw_sync *s, int rank)
{
    size_t n = gwi_rest(s), bucket = bucket_of(&s->spec), first, last;

    gw_part((n + bucket - 1) / bucket, s->comm->workers, rank, &first, &last);
    return (segment){first * bucket < n ? first * bucket : n,
                     last * bucket < n ? last * bucket : n, first};
}

static bool scatters(const gw_sync *s)
{
    return via_of(&s->spec) == VIA_SCATTER;
}

/* What sends less. With two workers it is the same, and gathering codes only once. */
static void choose_way(gw_sync *s)
{
    options *opt = (void *)s->spec.options[GWI_EXCHANGE];
    size_t p = (size_t)s->comm->workers;

    if (opt->via == VIA_AUTO)
        opt->via = 2 * (p - 1) < p * (p - 1) ? VIA_SCATTER : VIA_GATHER;
    gwi_spec_write(&s->spec, s->text, sizeof s->text);
}

static gw_status coded_init(gw_sync *s)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = gwi_rest(s), p = (size_t)s->comm->workers;

    choose_way(s);
    GWI_TRY(gwi_coding_init(&s->coding, &s->spec, s->layout, gwi_looks(s), n));
    segment longest = segment_of(s, 0);
    size_t message = gwi_coding_vector_bound(&s->coding, scatters(s) ? longest.end : n);
    x->cap = (message + 63) & ~(size_t)63;
    x->memory = gwi_calloc(p, (scatters(s) ? 2 : 1) * x->cap + 2 * sizeof(size_t));
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu messages of %zu bytes",
                       p, x->cap);
    x->in = x->memory;
    x->out = x->in + p * x->cap;
    x->lens = (size_t *)(x->in + (scatters(s) ? 2 : 1) * p * x->cap);
    x->out_lens = x->lens + p;
    return GW_OK;
}

static void coded_fini(gw_sync *s)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->memory);
}

/* Where the vector to be sent lies: the residual takes it in, if there is one. */
static float *source(gw_sync *s, float *v)
{
    if (s->kept[GWI_RESIDUAL] == NULL)
        return v;
    gwi_add(s->kept[GWI_RESIDUAL], v, gwi_rest(s));
    return s->kept[GWI_RESIDUAL];
}

/* Adds what worker r sent to acc. */
static gw_status add_message(gw_sync *s, int r, float *acc, size_t n)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    return gwi_blame(s, r,
                     gwi_coding_add_vector(&s->coding, x->in + (size_t)r * x->cap,
                                           x->lens[r], s->step, acc, n));
}

/* A note if the sum of numbers that were finite is not. It cannot be where the largest
 * magnitudes of all workers add up to something finite, and mostly they do. */
static gwi_note look_at_sum(const gw_sync *s, const float *v, size_t begin, size_t end,
                            float peak)
{
    if (!gwi_looks(s) || peak <= FLT_MAX)
        return 0;
    size_t bad = begin + gwi_first_nonfinite(v + begin, end - begin);
    return bad < end ? gwi_note_of_sum(s, gwi_rest_place(s, bad)) : 0;
}

/* ---- gather ------------------------------------------------------------- */

static gw_status put_back_own(gw_sync *s)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t own = (size_t)s->comm->rank;

    if (s->kept[GWI_RESIDUAL] == NULL)
        return GW_OK;
    return gwi_coding_add_vector(&s->coding, x->in + own * x->cap, x->lens[own],
                                 s->step, s->kept[GWI_RESIDUAL], gwi_rest(s));
}

static gw_status add_all(gw_sync *s, float *v, gwi_note *note)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = gwi_rest(s);
    int p = s->comm->workers;
    float peak = 0;

    GWI_TRY(gwi_blame(
        s, 0, gwi_coding_get_vector(&s->coding, x->in, x->lens[0], s->step, v, n)));
    peak += gwi_coding_peak(&s->coding);
    for (int r = 1; r < p; r++) {
        GWI_TRY(add_message(s, r, v, n));
        peak += gwi_coding_peak(&s->coding);
    }
    if (p > 1)
        gwi_divide(v, (float)p, n);
    *note = look_at_sum(s, v, 0, n, peak);
    return GW_OK;
}

static gw_status run_gather(gw_sync *s, float *v, gwi_note *note)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = gwi_rest(s), len;
    uint8_t *msg = x->in + (size_t)s->comm->rank * x->cap;
    gwi_message_context at = {.step = s->step, .key = gwi_sync_key(s, false)};
    bool good = *note == 0;

    if (good)
        GWI_TRY(
            gwi_coding_put_vector(&s->coding, source(s, v), n, &at, msg, x->cap, &len));
    else
        len = gwi_put_note(s, msg, *note);
    gwi_decodes(s);
    GWI_TRY(gwi_allgather(s->comm, msg, len, x->in, x->cap, x->lens));
    GWI_TRY(gwi_least_note(s, x->in, x->cap, x->lens, note));
    if (*note != 0)
        return good ? put_back_own(s) : GW_OK;
    return add_all(s, v, note);
}

/* ---- scatter ------------------------------------------------------------ */

/* Codes every segment but the own one into x->out, lengths into x->lens. */
static gw_status code_segments(gw_sync *s, float *src)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    for (int r = 0; r < s->comm->workers; r++) {
        segment g = segment_of(s, r);
        gwi_message_context at = {s->step, gwi_sync_key(s, false), g.bucket};
        if (r != s->comm->rank)
            GWI_TRY(gwi_coding_put_vector(&s->coding, src + g.begin, g.end - g.begin,
                                          &at, x->out + (size_t)r * x->cap, x->cap,
                                          &x->lens[r]));
    }
    return GW_OK;
}

static void note_to_all(gw_sync *s, gwi_note note)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    for (int r = 0; r < s->comm->workers; r++)
        x->lens[r] = gwi_put_note(s, x->out + (size_t)r * x->cap, note);
}

/* Sends message r of x->out to worker r, and receives into x->in; x->lens becomes
 * the lengths received. */
static gw_status all_to_all(gw_sync *s)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t p = (size_t)s->comm->workers;

    memcpy(x->out_lens, x->lens, p * sizeof *x->lens);
    return gwi_all_to_all(s->comm, &(gwi_parcels){.out = x->out,
                                                  .out_lens = x->out_lens,
                                                  .out_step = x->cap,
                                                  .out_lens_step = 1,
                                                  .in = x->in,
                                                  .cap = x->cap,
                                                  .in_lens = x->lens});
}

/* After a note: what was coded for others returns, since nobody will apply it. */
static gw_status put_back_segments(gw_sync *s)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    for (int r = 0; s->kept[GWI_RESIDUAL] != NULL && r < s->comm->workers; r++) {
        segment g = segment_of(s, r);
        if (r != s->comm->rank)
            GWI_TRY(gwi_coding_add_vector(
                &s->coding, x->out + (size_t)r * x->cap, x->out_lens[r], s->step,
                s->kept[GWI_RESIDUAL] + g.begin, g.end - g.begin));
    }
    return GW_OK;
}

/* The average of the own segment: own values exactly, the others' as they came. */
static gw_status average_own(gw_sync *s, float *v, segment g, gwi_note *note)
{
    size_t n = g.end - g.begin;
    float peak;

    if (s->kept[GWI_RESIDUAL] != NULL) {
        memcpy(v + g.begin, s->kept[GWI_RESIDUAL] + g.begin, n * sizeof *v);
        memset(s->kept[GWI_RESIDUAL] + g.begin, 0, n * sizeof *v);
    }
    peak = gwi_absmax(v + g.begin, n);
    for (int r = 0; r < s->comm->workers; r++)
        if (r != s->comm->rank) {
            GWI_TRY(add_message(s, r, v + g.begin, n));
            peak += gwi_coding_peak(&s->coding);
        }
    gwi_divide(v + g.begin, (float)s->comm->workers, n);
    *note = look_at_sum(s, v, g.begin, g.end, peak);
    return GW_OK;
}

/* Codes the average for all; the error of one worker's coding stands for all P. */
static gw_status code_average(gw_sync *s, float *v, segment g, size_t *len)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t n = g.end - g.begin;
    gwi_message_context at = {s->step, gwi_sync_key(s, true), g.bucket};

    GWI_TRY(gwi_coding_put_vector(&s->coding, v + g.begin, n, &at,
                                  x->in + (size_t)s->comm->rank * x->cap, x->cap, len));
    if (s->kept[GWI_RESIDUAL] != NULL)
        gwi_axpy(s->kept[GWI_RESIDUAL] + g.begin, (float)s->comm->workers, v + g.begin,
                 n);
    return GW_OK;
}

static gw_status read_averages(gw_sync *s, float *v)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);

    for (int r = 0; r < s->comm->workers; r++) {
        segment g = segment_of(s, r);
        GWI_TRY(gwi_blame(s, r,
                          gwi_coding_get_vector(&s->coding, x->in + (size_t)r * x->cap,
                                                x->lens[r], s->step, v + g.begin,
                                                g.end - g.begin)));
    }
    return GW_OK;
}

/* The second half: averages, or the note that one overflows, to all. */
static gw_status hand_on(gw_sync *s, float *v, gwi_note *note)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t own = (size_t)s->comm->rank, len;
    segment g = segment_of(s, s->comm->rank);
    uint8_t *msg = x->in + own * x->cap;

    GWI_TRY(average_own(s, v, g, note));
    if (*note == 0)
        GWI_TRY(code_average(s, v, g, &len));
    else
        len = gwi_put_note(s, msg, *note);
    GWI_TRY(gwi_allgather(s->comm, msg, len, x->in, x->cap, x->lens));
    GWI_TRY(gwi_least_note(s, x->in, x->cap, x->lens, note));
    return *note == 0 ? read_averages(s, v) : GW_OK;
}

static gw_status run_scatter(gw_sync *s, float *v, gwi_note *note)
{
    coded *x = gwi_state(s, GWI_EXCHANGE);
    size_t own = (size_t)s->comm->rank;
    bool good = *note == 0;

    if (good)
        GWI_TRY(code_segments(s, source(s, v)));
    else
        note_to_all(s, *note);
    gwi_decodes(s);
    GWI_TRY(all_to_all(s));
    x->lens[own] = good ? 0 : gwi_put_note(s, x->in + own * x->cap, *note);
    GWI_TRY(gwi_least_note(s, x->in, x->cap, x->lens, note));
    if (*note != 0)
        return good ? put_back_segments(s) : GW_OK;
    return hand_on(s, v, note);
}

static gw_status coded_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    return scatters(s) ? run_scatter(s, at->v, note) : run_gather(s, at->v, note);
}

static bool coded_gathers(const gwi_spec *spec)
{
    return via_of(spec) == VIA_GATHER;
}

const gwi_exchange gwi_exchange_coded = {
    .part = {.name = "coded",
             .keys = keys,
             .off = coded_off,
             .state_size = sizeof(coded),
             .init = coded_init,
             .fini = coded_fini},
    .run = coded_run,
    .path = gwi_path_of_lists,
    .lossy = true,
    .closes_up = true,
    .gathers = coded_gathers,
};
