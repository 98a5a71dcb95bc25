/* SPDX-License-Identifier: Apache-2.0
 *
 * selector_chunk.c - sparse parameter averaging (Jiang & Agrawal 2018): one chunk of
 * the models per step, the next one in the next step, the same on all workers. */
#include "sync/sync.h"

typedef struct options {
    uint64_t chunks; /* steps until every coordinate was averaged */
} options;

static uint64_t chunks_of(const gwi_spec *spec)
{
    return ((const options *)gwi_options_of(spec, GWI_SELECTOR))->chunks;
}

static const gwi_key keys[] = {
    {.name = "chunks",
     .meaning = "steps in which every coordinate is averaged once",
     .range = "a count of steps from 1",
     .least = 1,
     .most = 1e6,
     .at = offsetof(options, chunks),
     .value = GWI_COUNT},
    {.name = NULL},
};

static bool chunk_off(const gwi_spec *spec)
{
    return chunks_of(spec) == 1;
}

static double chunk_density(const gwi_spec *spec)
{
    return 1.0 / (double)chunks_of(spec);
}

static void chunk_agree(gw_sync *s, gwi_common *out)
{
    uint64_t chunks = chunks_of(&s->spec);

    out->index = NULL;
    gw_part(s->layout->floats, (int)chunks, (int)((s->step - 1) % chunks), &out->begin,
            &out->end);
}

const gwi_selector gwi_selector_chunk = {
    .part = {.name = "chunk", .keys = keys, .off = chunk_off},
    .density = chunk_density,
    .agree = chunk_agree,
    .of_models = true,
};

const gwi_stage gwi_stage_spa = {
    .name = "spa",
    .summary = "one chunk of the models averaged per step (Jiang & Agrawal 2018)",
    .example = "spa:8",
    .cost = "one of the chunks: dense / chunks, more if chunks are short",
    .expect = "models differ by what fewer than `chunks` steps change",
    .role = GWI_ROLE_ALL,
    .recipe = true,
    .parts = {[GWI_SCHEDULE] = &gwi_schedule_local.part,
              [GWI_SELECTOR] = &gwi_selector_chunk.part,
              [GWI_EXCHANGE] = &gwi_exchange_common.part},
    .keys = "chunks",
};
