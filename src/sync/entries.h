/* SPDX-License-Identifier: Apache-2.0
 *
 * entries.h - steps for callers that keep the residual and choose entries themselves.
 */
#ifndef GWI_ENTRIES_H
#define GWI_ENTRIES_H

#include "sync/sync.h"

/* What goes in and out of such a step. The exchange itself is the usual one. It asks
 * here for the list of entries, and brings here what it would put into the residual and
 * into the vector. */
struct gwi_aside {
    bool open;                /* such a step is under way */
    const gw_entries *chosen; /* by the caller */
    gwi_list kept;            /* what the caller adds to its residual, in this order */
    gwi_list result, spare;   /* indices ascend */
    void *memory;
};

/* Whether the present step of this sync is one of these. */
static inline bool gwi_is_aside(const gw_sync *s)
{
    return s->aside != NULL && s->aside->open;
}

/* The entries that the caller has chosen become sync->list. */
void gwi_aside_choose(gw_sync *sync);

/* One entry, or a list of them, goes back to the caller's residual. */
void gwi_aside_keep_one(gw_sync *sync, uint32_t index, float value);
void gwi_aside_keep(gw_sync *sync, const gwi_list *list);

/* Adds a list, whose indices ascend, to the result. */
void gwi_aside_add(const gw_sync *sync, const gwi_list *list);

void gwi_aside_free(gw_sync *sync);

#endif
