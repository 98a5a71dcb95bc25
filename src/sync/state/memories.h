/* SPDX-License-Identifier: Apache-2.0
 *
 * memories.h - all that a sync remembers, whichever part does. */
#ifndef GWI_MEMORIES_H
#define GWI_MEMORIES_H

#include "sync/sync.h"

/* A walk over the memories of a spec, by ascending tags; begin with zeros. */
typedef struct gwi_memory_walk {
    unsigned tag;
} gwi_memory_walk;

/* The next one that the spec wants, or NULL. */
const gwi_remembered *gwi_next_memory(const gwi_spec *spec, gwi_memory_walk *walk);

/* How many floats it has for a layout that is not cut. */
size_t gwi_memory_floats(const gwi_spec *spec, const gw_layout *layout,
                         const gwi_remembered *memory);

/* Those of a whole sync. Segments have their part of what is as long as the model or
 * depends on the layout, and share the rest. */
size_t gwi_kept_floats(const gw_sync *sync, const gwi_remembered *memory);

#endif
