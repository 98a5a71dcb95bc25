/* SPDX-License-Identifier: Apache-2.0
 *
 * all_same.c - finds out whether all workers have the same number, in twice log2 P
 * rounds: all workers learn the least number, and then the greatest. */
#include "collective/collective.h"

gw_status gwi_all_same(gw_comm *c, uint64_t word, bool *same)
{
    /* A note of 0 says nothing, so the lowest bit is given up. */
    gwi_note least = word | 1, greatest = ~(word | 1) | 1;
    float nothing = 0;

    *same = true;
    if (c->workers == 1)
        return GW_OK;
    GWI_TRY(gwi_allreduce_doubling(c, &nothing, 0, 1.0f, &least));
    GWI_TRY(gwi_allreduce_doubling(c, &nothing, 0, 1.0f, &greatest));
    *same = (least & ~(gwi_note)1) == (~greatest & ~(gwi_note)1);
    return GW_OK;
}
