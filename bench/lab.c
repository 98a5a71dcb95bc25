/* SPDX-License-Identifier: Apache-2.0
 *
 * lab.c - makes the vectors that kernels are measured on. */
#include "lab.h"
#include "plan/heavy_gradient.h"

#include <stdio.h>
#include <string.h>

enum { NET_BATCH = 64 };

static gw_status no_memory(size_t n)
{
    return gw_fail(GW_ERR_NOMEM, "no memory to measure with n = %zu; try a smaller --n",
                   n);
}

/* At least so many gradients are different, and at most so many. */
enum { STEPS_MIN = 8, STEPS_MAX = 128 };

/* A cache line of floats: tiles are a multiple, or loads from gradients would
 * straddle two, which those of a trainer do not. */
enum { LINE_FLOATS = 16 };

/* Sets the sizes for vectors of n floats whose tiles have at least so many. */
static void plan(gwb_lab *lab, size_t n, size_t tile)
{
    size_t steps;

    lab->n = n;
    lab->tile = (tile + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    steps = n / lab->tile;
    steps = steps < STEPS_MIN ? STEPS_MIN : steps;
    lab->steps = (unsigned)(steps > STEPS_MAX ? STEPS_MAX : steps);
}

/* All vectors of floats in one piece of memory. */
static gw_status allocate(gwb_lab *lab)
{
    size_t n = lab->n, cap = n / 8 + 64, buckets = n / 8 + 1;
    size_t tiles = n + lab->steps * lab->tile;
    size_t floats = tiles + 2 * n + n / 2 + 1 + buckets + GWI_THRESHOLD_FLOATS(n) + cap;
    size_t work = gwi_topk_work_bytes(n, cap < n ? cap : n, gwi_threads());

    lab->tiles = gwi_calloc(floats, sizeof *lab->tiles);
    lab->list.index = gwi_calloc(cap, sizeof *lab->list.index);
    lab->work_memory = gwi_calloc(work, 1);
    lab->guesses = gwi_calloc(n / GWB_TILE + 1, sizeof *lab->guesses);
    if (lab->tiles == NULL || lab->list.index == NULL || lab->work_memory == NULL ||
        lab->guesses == NULL)
        return no_memory(n);
    lab->r = lab->tiles + tiles;
    lab->limit_r = lab->r + n;
    lab->packed = (uint8_t *)(lab->limit_r + n);
    lab->norms = lab->limit_r + n + n / 2 + 1;
    lab->scratch = lab->norms + buckets;
    lab->list.value = lab->scratch + GWI_THRESHOLD_FLOATS(n);
    lab->list.cap = cap;
    return GW_OK;
}

static gw_status make_up(gwb_lab *lab, size_t n)
{
    plan(lab, n, GWC_HEAVY_PERIOD);
    snprintf(lab->label, sizeof lab->label, "made-up gradients");
    GWI_TRY(allocate(lab));
    gwc_heavy_gradient(lab->tiles, n + lab->steps * lab->tile);
    return GW_OK;
}

/* Which data the network sees is said where it is not the usual one. */
static gw_status train(gwb_lab *lab, gwb_origin origin, size_t n, gwb_net *net)
{
    size_t floats = gwt_model_floats(gwb_net_model(net));
    const char *data = gwb_net_data(net);

    plan(lab, origin == GWB_FNN3 ? floats : n, floats);
    snprintf(lab->label, sizeof lab->label, "fnn3 gradients%s%s",
             origin == GWB_FNN3_TILED ? ", tiled" : "",
             strcmp(data, "synthetic") == 0 ? ", made-up data" : "");
    GWI_TRY(allocate(lab));
    return gwb_net_fill(net, lab->tiles, lab->n + lab->steps * lab->tile, lab->tile);
}

gw_status gwb_lab_new(gwb_lab **out, gwb_origin origin, size_t n)
{
    gwb_lab *lab = gwi_calloc(1, sizeof *lab);
    gwb_net *net = NULL;
    gw_status st;

    *out = NULL;
    if (lab == NULL)
        return no_memory(n);
    if (origin == GWB_MADE_UP)
        st = make_up(lab, n);
    else if ((st = gwb_net_new(&net, NET_BATCH)) == GW_OK)
        st = train(lab, origin, n, net);
    gwb_net_free(net);
    if (st != GW_OK) {
        gwb_lab_free(lab);
        return st;
    }
    *out = lab;
    return GW_OK;
}

void gwb_lab_free(gwb_lab *lab)
{
    if (lab == NULL)
        return;
    gwi_free(lab->tiles);
    gwi_free(lab->list.index);
    gwi_free(lab->work_memory);
    gwi_free(lab->guesses);
    gwi_free(lab);
}

size_t gwb_chosen(size_t n, double density)
{
    size_t k = (size_t)((double)n * density + 0.5);

    return k > 0 ? k : 1;
}

unsigned gwb_lab_warm(gwb_lab *lab, double density, unsigned steps)
{
    memset(lab->r, 0, lab->n * sizeof *lab->r);
    memset(&lab->guess, 0, sizeof lab->guess);
    gwi_topk_work_init(&lab->work, lab->work_memory, lab->n,
                       gwb_chosen(lab->n, density), gwi_threads());
    for (unsigned i = 0; i < steps; i++)
        gwb_lab_topk(lab, density, i);
    return steps;
}

void gwb_lab_topk(gwb_lab *lab, double density, unsigned step)
{
    lab->list.n = gwi_select_topk(
        &lab->guess, &lab->work, lab->r, gwb_lab_gradient(lab, step), lab->n,
        gwb_chosen(lab->n, density), lab->list.index, lab->list.value);
}

void gwb_lab_tiles_of(gwb_lab *lab, double density, const float *g)
{
    gwi_tiles tiles = {lab->guesses, &lab->work, GWB_TILE,
                       gwb_chosen(GWB_TILE, density),
                       gwb_chosen(lab->n % GWB_TILE, density)};

    lab->list.n =
        gwi_select_tiles(&tiles, lab->r, g, lab->n, lab->list.index, lab->list.value);
}

void gwb_lab_tiles(gwb_lab *lab, double density, unsigned step)
{
    gwb_lab_tiles_of(lab, density, gwb_lab_gradient(lab, step));
}
