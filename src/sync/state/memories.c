/* SPDX-License-Identifier: Apache-2.0
 *
 * memories.c - walking over what the parts of a spec remember. */
#include "sync/state/memories.h"

static const gwi_remembered *memory_with(const gwi_spec *spec, unsigned tag)
{
    for (int kind = 0; kind < GWI_KINDS; kind++) {
        const gwi_remembered *m = spec->part[kind]->memories;
        for (; m != NULL && m->name != NULL; m++)
            if (m->tag == tag && (m->wanted == NULL || m->wanted(spec)))
                return m;
    }
    return NULL;
}

const gwi_remembered *gwi_next_memory(const gwi_spec *spec, gwi_memory_walk *walk)
{
    while (walk->tag < GWI_TAGS) {
        const gwi_remembered *m = memory_with(spec, walk->tag++);
        if (m != NULL)
            return m;
    }
    return NULL;
}

size_t gwi_memory_floats(const gwi_spec *spec, const gw_layout *layout,
                         const gwi_remembered *m)
{
    return m->floats != NULL ? m->floats(spec, layout) : layout->floats;
}

size_t gwi_kept_floats(const gw_sync *s, const gwi_remembered *m)
{
    size_t sum = 0;

    if (!m->by_layout)
        return gwi_memory_floats(&s->spec, s->layout, m);
    for (size_t i = 0; i < s->segment_count; i++)
        sum += m->floats(&s->spec, s->segments[i]->layout);
    return sum;
}
