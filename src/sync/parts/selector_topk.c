/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_topk.c - the k entries of the largest magnitude; of those that tie, the ones
 * with the lowest indices. With tile=N the vector is cut into runs of N floats, and
 * each has its own share of the entries: no tensor can take them all, and a tile is
 * selected from while it is in the cache. */
#include "kernels/pool.h"
#include "kernels/select.h"
#include "sync/ramp.h"
#include "sync/selection.h"

typedef struct options {
    double density; /* part of the coordinates that is sent */
    uint64_t tile;  /* floats that it is a part of; 0: all */
} options;

static double topk_density(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_SELECTOR))->density;
}

/* The floats of a tile of n floats, at least 1. */
static size_t tile_of(const gwi_spec *spec, size_t n)
{
    uint64_t tile = ((const options *)gwi_options_of(spec, GWI_SELECTOR))->tile;

    return tile == 0 || tile > n ? n + (n == 0) : (size_t)tile;
}

static const gwi_key keys[] = {
    {.name = "density",
     .meaning = "part of the coordinates that is sent",
     .range = "above 0, at most 1 (1: all)",
     .least = 1e-9,
     .most = 1,
     .at = offsetof(options, density),
     .value = GWI_NUMBER},
    {.name = "tile",
     .meaning = "floats of a tile, in each of which entries are selected; 0: in all",
     .fallback = "0",
     .range = "a count of floats",
     .least = 0,
     .most = UINT32_MAX,
     .unsaid = true,
     .at = offsetof(options, tile),
     .value = GWI_COUNT},
    {.name = NULL},
};

static bool topk_off(const gwi_spec *spec)
{
    return topk_density(spec) == 1;
}

static size_t topk_most(const gwi_spec *spec, size_t n)
{
    size_t tile = tile_of(spec, n), rest = n % tile;
    double density = gwi_ramp_most(spec);

    return n / tile * gwi_entries(density, tile) +
           (rest > 0 ? gwi_entries(density, rest) : 0);
}

typedef struct topk {
    gwi_topk_guess *guesses; /* one for each tile */
    gwi_topk_work work;      /* for any of them */
    void *memory;
} topk;

/* What tiles there are, and what can be selected. */
typedef struct sizes {
    size_t tiles, longest, most;
} sizes;

static sizes sizes_of(const gw_sync *s)
{
    const gwi_transform *transform = gwi_transform_of(&s->spec);
    size_t n = s->layout->floats, tile = tile_of(&s->spec, n), floats;
    double density = gwi_ramp_most(&s->spec);
    gwi_tile_walk walk = {0};
    sizes found = {0};

    if (transform->next_tile == NULL)
        return (sizes){(n + tile - 1) / tile, tile, topk_most(&s->spec, n)};
    while ((floats = transform->next_tile(s, &walk)) > 0) {
        found.tiles++;
        found.longest = floats > found.longest ? floats : found.longest;
        found.most += gwi_entries(density, floats);
    }
    return found;
}

static gw_status topk_init(gw_sync *s)
{
    topk *x = gwi_state(s, GWI_SELECTOR);
    sizes have = sizes_of(s);
    size_t k = gwi_entries(gwi_ramp_most(&s->spec), have.longest);
    size_t guesses = have.tiles * sizeof *x->guesses;
    size_t work =
        (gwi_topk_work_bytes(have.longest, k, gwi_threads()) + 63) & ~(size_t)63;

    x->memory = gwi_calloc(1, guesses + work + have.most * 8);
    if (x->memory == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to select %zu of %zu",
                       have.most, s->layout->floats);
    x->guesses = x->memory;
    gwi_topk_work_init(&x->work, x->guesses + have.tiles, have.longest, k,
                       gwi_threads());
    s->list = gwi_list_in((uint8_t *)(x->guesses + have.tiles) + work, have.most);
    return GW_OK;
}

static void topk_fini(gw_sync *s)
{
    topk *x = gwi_state(s, GWI_SELECTOR);

    gwi_free(x->memory);
}

/* In each tile of the transform. */
static void run_in_tiles(gw_sync *s, float *r, const float *g)
{
    const gwi_transform *transform = gwi_transform_of(&s->spec);
    topk *x = gwi_state(s, GWI_SELECTOR);
    gwi_list *list = &s->list;
    gwi_topk_guess *guess = x->guesses;
    gwi_tile_walk walk = {0};
    size_t begin = 0, floats;

    list->n = 0;
    while ((floats = transform->next_tile(s, &walk)) > 0) {
        size_t found =
            gwi_select_topk(guess++, &x->work, r + begin, g != NULL ? g + begin : NULL,
                            floats, gwi_entries(s->now.density, floats),
                            list->index + list->n, list->value + list->n);
        for (size_t i = 0; i < found; i++)
            list->index[list->n + i] += (uint32_t)begin;
        list->n += found;
        begin += floats;
    }
}

static void topk_run(gw_sync *s, float *r, const float *g)
{
    topk *x = gwi_state(s, GWI_SELECTOR);
    size_t n = s->layout->floats, tile = tile_of(&s->spec, n);
    double density = s->now.density;
    gwi_tiles tiles = {x->guesses, &x->work, tile, gwi_entries(density, tile),
                       gwi_entries(density, n % tile)};

    if (gwi_transform_of(&s->spec)->next_tile != NULL) {
        run_in_tiles(s, r, g);
        return;
    }
    if (tile >= n)
        tiles.k = gwi_wanted(s);
    s->list.n = gwi_select_tiles(&tiles, r, g, n, s->list.index, s->list.value);
}

static void topk_run_pieces(gw_sync *s, float *r, const gw_piece *pieces, size_t count)
{
    topk *x = gwi_state(s, GWI_SELECTOR);
    gwi_list *list = &s->list;

    list->n =
        gwi_select_topk_of(x->guesses, &x->work, r, pieces, count, s->layout->floats,
                           gwi_wanted(s), list->index, list->value);
}

static bool topk_largest(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_SELECTOR))->tile == 0;
}

const gwi_selector gwi_selector_topk = {
    .part = {.name = "topk",
             .keys = keys,
             .off = topk_off,
             .state_size = sizeof(topk),
             .init = topk_init,
             .fini = topk_fini},
    .density = topk_density,
    .most = topk_most,
    .run = topk_run,
    .run_pieces = topk_run_pieces,
    .largest = topk_largest,
    .shows_bad = true,
};

const gwi_stage gwi_stage_topk = {
    .name = "topk",
    .summary = "the largest entries of each gradient, gathered; the rest stays behind",
    .example = "topk:0.001",
    .cost = "at most density n entries, to each of the P-1 others",
    .expect =
        "bytes grow with the number of workers; with many of them gtopk sends less",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .parts = {[GWI_SELECTOR] = &gwi_selector_topk.part,
              [GWI_EXCHANGE] = &gwi_exchange_gather.part,
              [GWI_MEMORY] = &gwi_memory_residual.part},
    .keys = "density residual warmup ladder dense_below tile decay combine via "
            "delay lead",
};
