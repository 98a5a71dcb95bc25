/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_lowrank.c - PowerSGD (Vogels et al. 2019): one step of power iteration from
 * the last result on gives matrices of rank R, the product of two thin ones.
 *
 *     M = residual + v of each matrix with 2 R (rows + cols) < rows cols
 *     Q = the last Q, made orthonormal; random where it has no columns yet
 *     P = mean of M Q;  made orthonormal
 *     Q = mean of M^T P;  v = P Q^T
 *
 * All other tensors are averaged whole, together with P. What stays in the residual:
 *
 *     error=mean   M - P Q^T, the difference to what all workers apply (PyTorch)
 *     error=own    M - P (M^T P)^T, what P does not express of the worker's own M
 *                  (the authors' code)
 *
 * Summed over the workers both are what was brought and not applied. Sums over workers
 * are all-reduces, so all have the same P and Q, bit for bit. */
#include <string.h>

#include "kernels/matrix/lowrank.h"
#include "kernels/random.h"
#include "kernels/vector.h"
#include "sync/measure.h"
#include "sync/notes.h"
#include "sync/path.h"
#include "sync/sync.h"

enum { ERROR_MEAN, ERROR_OWN };

typedef struct options {
    uint64_t rank;
    int error;
} options;

static const options *options_of(const gwi_spec *spec)
{
    return gwi_options_of(spec, GWI_EXCHANGE);
}

static const gwi_key keys[] = {
    {.name = "rank",
     .meaning = "of the matrices that are sent; others that would not shrink are whole",
     .range = "a count up to 1024 (0: off, all is sent whole)",
     .least = 0,
     .most = 1024,
     .at = offsetof(options, rank),
     .value = GWI_COUNT},
    {.name = "error",
     .meaning = "what stays: the difference to the mean, or to the own approximation",
     .fallback = "mean",
     .words = "mean|own",
     .at = offsetof(options, error),
     .value = GWI_WORD},
    {.name = NULL},
};

static bool lowrank_off(const gwi_spec *spec)
{
    return options_of(spec)->rank == 0;
}

/* ---- tensors and their factors ------------------------------------------------- */

/* One tensor, where it begins, and where its P (or the tensor itself, if it is sent
 * whole) and its Q begin in the buffers. */
typedef struct place {
    size_t tensor, at, first, second;
    gwi_lowrank_shape shape; /* rank 0: it is sent whole */
} place;

static size_t floats_of(const place *x)
{
    return x->shape.rows * x->shape.cols;
}

static size_t first_floats(const place *x)
{
    return x->shape.rank > 0 ? x->shape.rank * x->shape.rows : floats_of(x);
}

static size_t second_floats(const place *x)
{
    return x->shape.rank * x->shape.cols;
}

/* A matrix must shrink to less than half, as PyTorch has it. */
static size_t rank_for(const gwi_spec *spec, const gw_tensor *t)
{
    size_t rank = (size_t)options_of(spec)->rank;

    return 2 * rank * (t->rows + t->cols) < t->rows * t->cols ? rank : 0;
}

/* Moves on to the next tensor; false past the last. A walk begins with zeros and
 * `begun` false, and then has where the buffers end. */
typedef struct walk {
    place now;
    bool begun;
} walk;

static bool next(const gwi_spec *spec, const gw_layout *layout, walk *w)
{
    place *x = &w->now;

    if (w->begun) {
        x->tensor++;
        x->at += floats_of(x);
        x->first += first_floats(x);
        x->second += second_floats(x);
    }
    w->begun = true;
    if (x->tensor == layout->count)
        return false;
    const gw_tensor *t = &layout->tensors[x->tensor];
    x->shape = (gwi_lowrank_shape){t->rows, t->cols, rank_for(spec, t)};
    return true;
}

/* Where the buffers end. */
static place ends(const gwi_spec *spec, const gw_layout *layout)
{
    walk w = {.begun = false};

    while (next(spec, layout, &w)) {
    }
    return w.now;
}

static size_t factor_floats(const gwi_spec *spec, const gw_layout *layout)
{
    return ends(spec, layout).second;
}

/* ---- the part ---------------------------------------------------------------------
 */

typedef struct lowrank {
    float *first, *second; /* what is summed: P and whole tensors; then Q */
    size_t first_len, second_len;
} lowrank;

static gw_status lowrank_init(gw_sync *s)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    place end = ends(&s->spec, s->layout);

    x->first_len = end.first;
    x->second_len = end.second;
    x->first = gwi_calloc(end.first + end.second, sizeof *x->first);
    if (x->first == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for factors of %zu floats",
                       end.first + end.second);
    x->second = x->first + end.first;
    return GW_OK;
}

static void lowrank_fini(gw_sync *s)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);

    gwi_free(x->first);
}

/* Makes the last factors orthonormal; the random bits are those of the step and the
 * tensor, the same on all workers. */
static void prepare(gw_sync *s)
{
    uint64_t common = gwi_common_key(s, 0);
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        uint64_t key = gwi_random64(common, w.now.tensor);
        if (w.now.shape.rank > 0)
            gwi_orthonormalize(s->kept[GWI_FACTOR] + w.now.second, w.now.shape.cols,
                               w.now.shape.rank, &key);
    }
}

/* The first buffer: M Q of each matrix, and whole tensors. */
static void fill_first(gw_sync *s, const float *m)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        const place *t = &w.now;
        if (t->shape.rank > 0)
            gwi_project(m + t->at, s->kept[GWI_FACTOR] + t->second, x->first + t->first,
                        t->shape);
        else
            memcpy(x->first + t->first, m + t->at, floats_of(t) * sizeof *m);
    }
}

/* The second: M^T P of each matrix. */
static void fill_second(gw_sync *s, const float *m)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        const place *t = &w.now;
        if (t->shape.rank == 0)
            continue;
        gwi_orthonormalize(x->first + t->first, t->shape.rows, t->shape.rank, NULL);
        gwi_project_back(m + t->at, x->first + t->first, x->second + t->second,
                         t->shape);
    }
}

/* v = P Q^T of each matrix, and is taken out of m unless m is NULL. */
static void expand(gw_sync *s, float *v, float *m)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        const place *t = &w.now;
        if (t->shape.rank > 0)
            gwi_expand(x->first + t->first, x->second + t->second, v + t->at,
                       m != NULL ? m + t->at : NULL, t->shape);
    }
}

/* Whole tensors: v is their average, and nothing of them stays. */
static void give_whole(gw_sync *s, float *v)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    float *r = s->kept[GWI_RESIDUAL];
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        const place *t = &w.now;
        if (t->shape.rank > 0)
            continue;
        memcpy(v + t->at, x->first + t->first, floats_of(t) * sizeof *v);
        if (r != NULL)
            memset(r + t->at, 0, floats_of(t) * sizeof *r);
    }
}

/* ---- a step
 * --------------------------------------------------------------------------
 */

/* The tensor to which float i of a buffer belongs. */
static size_t tensor_at(const gw_sync *s, size_t i, bool second)
{
    walk w = {.begun = false};

    while (next(&s->spec, s->layout, &w)) {
        size_t begin = second ? w.now.second : w.now.first;
        size_t n = second ? second_floats(&w.now) : first_floats(&w.now);
        if (i < begin + n)
            break;
    }
    return w.now.at;
}

/* Averages a buffer. If the sum is no good, nobody can use what it was made of, and it
 * must not come back: residuals are cleared. */
static gw_status average(gw_sync *s, bool second, gwi_note *note)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    float *v = second ? x->second : x->first, *r = s->kept[GWI_RESIDUAL];
    size_t n = second ? x->second_len : x->first_len, at;

    GWI_TRY(gwi_allreduce(s->comm, v, n, (float)s->comm->workers,
                          gwi_looks(s) ? note : NULL));
    at = *note & UINT32_MAX;
    if ((*note & GWI_NOTE_SUM) != GWI_NOTE_SUM || at >= n)
        return GW_OK;
    *note = gwi_note_of_sum(s, tensor_at(s, at, second));
    if (r != NULL)
        memset(r, 0, s->layout->floats * sizeof *r);
    return GW_OK;
}

/* Brings what this worker has, zeros if its vector has a note. */
static void bring(gw_sync *s, float *v, bool good)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    float *r = s->kept[GWI_RESIDUAL];

    prepare(s);
    if (!good) {
        memset(x->first, 0, x->first_len * sizeof *x->first);
        return;
    }
    if (r != NULL)
        gwi_add(r, v, s->layout->floats);
    fill_first(s, r != NULL ? r : v);
}

static gw_status lowrank_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    lowrank *x = gwi_state(s, GWI_EXCHANGE);
    float *v = at->v, *r = s->kept[GWI_RESIDUAL], *m = r != NULL ? r : v;
    bool own = options_of(&s->spec)->error == ERROR_OWN;

    bring(s, v, *note == 0);
    gwi_decodes(s);
    GWI_TRY(average(s, false, note));
    if (*note != 0)
        return GW_OK;
    gwi_encodes(s);
    fill_second(s, m);
    if (own && r != NULL)
        expand(s, v, r);
    gwi_decodes(s);
    GWI_TRY(average(s, true, note));
    if (*note != 0)
        return GW_OK;
    expand(s, v, own ? NULL : r);
    give_whole(s, v);
    if (x->second_len > 0)
        memcpy(s->kept[GWI_FACTOR], x->second, x->second_len * sizeof *x->second);
    return GW_OK;
}

/* Two sums, one after the other. */
static gwi_path lowrank_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                             const gw_traffic *t)
{
    place end = ends(spec, layout);
    gwi_path a = gwi_path_of_sum((double)end.first, workers);
    gwi_path b = gwi_path_of_sum((double)end.second, workers);

    return gwi_path_repeated((gwi_path){a.rounds + b.rounds, a.bytes + b.bytes}, t);
}

static const gwi_remembered memories[] = {
    {.name = "factor",
     .what = "last factors",
     .tag = GWI_FACTOR,
     .handing = GW_HANDING_COMMON,
     .floats = factor_floats,
     .by_layout = true},
    {.name = NULL},
};

const gwi_exchange gwi_exchange_lowrank = {
    .part = {.name = "lowrank",
             .keys = keys,
             .check = gwi_check_uncoded,
             .off = lowrank_off,
             .state_size = sizeof(lowrank),
             .init = lowrank_init,
             .fini = lowrank_fini,
             .memories = memories},
    .run = lowrank_run,
    .path = lowrank_path,
    .lossy = true,
    .codes = true,
};

const gwi_stage gwi_stage_lowrank = {
    .name = "lowrank",
    .summary = "every matrix as the product of two thin ones (PowerSGD)",
    .example = "lowrank:4",
    .cost = "8 (P-1)/P bytes for each of rank (rows + cols) floats, and other tensors",
    .expect = "needs large matrices; takes time for products of the gradient",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_EXCHANGE] = &gwi_exchange_lowrank.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "rank error residual warmup delay lead",
};
