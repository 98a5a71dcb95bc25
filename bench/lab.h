/* SPDX-License-Identifier: Apache-2.0
 *
 * lab.h - vectors to measure on: gradients, a residual, room for what kernels
 * produce.
 *
 * Every step has a gradient of its own. They overlap in memory, so that many of
 * them take little more room than two: the gradient of a step is that of the step
 * before, one tile further on.
 *
 *     tiles   | 0 | 1 | 2 | 3 | 4 | 5 | ...
 *     step 0  | 0   1   2 |
 *     step 1      | 1   2   3 |
 *
 * A coordinate sees one tile after the other. Those of FNN-3 are its gradients for
 * successive batches, so it sees what that coordinate of the network sees. */
#ifndef GWB_LAB_H
#define GWB_LAB_H

#include "gradients.h"
#include "kernels/select.h"

typedef enum gwb_origin {
    GWB_MADE_UP,   /* gwc_heavy_gradient() */
    GWB_FNN3,      /* of FNN-3, vectors of one tile */
    GWB_FNN3_TILED /* of FNN-3, vectors of n floats */
} gwb_origin;

typedef struct gwb_lab {
    size_t n;
    char label[64];  /* "fnn3 gradients, tiled" */
    float *tiles;    /* n + steps * tile floats */
    size_t tile;     /* floats in a tile */
    unsigned steps;  /* after so many, gradients come again */
    float *r;        /* n: the residual */
    float *limit_r;  /* n: that of the code it is compared with */
    uint8_t *packed; /* 2 n bytes */
    float *norms;    /* n / 8 + 1 */
    float *scratch;  /* GWI_THRESHOLD_FLOATS(n) */
    gwi_list list;   /* of at most cap = n / 8 + 64 */
    gwi_topk_guess guess;
    gwi_topk_guess *guesses; /* of tiles of GWB_TILE floats */
    gwi_topk_work work;      /* for the density of gwb_lab_warm() */
    void *work_memory;       /* enough for any up to list.cap of n */
} gwb_lab;

/* Makes it; n is ignored for GWB_FNN3. Released with gwb_lab_free(). */
gw_status gwb_lab_new(gwb_lab **out, gwb_origin origin, size_t n);
void gwb_lab_free(gwb_lab *lab);

/* The gradient of a step: n floats. */
static inline const float *gwb_lab_gradient(const gwb_lab *lab, unsigned step)
{
    return lab->tiles + step % lab->steps * lab->tile;
}

/* How many of n a density chooses: at least 1. */
size_t gwb_chosen(size_t n, double density);

/* Empties the residual and goes through some steps of top-k selection: then the
 * residual and the threshold are as they are in the middle of a training. Returns
 * the number of steps, from which to go on with gwb_lab_topk(). */
unsigned gwb_lab_warm(gwb_lab *lab, double density, unsigned steps);

/* Residual add and top-k selection of that step into lab->list. */
void gwb_lab_topk(gwb_lab *lab, double density, unsigned step);

/* The same for tiles of GWB_TILE floats. */
enum { GWB_TILE = 4096 };
void gwb_lab_tiles(gwb_lab *lab, double density, unsigned step);
void gwb_lab_tiles_of(gwb_lab *lab, double density, const float *g);

#endif
