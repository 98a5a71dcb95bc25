/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - writes checkpoints. Only rank 0 touches the disk. It receives the
 * parts of the others through the comm, one after another and in pieces, so that it
 * never holds more than a few pieces. Writing may take longer than the time limit of
 * the workers, so it is done by slow_work.h. */
#define _GNU_SOURCE
#include "run/checkpoint.h"
#include "run/slow_work.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Vectors are written as they lie in memory, and are little-endian in the file. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "checkpoints are written on little-endian machines only");

/* ---- one worker's numbers ------------------------------------------------------- */

/* Fields of 8 bytes, counts or doubles, in the order in which they are written. */
#define FIELD(name) offsetof(gwt_worker, name)
static const size_t fields[GWT_WORKER_WORDS] = {
    FIELD(applied),
    FIELD(evaluated_at),
    FIELD(so_far.skipped),
    FIELD(lr),
    FIELD(logged.sum),
    FIELD(logged.count),
    FIELD(epoch.sum),
    FIELD(epoch.count),
    FIELD(evaluation.loss),
    FIELD(evaluation.accuracy),
    FIELD(evaluation.workers_accuracy),
    FIELD(evaluation.drift),
    FIELD(evaluation.perplexity),
    FIELD(elapsed),
    FIELD(so_far.compute_s),
    FIELD(so_far.sync_s),
    FIELD(so_far.eval_s),
    FIELD(before.encode_seconds),
    FIELD(before.wait_seconds),
    FIELD(before.decode_seconds),
    FIELD(evaluation.workers_loss),
};

void gwt_worker_to_words(const gwt_worker *w, uint64_t word[GWT_WORKER_WORDS])
{
    for (size_t i = 0; i < GWT_WORKER_WORDS; i++)
        memcpy(&word[i], (const char *)w + fields[i], 8);
}

void gwt_worker_from_words(gwt_worker *w, const uint64_t word[GWT_WORKER_WORDS])
{
    for (size_t i = 0; i < GWT_WORKER_WORDS; i++)
        memcpy((char *)w + fields[i], &word[i], 8);
}

/* The words of w with the current time. */
static void words_now(const gwt_worker *w, uint64_t word[GWT_WORKER_WORDS])
{
    gwt_worker now = *w;
    gw_stats stats = gw_sync_stats(w->sync);

    now.elapsed = gwt_now() - w->began;
    now.before.encode_seconds += stats.encode_seconds;
    now.before.wait_seconds += stats.wait_seconds;
    now.before.decode_seconds += stats.decode_seconds;
    gwt_worker_to_words(&now, word);
}

/* ---- writing ------------------------------------------------------------------- */

/* How much may wait for the disk: a piece and many small sections, each with a header
 * and a checksum. */
enum { HELD_CAP = GWT_PIECE + (64 << 10), SECTION_EXTRA = 64 };

typedef struct saver {
    const gwt_worker *w;
    gwt_checkpoint_job job;
    size_t held;          /* bytes that wait for the disk, or a little more */
    gwt_sections_out out; /* rank 0 only, like the rest */
    uint8_t *piece, *room;
    size_t room_cap;
} saver;

static int writes(const saver *s)
{
    return gw_comm_rank(s->w->comm) == 0;
}

static gw_status slow_work(saver *s, gw_status (*work)(void *))
{
    return gwt_slow_work(s->w->comm, s->w->job->config.timeout, work, s);
}

static gw_status flush(void *arg)
{
    return gwt_newfile_flush(&((saver *)arg)->out.file);
}

/* Makes room for len more bytes. All workers count them in the same way, so they know
 * when rank 0 has to write. */
static gw_status reserve(saver *s, size_t len)
{
    if (s->held + len > HELD_CAP) {
        GWT_TRY(slow_work(s, flush));
        s->held = 0;
    }
    s->held += len;
    return GW_OK;
}

/* Writes len bytes, `mine` on worker `from`, as one section. */
static gw_status put_part(saver *s, uint32_t kind, int from, const void *mine,
                          size_t len)
{
    gw_comm *comm = s->w->comm;

    GWT_TRY(reserve(s, SECTION_EXTRA));
    if (writes(s))
        GWT_TRY(gwt_sections_begin(&s->out, kind, (uint32_t)from, len));
    for (size_t at = 0; at < len; at += GWT_PIECE) {
        size_t n = len - at < GWT_PIECE ? len - at : GWT_PIECE;
        GWT_TRY(reserve(s, n));
        GWT_TRY(gw_transfer(comm, from, (const char *)mine + at, 0, s->piece, n));
        if (writes(s))
            GWT_TRY(gwt_sections_add(&s->out, s->piece, n));
    }
    return writes(s) ? gwt_sections_end(&s->out) : GW_OK;
}

static gw_status put_words(saver *s)
{
    uint64_t word[GWT_WORKER_WORDS];
    uint8_t bytes[8 * GWT_WORKER_WORDS];

    words_now(s->w, word);
    for (int i = 0; i < GWT_WORKER_WORDS; i++)
        gwt_put_word(bytes + 8 * i, word[i]);
    for (int r = 0; r < gw_comm_workers(s->w->comm); r++)
        GWT_TRY(put_part(s, GWT_KIND_WORKER, r, bytes, sizeof bytes));
    return GW_OK;
}

/* Writes parameters and the optimizer's vectors, only once if all workers have the
 * same. */
static gw_status put_models(saver *s)
{
    const gwt_worker *w = s->w;
    const gwt_checkpoint_job *job = &s->job;
    size_t len = (size_t)job->floats * sizeof(float);

    for (int r = 0; r < (int)job->models; r++)
        GWT_TRY(put_part(s, GWT_KIND_MODEL, r, gwt_model_params(w->model), len));
    for (int r = 0; r < (int)job->models; r++)
        GWT_TRY(put_part(s, GWT_KIND_SLOTS, r, w->state, (size_t)job->slots * len));
    return GW_OK;
}

static gw_status put_kept(saver *s)
{
    size_t floats;
    const float *kept = gwt_model_kept(s->w->model, &floats);

    for (int r = 0; r < gw_comm_workers(s->w->comm); r++)
        GWT_TRY(put_part(s, GWT_KIND_KEPT, r, kept, floats * sizeof *kept));
    return GW_OK;
}

static gw_status put_sync(saver *s)
{
    size_t len = gw_sync_state_len(s->w->sync);
    uint8_t *state = gwt_calloc(len, 1, "the state of the sync");
    gw_status st = state != NULL ? gw_sync_save(s->w->sync, state, len) : GW_ERR_NOMEM;

    for (int r = 0; st == GW_OK && r < gw_comm_workers(s->w->comm); r++)
        st = put_part(s, GWT_KIND_SYNC, r, state, len);
    gwt_free(state);
    return st;
}

/* Writes the log to the disk first, so that an existing checkpoint always has its
 * lines. */
static gw_status log_len(const gwt_worker *w, uint64_t *len)
{
    long at;

    *len = 0;
    if (w->metrics == NULL)
        return GW_OK;
    at = ftell(w->metrics);
    if (at < 0 || fdatasync(fileno(w->metrics)) != 0)
        return gw_fail(GW_ERR_SYSTEM, "cannot write %s/metrics.jsonl",
                       w->job->directory);
    *len = (uint64_t)at;
    return GW_OK;
}

static gwt_checkpoint_job job_of(const gwt_worker *w)
{
    gwt_checkpoint_job job = {.steps = w->so_far.steps,
                              .epoch_steps = w->job->epoch_steps,
                              .workers = (uint64_t)gw_comm_workers(w->comm),
                              .models = 1,
                              .floats = gwt_model_floats(w->model),
                              .slots = w->job->optimizer->slots};
    size_t floats;

    (void)gwt_model_stats(w->model, &floats);
    job.stats = floats;
    (void)gwt_model_carry(w->model, &floats);
    job.carry = floats;
    if (!gw_sync_keeps_equal(w->sync))
        job.models = job.workers;
    return job;
}

static gw_status put_tensors(saver *s)
{
    size_t count, len;
    const gw_tensor *tensors = gwt_model_tensors(s->w->model, &count);
    char *text;
    gw_status st;

    len = gwt_tensors_write(tensors, count, NULL, 0);
    text = gwt_calloc(len + 1, 1, "the names of tensors");
    if (text == NULL)
        return GW_ERR_NOMEM;
    (void)gwt_tensors_write(tensors, count, text, len + 1);
    st = gwt_sections_put(&s->out, GWT_KIND_TENSORS, 0, text, len);
    gwt_free(text);
    return st;
}

/* The windows of convolutions, with which weights get the shapes of PyTorch. */
static gw_status put_windows(saver *s)
{
    size_t count, len = 0;
    const size_t *windows = gwt_model_windows(s->w->model);
    const size_t line = 24; /* at most, with the end of a line */
    gw_status st;

    (void)gwt_model_tensors(s->w->model, &count);
    char *text = gwt_calloc(count, line, "windows");
    if (text == NULL)
        return GW_ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        len += (size_t)snprintf(text + len, line, "%zu\n", windows[i]);
    st = gwt_sections_put(&s->out, GWT_KIND_WINDOWS, 0, text, len);
    gwt_free(text);
    return st;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The buffers are never larger than the checkpoint. */
static gw_status make_buffers(saver *s)
{
    const gwt_checkpoint_job *job = &s->job;
    size_t models = 4 * (size_t)job->floats * (size_t)(1 + job->slots);
    size_t own = 4 * (size_t)(job->stats + job->carry) + 8 * GWT_WORKER_WORDS +
                 gw_sync_state_len(s->w->sync);
    size_t parts = (size_t)(2 * job->models + 3 * job->workers);
    size_t all = (size_t)job->models * models + (size_t)job->workers * own +
                 parts * SECTION_EXTRA;

    s->piece = gwt_calloc(least(all, GWT_PIECE), 1, "a piece of a checkpoint");
    s->room_cap = least(all, HELD_CAP);
    s->room = gwt_calloc(s->room_cap, 1, "pieces of a checkpoint");
    return s->piece != NULL && s->room != NULL ? GW_OK : GW_ERR_NOMEM;
}

/* Writes the sections that need no other worker. */
static gw_status put_head(void *arg)
{
    saver *s = arg;
    char path[GWT_FILE_CAP], partial[GWT_FILE_CAP], text[GWT_SETTINGS_CAP];
    uint8_t bytes[8 * GWT_JOB_WORDS];
    uint64_t word[GWT_JOB_WORDS];

    GWT_TRY(make_buffers(s));
    GWT_TRY(log_len(s->w, &s->job.metrics_len));
    GWT_TRY(gwt_checkpoints_next(s->w->job, path, partial));
    GWT_TRY(gwt_sections_create(&s->out, path, partial));
    size_t len = gwt_settings_save(s->w->job, text);
    GWT_TRY(gwt_sections_put(&s->out, GWT_KIND_SETTINGS, 0, text, len));
    GWT_TRY(put_tensors(s));
    GWT_TRY(put_windows(s));
    memcpy(word, &s->job, sizeof word);
    for (size_t i = 0; i < GWT_JOB_WORDS; i++)
        gwt_put_word(bytes + 8 * i, word[i]);
    GWT_TRY(gwt_sections_put(&s->out, GWT_KIND_JOB, 0, bytes, sizeof bytes));
    /* The other workers do not know the length of these sections, so they are not held
     * back. */
    gwt_newfile_hold(&s->out.file, s->room, s->room_cap);
    return GW_OK;
}

static gw_status put_end(void *arg)
{
    saver *s = arg;

    GWT_TRY(gwt_writer_check(s->w->job));
    gw_status st = gwt_sections_commit(&s->out);
    /* A worker that was stopped since has no file any more if another one writes. */
    if (st != GW_OK)
        GWT_TRY(gwt_writer_check(s->w->job));
    else
        gwt_checkpoints_prune(s->w->job);
    return st;
}

static gw_status save_all(saver *s)
{
    s->job = job_of(s->w);
    GWT_TRY(slow_work(s, put_head));
    GWT_TRY(put_words(s));
    GWT_TRY(put_models(s));
    GWT_TRY(put_kept(s));
    GWT_TRY(put_sync(s));
    return slow_work(s, put_end);
}

gw_status gwt_checkpoint_save(const gwt_worker *w)
{
    saver s = {.w = w, .out.file.fd = -1};
    gw_status st = save_all(&s);

    if (st != GW_OK)
        gwt_sections_abandon(&s.out);
    gwt_free(s.piece);
    gwt_free(s.room);
    return st;
}
