/* SPDX-License-Identifier: Apache-2.0
 *
 * transform_dct.c - the cosine transform of tiles, as in DeMo (Peng et al. 2024): what
 * is smooth within a tile of a matrix goes into few coefficients.
 *
 *     tensor of rows x cols     coefficients, in the place of the tensor
 *     +------+------+---+
 *     |  0   |  1   | 2 |       | 0 | 1 | 2 | 3 | 4 | 5 |
 *     +------+------+---+
 *     |  3   |  4   | 5 |       Those of a tile are next to each other, and so are
 * those
 *     +------+------+---+       of a strip, which is a row of tiles.
 *
 * Sides of tiles are the largest divisor of the tensor's dimension up to `chunk`, as in
 * DeMo, where that is more than half of it. Otherwise, for a prime dimension, say,
 * tiles of sides that differ by one take its place; in DeMo they would have a side
 * of 1.
 *
 * The residual is kept in coefficients, too: what was sent leaves it by being set to 0.
 * So there is one transform of each gradient and one of each result. */
#include "kernels/matrix/dct.h"

#include <string.h>

#include "kernels/vector.h"
#include "sync/sync.h"

typedef struct options {
    uint64_t chunk; /* most rows and columns of a tile */
} options;

static size_t chunk_of(const gwi_spec *spec)
{
    return (size_t)((const options *)gwi_options_of(spec, GWI_TRANSFORM))->chunk;
}

static const gwi_key keys[] = {
    {.name = "chunk",
     .meaning = "rows and columns of a tile, at most",
     .fallback = "64",
     .range = "from 2 to 64",
     .least = 2,
     .most = GWI_DCT_MOST,
     .at = offsetof(options, chunk),
     .value = GWI_COUNT},
    {.name = NULL},
};

static bool dct_off(const gwi_spec *spec)
{
    return !gwi_leaves_out(spec);
}

/* ---- tiles ----------------------------------------------------------------------- */

/* How a tensor is cut. */
typedef struct cuts {
    gwi_dct_cut down, across;
} cuts;

static cuts cuts_of(const gwi_spec *spec, const gw_tensor *t)
{
    size_t chunk = chunk_of(spec);

    return (cuts){gwi_dct_cut_of(t->rows, chunk), gwi_dct_cut_of(t->cols, chunk)};
}

static size_t dct_next_tile(const gw_sync *s, gwi_tile_walk *at)
{
    if (at->tensor == s->layout->count)
        return 0;
    if (at->down == 0) {
        cuts c = cuts_of(&s->spec, &s->layout->tensors[at->tensor]);
        at->down = c.down.count;
        at->across = c.across.count;
    }
    const gw_tensor *t = &s->layout->tensors[at->tensor];
    gwi_dct_cut down = {t->rows, at->down}, across = {t->cols, at->across};
    size_t floats = gwi_dct_run(&down, at->row) * gwi_dct_run(&across, at->col);
    if (++at->col == at->across) {
        at->col = 0;
        at->row++;
    }
    if (at->row == at->down)
        *at = (gwi_tile_walk){.tensor = at->tensor + 1};
    return floats;
}

/* ---- making ---------------------------------------------------------------------- */

typedef struct dct {
    gwi_dct_plan
        plans[GWI_DCT_MOST + 1]; /* by length; those that no tile has are empty */
    float *strip;                /* room for the longest */
    void *memory;
} dct;

/* Marks the lengths that a dimension is cut into, two at most. */
static void mark(bool *used, const gwi_dct_cut *cut)
{
    size_t least = cut->floats / cut->count;

    used[least] = true;
    used[least + (cut->floats % cut->count > 0)] = true;
}

/* Which lengths there are, and the floats of the longest strip. */
static size_t look_at_tensors(const gw_sync *s, bool *used)
{
    size_t longest = 0;

    for (size_t i = 0; i < s->layout->count; i++) {
        const gw_tensor *t = &s->layout->tensors[i];
        cuts c = cuts_of(&s->spec, t);
        size_t rows = (t->rows + c.down.count - 1) / c.down.count;
        mark(used, &c.down);
        mark(used, &c.across);
        longest = rows * t->cols > longest ? rows * t->cols : longest;
    }
    return longest;
}

static gw_status dct_init(gw_sync *s)
{
    dct *x = gwi_state(s, GWI_TRANSFORM);
    bool used[GWI_DCT_MOST + 1] = {false};
    size_t strip = look_at_tensors(s, used), floats = strip;

    for (size_t n = 1; n <= GWI_DCT_MOST; n++)
        floats += used[n] ? gwi_dct_floats(n) : 0;
    x->memory = gwi_calloc(floats, sizeof(float));
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to transform tiles");
    x->strip = x->memory;
    float *at = x->strip + strip;
    for (size_t n = 1; n <= GWI_DCT_MOST; n++)
        if (used[n]) {
            gwi_dct_init(&x->plans[n], n, at);
            at += gwi_dct_floats(n);
        }
    return GW_OK;
}

static void dct_fini(gw_sync *s)
{
    dct *x = gwi_state(s, GWI_TRANSFORM);

    gwi_free(x->memory);
}

/* ---- there and back ---------------------------------------------------------------
 */

typedef void strip_run(const gwi_dct_strip *strip, const float *from, float *to);

static void run_tensor(gw_sync *s, const gw_tensor *t, float *v, strip_run *run)
{
    dct *x = gwi_state(s, GWI_TRANSFORM);
    cuts c = cuts_of(&s->spec, t);

    for (size_t i = 0; i < c.down.count; i++) {
        gwi_dct_strip strip = {x->plans, gwi_dct_run(&c.down, i), c.across};
        float *at = v + gwi_dct_begin(&c.down, i) * t->cols;
        memcpy(x->strip, at, strip.rows * t->cols * sizeof *at);
        run(&strip, x->strip, at);
    }
}

static void run_all(gw_sync *s, float *v, strip_run *run)
{
    for (size_t i = 0; i < s->layout->count; i++)
        run_tensor(s, &s->layout->tensors[i], v + s->layout->tensors[i].offset, run);
}

static void dct_forward(gw_sync *s, float *v)
{
    run_all(s, v, gwi_dct_forward);
}

static void dct_back(gw_sync *s, float *v)
{
    run_all(s, v, gwi_dct_back);
}

const gwi_transform gwi_transform_dct = {
    .part = {.name = "dct",
             .keys = keys,
             .options_size = sizeof(options),
             .off = dct_off,
             .state_size = sizeof(dct),
             .init = dct_init,
             .fini = dct_fini},
    .forward = dct_forward,
    .back = dct_back,
    .next_tile = dct_next_tile,
};

const gwi_stage gwi_stage_demo = {
    .name = "demo",
    .summary = "the largest cosines of each tile of a momentum; steps on signs",
    .example = "demo",
    .cost = "at most density n entries, to each of the P-1 others",
    .expect = "results are signs: for plain SGD, with a rate that is a step's length",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_TRANSFORM] = &gwi_transform_dct.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part,
              [GWI_OUTER] = &gwi_outer_sign.part},
    .keys = "density decay chunk update combine residual dense_below delay lead",
    .but = {{"density", "0.0078125"}, {"decay", "0.999"}, {"combine", "senders"}},
};

const gwi_stage gwi_stage_distro = {
    .name = "distro",
    .summary = "demo with one bit of each value",
    .example = "distro",
    .cost = "1 bit of each of density n values, to each of the P-1 others",
    .expect = "results are signs: for plain SGD, with a rate that is a step's length",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_TRANSFORM] = &gwi_transform_dct.part,
              [GWI_CODER] = &gwi_coder_1bit.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part,
              [GWI_OUTER] = &gwi_outer_sign.part},
    .keys = "density decay chunk update combine residual dense_below delay lead",
    .but = {{"density", "0.001953125"}, {"decay", "0.999"}, {"combine", "senders"}},
};
