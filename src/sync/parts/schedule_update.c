/* SPDX-License-Identifier: Apache-2.0
 *
 * schedule_update.c - every worker steps its own optimizer on its own gradient, and
 * what is exchanged in every step is the change of the model that this made: for
 * optimizers that divide by the size of gradients, or take their signs, and so must
 * not see them late and summed up.
 *
 *     up to step `start`   gradients are averaged, whole
 *     afterwards           d = scale (x - reference), on every worker
 *                          c = the average of what is sent of d
 *                          x = reference + c;  reference = x
 *
 * An optimizer that keeps the size of gradients makes steps of the same length on the
 * noisy gradient of one worker and on the average of all. But the noise of workers
 * cancels when their steps are averaged, so that the average is too short. scale=auto
 * follows what it lacks:
 *
 *     (the mean length of the workers' changes) / (the length of their mean)
 *
 * which is between 1 and the root of the number of workers. Both lengths are those of
 * a sample of coordinates, which one small all-reduce averages now and then. */
#include <math.h>

#include "kernels/random.h"
#include "sync/measure.h"
#include "sync/notes.h"

/* Coordinates of a sample: lengths are then right within some 2 percent. */
enum { SAMPLE = 4096 };

/* Changes are measured in each of the first steps, and then in every 16th. A new
 * measurement counts for an eighth, so that the scale follows within some hundred
 * steps. */
enum { EVERY = 16, SMOOTH = 8 };

typedef struct options {
    uint64_t start;
    double scale; /* GWI_NUMBER_WORD: measured */
} options;

/* What scale=auto needs: the length of the sample, then its coordinates. */
typedef struct lengths {
    float *sample;
    size_t count;
} lengths;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_SCHEDULE);
}

static const gwi_key keys[] = {
    {.name = "start",
     .meaning = "steps at the beginning in which gradients are averaged, whole",
     .fallback = "0",
     .range = "a count of steps",
     .least = 0,
     .most = GWI_COUNT_MAX,
     .at = offsetof(options, start),
     .value = GWI_COUNT},
    {.name = "scale",
     .meaning = "factor of changes; auto: what their average is too short by",
     .fallback = "1",
     .words = "auto",
     .range = "above 0, at most 1000, or auto",
     .least = 1e-6,
     .most = 1000,
     .at = offsetof(options, scale),
     .value = GWI_NUMBER},
    {.name = NULL},
};

static bool is_measured(const gwi_spec *spec)
{
    return options_of(spec)->scale == GWI_NUMBER_WORD;
}

static uint64_t update_period(const gwi_spec *spec, uint64_t done, int workers)
{
    (void)spec, (void)done, (void)workers;
    return 1;
}

static uint64_t update_start(const gwi_spec *spec)
{
    return options_of(spec)->start;
}

/* ---- scale=auto ------------------------------------------------------------------ */

static gw_status update_init(gw_sync *s)
{
    lengths *l = gwi_state(s, GWI_SCHEDULE);
    size_t n = s->whole->layout->floats;

    if (!is_measured(&s->spec) || s->number > 0)
        return GW_OK;
    l->count = n < SAMPLE ? n : SAMPLE;
    l->sample = gwi_calloc(1 + l->count, sizeof *l->sample);
    return l->sample != NULL ? GW_OK
                             : gw_fail(GW_ERR_NOMEM, "not enough memory for a sample");
}

static void update_fini(gw_sync *s)
{
    gwi_free(((lengths *)gwi_state(s, GWI_SCHEDULE))->sample);
}

/* What a scale may be with so many workers. */
static double within(const gw_sync *s, double scale)
{
    double most = sqrt((double)s->comm->workers);

    return scale < 1 ? 1 : scale > most ? most : scale;
}

static double update_scale(const gw_sync *s)
{
    if (!is_measured(&s->spec))
        return options_of(&s->spec)->scale;
    return within(s, (double)*s->kept[GWI_SCALE]);
}

static bool is_due(const gw_sync *s)
{
    uint64_t change = s->step - update_start(&s->spec);

    return is_measured(&s->spec) && s->comm->workers > 1 &&
           (change <= EVERY || change % EVERY == 0);
}

/* Where in the vector coordinate i of this step's sample is. */
static size_t place_of(const gw_sync *s, const lengths *l, size_t i)
{
    size_t n = s->layout->floats;

    return n == l->count ? i : (size_t)(gwi_random64(gwi_common_key(s, 0), i) % n);
}

static void take_sample(const gw_sync *s, lengths *l, const float *change)
{
    double sum = 0;

    for (size_t i = 0; i < l->count; i++) {
        float x = change[place_of(s, l, i)];
        l->sample[1 + i] = x;
        sum += (double)x * (double)x;
    }
    l->sample[0] = (float)sqrt(sum);
}

static gw_status average_sample(gw_sync *s, lengths *l, gwi_note *note)
{
    size_t at;

    gwi_decodes(s);
    GWI_TRY(gwi_allreduce(s->comm, l->sample, 1 + l->count, (float)s->comm->workers,
                          gwi_looks(s) ? note : NULL));
    at = *note & UINT32_MAX;
    if ((*note & GWI_NOTE_SUM) == GWI_NOTE_SUM && at <= l->count)
        *note = gwi_note_of_sum(s, place_of(s, l, at > 0 ? at - 1 : 0));
    return GW_OK;
}

static void follow(gw_sync *s, const lengths *l)
{
    float *scale = s->kept[GWI_SCALE];
    double sum = 0;

    for (size_t i = 1; i <= l->count; i++)
        sum += (double)l->sample[i] * (double)l->sample[i];
    double now = (double)l->sample[0] / sqrt(sum);
    if (!(sum > 0) || !isfinite(now))
        return;
    now = within(s, now);
    if (*scale > 0)
        now = (double)*scale + (now - (double)*scale) / SMOOTH;
    *scale = (float)now;
}

static gw_status update_measure(gw_sync *s, const float *change, gwi_note *note)
{
    lengths *l = gwi_state(s->segments[0], GWI_SCHEDULE);

    if (!is_due(s))
        return GW_OK;
    take_sample(s, l, change);
    GWI_TRY(average_sample(s, l, note));
    if (*note == 0)
        follow(s, l);
    return GW_OK;
}

static size_t one_float(const gwi_spec *spec, const gw_layout *layout)
{
    (void)spec, (void)layout;
    return 1;
}

static const gwi_remembered memories[] = {
    {.name = "scale",
     .what = "scale",
     .tag = GWI_SCALE,
     .handing = GW_HANDING_COMMON,
     .wanted = is_measured,
     .floats = one_float},
    {.name = NULL},
};

static const gwi_schedule update = {
    .part = {.name = "update",
             .keys = keys,
             .state_size = sizeof(lengths),
             .init = update_init,
             .fini = update_fini,
             .memories = memories},
    .subject = GWI_CHANGE,
    .talks = true,
    .period = update_period,
    .start = update_start,
    .scale = update_scale,
    .measure = update_measure,
};

const gwi_stage gwi_stage_update = {
    .name = "update",
    .summary = "each worker's own optimizer steps, and the changes are exchanged",
    .example = "update",
    .cost = "as what follows it; with scale=auto 1 KiB more",
    .expect = "for Adam and its kin; follow it by topk, gtopk, drop, randk or a coding",
    .role = GWI_ROLE_WHEN,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &update.part},
    .keys = "start scale",
};
