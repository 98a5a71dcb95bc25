/* SPDX-License-Identifier: Apache-2.0
 *
 * select_tiles.c - the largest entries of each tile of a vector. */
#include "kernels/select.h"

static size_t lesser(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t gwi_select_tiles(const gwi_tiles *t, float *r, const float *g, size_t n,
                        uint32_t *index, float *value)
{
    size_t all = 0;

    for (size_t begin = 0, tile = 0; begin < n; begin += t->floats, tile++) {
        size_t floats = lesser(n - begin, t->floats);
        size_t found = gwi_select_topk(
            &t->guesses[tile], t->work, r + begin, g != NULL ? g + begin : NULL, floats,
            floats == t->floats ? t->k : t->last_k, index + all, value + all);
        for (size_t i = 0; i < found; i++)
            index[all + i] += (uint32_t)begin;
        all += found;
    }
    return all;
}
