/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.c - every stage that a spec can name: the recipes, each the answers of one
 * paper, and the stages that refine them. A stage is described in the file of its
 * part; to add one, add its name to the table. */
#include "sync/parts.h"

#include <string.h>

/* Recipes first. */
#define STAGES(X) \
    X(dense)      \
    X(none)       \
    X(topk)       \
    X(gtopk)      \
    X(oktopk)     \
    X(drop)       \
    X(randk)      \
    X(lowrank)    \
    X(qsgd)       \
    X(sign)       \
    X(demo)       \
    X(distro)     \
    X(adasum)     \
    X(a2sgd)      \
    X(local)      \
    X(diloco)     \
    X(sparseloco) \
    X(update)     \
    X(oneshot)    \
    X(spa)        \
    X(sparta)     \
    X(pqasgd)     \
    X(q)          \
    X(bf16)       \
    X(1bit)       \
    X(2bit)       \
    X(momentum)   \
    X(ef21)       \
    X(outer)      \
    X(check)

#define DECLARE(name) extern const gwi_stage gwi_stage_##name;
STAGES(DECLARE)

#define LIST(name) &gwi_stage_##name,
static const gwi_stage *const table[] = {STAGES(LIST)};

const gwi_stage *gwi_stage_at(size_t i)
{
    return i < sizeof table / sizeof *table ? table[i] : NULL;
}

static const gwi_stage *recipe_at(size_t i)
{
    const gwi_stage *s = gwi_stage_at(i);

    return s != NULL && s->recipe ? s : NULL;
}

const char *gw_recipe_name(size_t i)
{
    return recipe_at(i) != NULL ? recipe_at(i)->name : NULL;
}

const char *gw_recipe_summary(size_t i)
{
    return recipe_at(i) != NULL ? recipe_at(i)->summary : NULL;
}

const char *gw_recipe_example(size_t i)
{
    return recipe_at(i) != NULL ? recipe_at(i)->example : NULL;
}

/* ---- what stages leave open ------------------------------------------------ */

const gwi_part *gwi_usual_part(gwi_kind kind)
{
    static const gwi_part *const usual[GWI_KINDS] = {
        [GWI_SCHEDULE] = &gwi_schedule_steps.part,
        [GWI_SELECTOR] = &gwi_selector_all.part,
        [GWI_TRANSFORM] = &gwi_transform_none.part,
        [GWI_CODER] = &gwi_coder_f32.part,
        [GWI_EXCHANGE] = &gwi_exchange_dense.part,
        [GWI_MEMORY] = &gwi_memory_none.part,
        [GWI_OUTER] = &gwi_outer_take.part,
        [GWI_MODELS] = &gwi_past_models,
        [GWI_MOMENTUM] = &gwi_momentum,
        [GWI_RAMP] = &gwi_ramp,
        [GWI_SMALL] = &gwi_small_tensors,
        [GWI_CHECK] = &gwi_agreement,
        [GWI_LATE] = &gwi_late,
    };

    return usual[kind];
}

/* ---- the keys that a stage shows ---------------------------------------------- */

static bool is_named(const gwi_key *key, const char *name, size_t len)
{
    return strlen(key->name) == len && memcmp(key->name, name, len) == 0;
}

static const gwi_key *key_of_part(const gwi_part *part, const char *name, size_t len)
{
    for (const gwi_key *k = part->keys; k != NULL && k->name != NULL; k++)
        if (is_named(k, name, len))
            return k;
    return NULL;
}

/* The key is one of the stage's parts, or of a part that it leaves as usual. */
static bool find_key(const gwi_stage *stage, const char *name, size_t len,
                     gwi_shown_key *out)
{
    for (int kind = 0; kind < GWI_KINDS; kind++) {
        const gwi_part *part = stage->parts[kind];
        out->kind = (gwi_kind)kind;
        out->key =
            key_of_part(part != NULL ? part : gwi_usual_part(out->kind), name, len);
        if (out->key != NULL)
            return true;
    }
    return false;
}

/* Word i of the stage's list of keys. */
static const char *word_at(const gwi_stage *stage, size_t i, size_t *len)
{
    const char *at = stage->keys != NULL ? stage->keys : "";

    for (; i > 0 && *at != '\0'; i--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    *len = strcspn(at, " ");
    return at;
}

bool gwi_stage_key(const gwi_stage *stage, size_t i, gwi_shown_key *out)
{
    size_t len;
    const char *name = word_at(stage, i, &len);

    if (len == 0 || !find_key(stage, name, len, out))
        return false;
    out->fallback = out->key->fallback;
    for (size_t b = 0; b < GWI_MAX_OTHERS && stage->but[b].key != NULL; b++)
        if (strcmp(stage->but[b].key, out->key->name) == 0)
            out->fallback = stage->but[b].fallback;
    return true;
}

const gwi_stage *gwi_stage_showing(const gwi_spec *spec, const char *key)
{
    gwi_shown_key shown;

    for (int i = 0; i < spec->count; i++)
        for (size_t k = 0; gwi_stage_key(spec->stages[i], k, &shown); k++)
            if (strcmp(shown.key->name, key) == 0)
                return spec->stages[i];
    return spec->stages[0];
}
