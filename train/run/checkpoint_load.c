/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_load.c - restores workers from a checkpoint, even if there are now more or
 * fewer of them:
 *
 *     parameters, optimizer, statistics   the average of the old workers'
 *     carried state                       begins anew
 *     sync                                as gw_sync_load() does: residuals add up
 *     sums for the log                    old worker w's go to worker w modulo P
 *     steps                               so that the place in the epoch is the same
 */
#include "run/checkpoint.h"
#include "run/slow_work.h"

#include <inttypes.h>
#include <string.h>

/* ---- the file, seen by rank 0 ---------------------------------------------------- */

static gw_status check_section(const gwt_sections *in, uint32_t kind, uint64_t worker,
                               uint64_t len)
{
    const gwt_section *s = gwt_sections_find(in, kind, (uint32_t)worker);
    char name[5];

    if (s != NULL && s->len == len)
        return GW_OK;
    for (int i = 0; i < 4; i++)
        name[i] = (char)(kind >> 8 * i);
    name[4] = '\0';
    if (s == NULL)
        return gw_fail(GW_ERR_DATA, "%s has no section %s of worker %" PRIu64,
                       in->from.name, name, worker);
    return gw_fail(GW_ERR_DATA,
                   "section %s of worker %" PRIu64 " in %s has %" PRIu64
                   " bytes instead of %" PRIu64,
                   name, worker, in->from.name, s->len, len);
}

/* The number of words in WORK depends on the version that wrote the file. */
static gw_status check_words(const gwt_sections *in, uint64_t worker)
{
    const gwt_section *s = gwt_sections_find(in, GWT_KIND_WORKER, (uint32_t)worker);

    if (s != NULL && s->len % 8 == 0 && s->len >= 8 * GWT_WORKER_WORDS_ONCE &&
        s->len <= 8 * GWT_WORKER_WORDS)
        return GW_OK;
    return check_section(in, GWT_KIND_WORKER, worker, 8 * GWT_WORKER_WORDS);
}

/* No product below overflows, since all counts are less than the length of the file. */
static gw_status check_job(const gwt_sections *in, const gwt_checkpoint_job *job)
{
    uint64_t vector = 4 * job->floats;

    if (job->workers == 0 || job->workers > in->count || job->epoch_steps == 0 ||
        (job->models != 1 && job->models != job->workers) || job->slots > 64 ||
        job->floats > in->from.len || job->stats > in->from.len ||
        job->carry > in->from.len)
        return gw_fail(GW_ERR_DATA, "%s has invalid counters", in->from.name);
    for (uint64_t r = 0; r < job->workers; r++) {
        GWT_TRY(check_words(in, r));
        GWT_TRY(check_section(in, GWT_KIND_KEPT, r, 4 * (job->stats + job->carry)));
        if (gwt_sections_find(in, GWT_KIND_SYNC, (uint32_t)r) == NULL)
            return check_section(in, GWT_KIND_SYNC, r, 0);
    }
    for (uint64_t r = 0; r < job->models; r++) {
        GWT_TRY(check_section(in, GWT_KIND_MODEL, r, vector));
        GWT_TRY(check_section(in, GWT_KIND_SLOTS, r, job->slots * vector));
    }
    return GW_OK;
}

gw_status gwt_checkpoint_check(const gwt_sections *in, gwt_checkpoint_job *job)
{
    uint8_t bytes[8 * GWT_JOB_WORDS];
    uint64_t word[GWT_JOB_WORDS];

    GWT_TRY(check_section(in, GWT_KIND_JOB, 0, sizeof bytes));
    if (gwt_sections_find(in, GWT_KIND_SETTINGS, 0) == NULL ||
        gwt_sections_find(in, GWT_KIND_TENSORS, 0) == NULL)
        return gw_fail(GW_ERR_DATA, "%s has no settings or no tensors", in->from.name);
    GWT_TRY(gwt_sections_read(in, gwt_sections_find(in, GWT_KIND_JOB, 0), 0, bytes,
                              sizeof bytes));
    for (size_t i = 0; i < GWT_JOB_WORDS; i++)
        word[i] = gwt_get_word(bytes + 8 * i);
    memcpy(job, word, sizeof word);
    return check_job(in, job);
}

gw_status gwt_checkpoint_open(gwt_sections *in, const char *path,
                              gwt_checkpoint_job *job)
{
    gw_status st;

    GWT_TRY(gwt_sections_open(in, path));
    st = gwt_checkpoint_check(in, job);
    if (st != GW_OK)
        gwt_sections_close(in);
    return st;
}

uint64_t gwt_checkpoint_steps(const gwt_checkpoint_job *saved, const gwt_job *job)
{
    uint64_t epochs = saved->steps / saved->epoch_steps;
    uint64_t rest = saved->steps % saved->epoch_steps;
    uint64_t workers = (uint64_t)job->config.workers;

    /* Where workers come and go, steps are those of the most that there may be. */
    if ((saved->workers == workers || job->config.views != NULL) &&
        saved->epoch_steps == job->epoch_steps)
        return saved->steps;
    rest = rest * saved->workers / workers;
    return epochs * job->epoch_steps +
           (rest < job->epoch_steps ? rest : job->epoch_steps);
}

/* The tensors of the file must be those of the model, one by one. */
static gw_status check_tensors(const gwt_sections *in, const gwt_worker *w)
{
    const gwt_section *section = gwt_sections_find(in, GWT_KIND_TENSORS, 0);
    size_t count, len;
    const gw_tensor *tensors = gwt_model_tensors(w->model, &count);
    char *own, *saved;
    int same;

    len = gwt_tensors_write(tensors, count, NULL, 0);
    own = gwt_calloc(2 * (len + 1), 1, "the names of tensors");
    if (own == NULL)
        return GW_ERR_NOMEM;
    saved = own + len + 1;
    (void)gwt_tensors_write(tensors, count, own, len + 1);
    same = section->len == len &&
           gwt_sections_read(in, section, 0, saved, len) == GW_OK &&
           memcmp(own, saved, len) == 0;
    gwt_free(own);
    if (same)
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "%s belongs to another model: its tensors differ from those of %s",
                   in->from.name, w->job->config.model);
}

static gw_status check_fits(const gwt_sections *in, const gwt_checkpoint_job *job,
                            const gwt_worker *w)
{
    size_t stats, carry;

    GWT_TRY(check_tensors(in, w));
    (void)gwt_model_stats(w->model, &stats);
    (void)gwt_model_carry(w->model, &carry);
    if (job->floats != gwt_model_floats(w->model) || job->stats != stats ||
        job->carry != carry || job->slots != w->job->optimizer->slots)
        return gw_fail(GW_ERR_ARG, "%s belongs to another model or optimizer",
                       in->from.name);
    for (uint64_t r = 0; r < job->workers; r++)
        GWT_TRY(check_section(in, GWT_KIND_SYNC, r, gw_sync_state_len(w->sync)));
    return GW_OK;
}

/* ---- handing out ----------------------------------------------------------------- */

typedef struct loader {
    gwt_worker *w;
    gwt_sections in; /* rank 0 only */
    gwt_checkpoint_job job;
    uint8_t *piece, *other; /* GWT_PIECE bytes each */
    int rank, workers;
    int same; /* as many workers as there were */
} loader;

/* Reads a piece of a section, on rank 0. */
static gw_status read_piece(loader *l, uint32_t kind, uint64_t worker, size_t at,
                            void *to, size_t len)
{
    if (l->rank != 0)
        return GW_OK;
    return gwt_sections_read(&l->in, gwt_sections_find(&l->in, kind, (uint32_t)worker),
                             at, to, len);
}

/* Sends a piece of an old worker's section to the worker of the same rank. */
static gw_status to_one(loader *l, uint32_t kind, int worker, size_t at, void *to,
                        size_t len)
{
    GWT_TRY(read_piece(l, kind, (uint64_t)worker, at, l->piece, len));
    return gw_transfer(l->w->comm, 0, l->piece, worker, to, len);
}

static gw_status to_all(loader *l, uint32_t kind, uint64_t worker, size_t at, void *to,
                        size_t len)
{
    GWT_TRY(read_piece(l, kind, worker, at, to, len));
    return gw_broadcast(l->w->comm, to, len, 0);
}

/* Averages a piece over all old workers, in the order of their ranks, and sends it to
 * all. */
static gw_status average_to_all(loader *l, uint32_t kind, size_t at, float *to,
                                size_t len)
{
    size_t n = len / sizeof *to;
    const float *add = (const float *)(void *)l->other;

    GWT_TRY(read_piece(l, kind, 0, at, to, len));
    for (uint64_t r = 1; l->rank == 0 && r < l->job.workers; r++) {
        GWT_TRY(read_piece(l, kind, r, at, l->other, len));
        for (size_t i = 0; i < n; i++)
            to[i] += add[i];
    }
    for (size_t i = 0; l->rank == 0 && i < n; i++)
        to[i] /= (float)l->job.workers;
    return gw_broadcast(l->w->comm, to, len, 0);
}

/* Restores a vector of n floats of which the file has `copies`. */
static gw_status load_vector(loader *l, uint32_t kind, uint64_t copies, float *x,
                             size_t n)
{
    const size_t most = GWT_PIECE / sizeof *x;

    for (size_t i = 0; i < n; i += most) {
        size_t at = i * sizeof *x, len = (n - i < most ? n - i : most) * sizeof *x;
        if (copies == 1)
            GWT_TRY(to_all(l, kind, 0, at, x + i, len));
        else if (!l->same)
            GWT_TRY(average_to_all(l, kind, at, x + i, len));
        for (int r = 0; copies > 1 && l->same && r < l->workers; r++)
            GWT_TRY(to_one(l, kind, r, at, x + i, len));
    }
    return GW_OK;
}

static gw_status load_kept(loader *l)
{
    size_t kept, stats;
    float *x = gwt_model_kept(l->w->model, &kept);

    (void)gwt_model_stats(l->w->model, &stats);
    GWT_TRY(load_vector(l, GWT_KIND_KEPT, l->job.workers, x, l->same ? kept : stats));
    if (!l->same)
        memset(x + stats, 0, (kept - stats) * sizeof *x);
    return GW_OK;
}

static gw_status load_sync_parts(loader *l, uint8_t *state, size_t len)
{
    gw_sync *sync = l->w->sync;
    size_t count = (size_t)l->job.workers;

    for (size_t at = 0; l->same && at < len; at += GWT_PIECE) {
        size_t n = len - at < GWT_PIECE ? len - at : GWT_PIECE;
        for (int r = 0; r < l->workers; r++)
            GWT_TRY(to_one(l, GWT_KIND_SYNC, r, at, state + at, n));
    }
    if (l->same)
        return gw_sync_load_one(sync, state, len, (size_t)l->rank, count);
    for (size_t r = 0; r < count; r++) {
        for (size_t at = 0; at < len; at += GWT_PIECE) {
            size_t n = len - at < GWT_PIECE ? len - at : GWT_PIECE;
            GWT_TRY(to_all(l, GWT_KIND_SYNC, r, at, state + at, n));
        }
        GWT_TRY(gw_sync_load_one(sync, state, len, r, count));
    }
    return GW_OK;
}

static gw_status load_sync(loader *l)
{
    size_t len = gw_sync_state_len(l->w->sync);
    uint8_t *state = gwt_calloc(len, 1, "the state of the sync");
    gw_status st = state != NULL ? load_sync_parts(l, state, len) : GW_ERR_NOMEM;

    gwt_free(state);
    return st;
}

static void add_mean(gwt_mean *to, const gwt_mean *add)
{
    to->sum += add->sum;
    to->count += add->count;
}

/* Sends the words of an old worker to all. Words that the file lacks come from w. */
static gw_status words_to_all(loader *l, uint64_t worker, const gwt_worker *w,
                              uint64_t word[GWT_WORKER_WORDS])
{
    uint8_t bytes[8 * GWT_WORKER_WORDS];

    gwt_worker_to_words(w, word);
    for (int i = 0; i < GWT_WORKER_WORDS; i++)
        gwt_put_word(bytes + 8 * i, word[i]);
    if (l->rank == 0) {
        const gwt_section *s =
            gwt_sections_find(&l->in, GWT_KIND_WORKER, (uint32_t)worker);
        GWT_TRY(gwt_sections_read(&l->in, s, 0, bytes, (size_t)s->len));
    }
    GWT_TRY(gw_broadcast(l->w->comm, bytes, sizeof bytes, 0));
    for (int i = 0; i < GWT_WORKER_WORDS; i++)
        word[i] = gwt_get_word(bytes + 8 * i);
    return GW_OK;
}

/* Restores the worker's counters. If the number of workers changed, everybody takes
 * those of worker 0, and each sum goes to one worker only. */
static gw_status load_words(loader *l)
{
    uint64_t word[GWT_WORKER_WORDS];
    gwt_mean logged = {0}, epoch = {0};
    const gwt_worker fresh = *l->w;
    gwt_worker old = fresh;

    for (uint64_t r = 0; r < l->job.workers; r++) {
        GWT_TRY(words_to_all(l, r, &fresh, word));
        gwt_worker_from_words(&old, word);
        if (r == (l->same ? (uint64_t)l->rank : 0))
            gwt_worker_from_words(l->w, word);
        if (r % (uint64_t)l->workers == (uint64_t)l->rank) {
            add_mean(&logged, &old.logged);
            add_mean(&epoch, &old.epoch);
        }
    }
    l->w->logged = logged;
    l->w->epoch = epoch;
    return GW_OK;
}

/* Steps in the units of this job. */
static void set_steps(loader *l)
{
    gwt_worker *w = l->w;
    int evaluated = w->evaluated_at == l->job.steps;

    w->so_far.steps = gwt_checkpoint_steps(&l->job, w->job);
    w->mark_step = w->so_far.steps;
    /* With another number of workers, the state differs from that in the file. */
    if (l->same)
        w->saved_at = w->so_far.steps;
    if (w->so_far.steps != l->job.steps)
        w->evaluated_at = evaluated ? w->so_far.steps : 0;
}

/* This checks every byte of the file, which may take long. */
static gw_status open_file(void *arg)
{
    loader *l = arg;

    return gwt_checkpoint_open(&l->in, l->w->job->resume, &l->job);
}

static gw_status load_job(loader *l)
{
    GWT_TRY(gwt_slow_work(l->w->comm, l->w->job->config.timeout, open_file, l));
    if (l->rank == 0)
        GWT_TRY(check_fits(&l->in, &l->job, l->w));
    /* All workers run on the same kind of machine, so the struct can be sent as it
     * is. */
    GWT_TRY(gw_broadcast(l->w->comm, &l->job, sizeof l->job, 0));
    l->same = l->job.workers == (uint64_t)l->workers;
    return GW_OK;
}

static gw_status load_all(loader *l)
{
    gwt_worker *w = l->w;
    size_t n = gwt_model_floats(w->model), slots = w->job->optimizer->slots;

    l->piece = gwt_calloc(2, GWT_PIECE, "pieces of a checkpoint");
    if (l->piece == NULL)
        return GW_ERR_NOMEM;
    l->other = l->piece + GWT_PIECE;
    GWT_TRY(load_job(l));
    GWT_TRY(load_words(l));
    GWT_TRY(
        load_vector(l, GWT_KIND_MODEL, l->job.models, gwt_model_params(w->model), n));
    GWT_TRY(load_vector(l, GWT_KIND_SLOTS, l->job.models, w->state, slots * n));
    GWT_TRY(load_kept(l));
    GWT_TRY(load_sync(l));
    set_steps(l);
    return GW_OK;
}

gw_status gwt_checkpoint_load(gwt_worker *w, uint64_t *metrics_len)
{
    loader l = {.w = w,
                .in.from.fd = -1,
                .rank = gw_comm_rank(w->comm),
                .workers = gw_comm_workers(w->comm)};
    gw_status st = load_all(&l);

    *metrics_len = l.job.metrics_len;
    gwt_sections_close(&l.in);
    gwt_free(l.piece);
    return st;
}
