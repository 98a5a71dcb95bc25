/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_means.c - A2SGD (Bhattacharya et al. 2020), as published or with more means.
 *
 *     m+ = mean of the entries >= 0,  m- = mean of those < 0     (0 of nothing)
 *     M+, M- = their averages over the workers: 8 bytes, all that is sent
 *     v += M+ - m+ where v >= 0,  v += M- - m- where v < 0
 *
 * A worker keeps its own deviations and its own signs, so the workers apply
 * different updates and their models drift apart from the first step.
 *
 * As published, the whole vector is one run with two means. `per` and `bucket` cut it
 * into shorter runs with two means each: the more there are, the more of a gradient the
 * workers share. */
#include <math.h>

#include "kernels/means.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"

enum { PER_ALL, PER_TENSOR, PER_ROW };

typedef struct options {
    uint64_t resync; /* steps between averages of the models, 0: never */
    int per;
    uint64_t bucket; /* the most entries of a run, 0: no limit */
} options;

static const gwi_key keys[] = {
    {.name = "resync",
     .meaning = "steps between averages of the models",
     .fallback = "0",
     .range = "a count of steps, 0 for never",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, resync),
     .value = GWI_COUNT},
    {.name = "per",
     .meaning = "what has two means of its own",
     .fallback = "all",
     .words = "all|tensor|row",
     .unsaid = true,
     .at = offsetof(options, per),
     .value = GWI_WORD},
    {.name = "bucket",
     .meaning = "entries that share two means, at most",
     .fallback = "0",
     .range = "a count of entries, 0 for no limit",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .unsaid = true,
     .at = offsetof(options, bucket),
     .value = GWI_COUNT},
    {.name = NULL},
};

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_EXCHANGE);
}

static uint64_t means_resync(const gwi_spec *spec)
{
    return options_of(spec)->resync;
}

/* ---- runs with means of their own ------------------------------------------------ */

/* One run, [begin, end) of the vector, within what `per` names, which ends at `whole`
 * of tensor `tensor`. Zeros come before the first. */
typedef struct run {
    size_t begin, end, whole, tensor, tensor_end;
} run;

/* Where what `per` names ends, if it begins at r->end. */
static size_t whole_end(const options *opt, const gw_layout *layout, run *r)
{
    const gw_tensor *t;

    if (opt->per == PER_ALL)
        return layout->floats;
    while (r->end == r->tensor_end) {
        t = &layout->tensors[r->tensor++];
        r->tensor_end += t->rows * t->cols;
    }
    t = &layout->tensors[r->tensor - 1];
    return opt->per == PER_ROW ? r->end + t->cols : r->tensor_end;
}

/* Moves on to the next run; false past the last. */
static bool next(const options *opt, const gw_layout *layout, run *r)
{
    if (r->end == layout->floats)
        return false;
    if (r->end == r->whole)
        r->whole = whole_end(opt, layout, r);
    r->begin = r->end;
    r->end = r->whole;
    if (opt->bucket > 0 && r->end - r->begin > opt->bucket)
        r->end = r->begin + (size_t)opt->bucket;
    return true;
}

static size_t count_runs(const options *opt, const gw_layout *layout)
{
    run r = {0};
    size_t count = 0;

    while (next(opt, layout, &r))
        count++;
    return count;
}

/* ---- a step ------------------------------------------------------------------------
 */

/* Two for each run: the worker's own means, and those of all. */
typedef struct means {
    float *own, *all;
    size_t count; /* of floats in each */
} means;

static gw_status means_init(gw_sync *s)
{
    means *m = gwi_state(s, GWI_EXCHANGE);

    m->count = 2 * count_runs(options_of(&s->spec), s->layout);
    m->own = gwi_calloc(2 * m->count, sizeof *m->own);
    if (m->own == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %zu means", m->count);
    m->all = m->own + m->count;
    return GW_OK;
}

static void means_fini(gw_sync *s)
{
    means *m = gwi_state(s, GWI_EXCHANGE);

    gwi_free(m->own);
}

static void find_means(gw_sync *s, const float *v)
{
    means *m = gwi_state(s, GWI_EXCHANGE);
    run r = {0};

    for (size_t i = 0; next(options_of(&s->spec), s->layout, &r); i += 2) {
        gwi_two_sums sums = gwi_two_sums_of(v + r.begin, r.end - r.begin);
        m->own[i] = m->all[i] = gwi_mean_of(sums.plus, sums.plus_count);
        m->own[i + 1] = m->all[i + 1] = gwi_mean_of(sums.minus, sums.minus_count);
    }
}

static void shift(gw_sync *s, float *v)
{
    means *m = gwi_state(s, GWI_EXCHANGE);
    run r = {0};

    for (size_t i = 0; next(options_of(&s->spec), s->layout, &r); i += 2)
        gwi_two_shift(v + r.begin, r.end - r.begin, m->all[i] - m->own[i],
                      m->all[i + 1] - m->own[i + 1]);
}

/* The place in the vector that float i of the means is about. */
static size_t place_of(const gw_sync *s, size_t i)
{
    run r = {0};

    for (size_t at = 0; next(options_of(&s->spec), s->layout, &r); at += 2)
        if (i < at + 2)
            break;
    return r.begin;
}

static gw_status means_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    means *m = gwi_state(s, GWI_EXCHANGE);
    size_t i;

    find_means(s, at->v);
    gwi_decodes(s);
    GWI_TRY(gwi_allreduce(s->comm, m->all, m->count, (float)s->comm->workers,
                          gwi_looks(s) ? note : NULL));
    i = *note & UINT32_MAX;
    if ((*note & GWI_NOTE_SUM) == GWI_NOTE_SUM && i < m->count)
        *note = gwi_note_of_sum(s, place_of(s, i));
    if (*note == 0)
        shift(s, at->v);
    return GW_OK;
}

/* A message in each round of doubling, unless there are so many means that they go
 * around a ring. */
static gwi_path means_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    gwi_path one =
        gwi_path_of_sum(2 * (double)count_runs(options_of(spec), layout), workers);

    if (one.rounds <= ceil(log2(workers)))
        return (gwi_path){(double)t->messages_sent, (double)t->bytes_sent};
    return gwi_path_repeated(one, t);
}
const gwi_exchange gwi_exchange_means = {
    .part = {.name = "means",
             .keys = keys,
             .state_size = sizeof(means),
             .init = means_init,
             .fini = means_fini},
    .run = means_run,
    .path = means_path,
    .differs = true,
    .codes = true,
    .resync = means_resync,
};

const gwi_stage gwi_stage_a2sgd = {
    .name = "a2sgd",
    .summary = "two means of 8 bytes in all; models drift (Bhattacharya et al. 2020)",
    .example = "a2sgd",
    .cost = "16 bytes and a check, log2 P times",
    .expect = "models drift apart: in our checks no better than none without resync",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_EXCHANGE] = &gwi_exchange_means.part},
    .keys = "resync per bucket",
};
