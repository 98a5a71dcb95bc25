/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_spec.h - checks and describes specs. gradwire.h includes this file.
 *
 * A spec is a line of text that describes a method: stages such as "topk:0.01" and
 * "q:4", separated by "+". A recipe is a stage that a spec can begin with.
 *
 * The functions in this file answer questions about methods, so that programs need not
 * know methods by name. They need no comm and may be called from any thread. All
 * strings are static: they never change and are never freed.
 *
 * Before each call, the caller sets the struct_size of a struct to its sizeof. The
 * library fills in the fields it knows and sets struct_size to their length in bytes.
 * Later versions add fields at the end and still accept shorter structs. Fields that
 * only the caller knows are 0. A struct shorter than in the first version is
 * GW_ERR_ARG.
 */
#ifndef GRADWIRE_SPEC_H
#define GRADWIRE_SPEC_H

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a spec. Returns GW_OK or GW_ERR_SPEC. If canonical is not NULL, it receives
 * the spec with all defaults written out, cut to cap bytes including the final 0. 256
 * bytes are enough for any spec. */
GW_API gw_status gw_spec_check(const char *spec, char *canonical, size_t cap);

/* List the recipes. They return the name of recipe i, its summary in one line, and the
 * shortest spec that uses it, or NULL if i is past the end. */
GW_API const char *gw_recipe_name(size_t i);
GW_API const char *gw_recipe_summary(size_t i);
GW_API const char *gw_recipe_example(size_t i);

/* What a spec does, as bits of gw_spec_info.traits. This list defines the enum and the
 * texts. The bits are part of the ABI: append new ones and never renumber. Options
 * matter: "topk:1" has the traits of "dense", and "local:4,start=100" sends gradients
 * at first. */
#define GW_TRAIT_MAP(X)                                                               \
    X(GW_TRAIT_SENDS_GRADIENTS, 0, "sends gradients")                                 \
    X(GW_TRAIT_SENDS_MODELS, 1, "sends models")                                       \
    X(GW_TRAIT_SENDS_CHANGES, 2, "sends changes of models")                           \
    X(GW_TRAIT_KEEPS_EQUAL, 3, "models are equal after every step")                   \
    X(GW_TRAIT_MEETS, 4, "models are equal after some steps, but not after all")      \
    X(GW_TRAIT_DRIFTS, 5, "nothing makes the models equal before the end")            \
    X(GW_TRAIT_SPARSE, 6, "sends only some of the coordinates")                       \
    X(GW_TRAIT_SAME_COORDINATES, 7, "all workers send the same coordinates")          \
    X(GW_TRAIT_CODED, 8, "sends values in fewer than 32 bits")                        \
    X(GW_TRAIT_GATHERS, 9, "each worker receives the messages of all others")         \
    X(GW_TRAIT_OVERLAPS, 10, "exchanges while backward still computes")               \
    X(GW_TRAIT_NEEDS_MODEL, 11, "needs gw_sync_model() after the optimizer's steps")  \
    X(GW_TRAIT_RESIDUAL, 12, "keeps what it does not send for later")                 \
    X(GW_TRAIT_LIKE_MOMENTUM, 13, "acts like momentum: use none in the optimizer")    \
    X(GW_TRAIT_ENDS_AVERAGED, 14, "gw_sync_finish() averages what still differs")     \
    X(GW_TRAIT_POLYAK, 15, "gw_sync_finish() gives the average of all models so far") \
    X(GW_TRAIT_OUTER_STEP, 16, "makes an outer step with the average change")         \
    X(GW_TRAIT_LATE, 17, "exchanges beside the next step; results are used late")

typedef enum gw_trait {
#define GW_ENUM_(name, bit, text) name = 1 << (bit),
    GW_TRAIT_MAP(GW_ENUM_)
#undef GW_ENUM_
} gw_trait;

/* Returns the text of one trait, or "unknown trait" for a number that is not in the
 * list. */
GW_API const char *gw_trait_text(gw_trait trait);

enum { GW_STAGES_MAX = 15 };

typedef struct gw_spec_info {
    size_t struct_size;     /* sizeof(gw_spec_info) */
    unsigned traits;        /* bits of gw_trait */
    double bytes_per_param; /* memory kept from step to step for each parameter, such as
                             * the residual; buffers for messages are not included */
    uint64_t period;        /* steps from one exchange to the next; 0 if there is no
                             * exchange before gw_sync_finish() */
    double growth;          /* if above 0, periods grow: the one after s steps lasts
                             * max(1, floor(growth sqrt(s) / workers)) steps */
    /* The names of the stages in order, followed by NULL. */
    const char *stages[GW_STAGES_MAX + 1];
    size_t memories; /* how many gw_memory_describe() can describe */
    /* A period has `fragments` exchanges, each of a part of the model, or one of all.
     * With GW_TRAIT_LATE each runs beside the computing of `delay` steps. */
    uint64_t fragments, delay;
    uint64_t
        resync; /* if above 0, whole models are averaged every so many steps, too */
} gw_spec_info;

/* Describes a spec. Fails with GW_ERR_SPEC, as gw_spec_check() does, or with
 * GW_ERR_ARG; *info is unchanged then. */
GW_API gw_status gw_spec_describe(const char *spec, gw_spec_info *info);

/* What happens to a memory if a run continues with another number of workers. */
typedef enum gw_handing {
    GW_HANDING_ADDED = 0,   /* new worker r gets the sum of old workers r, r + P, ... */
    GW_HANDING_COMMON = 1,  /* it is the same on all workers */
    GW_HANDING_AVERAGED = 2 /* all workers get the average */
} gw_handing;

/* The length of a memory that depends on the tensors of the model. */
#define GW_FLOATS_BY_LAYOUT SIZE_MAX

/* A memory is a vector that a sync keeps from step to step. gw_sync_save() writes
 * it. */
typedef struct gw_memory_info {
    size_t struct_size; /* sizeof(gw_memory_info) */
    const char *name;   /* one word, such as "residual" */
    unsigned bit;       /* in the set of memories of a state (docs/format-files.md) */
    gw_handing handing; /* what happens if the number of workers changes */
    size_t floats;      /* its length; 0: as many floats as the model has;
                         * GW_FLOATS_BY_LAYOUT: it depends on the tensors */
} gw_memory_info;

/* Describes memory i of a spec, counted from 0 in ascending order of bits. Fails with
 * GW_ERR_SPEC, or with GW_ERR_ARG, also if there is no memory i; *info is unchanged
 * then. */
GW_API gw_status gw_memory_describe(const char *spec, size_t i, gw_memory_info *info);

/* The optimizer that a spec will be used with. */
typedef struct gw_optimizer_info {
    size_t struct_size; /* sizeof(gw_optimizer_info) */
    int adaptive;       /* 1: steps depend on the sizes of earlier gradients, or only on
                         * signs: Adam, AdamW, RMSprop, AdaGrad, Lion and the like */
    double momentum;    /* of SGD; 0 for others */
    double dampening;
    int nesterov;
    int workers;
    double beta1; /* of the running mean of gradients of Adam and AdamW; 0 for others */
    uint64_t steps; /* of the whole training; 0: not known */
} gw_optimizer_info;

/* The answer of gw_spec_advise(). */
typedef struct gw_advice {
    size_t struct_size; /* sizeof(gw_advice) */
    int takes_momentum; /* 1: the spec applies the momentum; set the optimizer's to 0 */
    char spec[256];     /* the spec to use; it may be the one that was given */
    char reason[256];   /* why it is another spec, in one sentence, or "" */
    char warning[256];  /* what the spec is still known to cost, or "" */
} gw_advice;

/* Advises which spec does what `spec` asks for without a loss of accuracy with this
 * optimizer. SGD's momentum is applied before the selection. With an adaptive
 * optimizer, changes of the model are selected instead of gradients, and two thirds of
 * beta1 are applied before the selection: callers that tell beta1 call
 * gw_sync_momentum() and gw_sync_scale() in every step. docs/choosing.md has the rules
 * and the measurements. Fails with GW_ERR_SPEC or GW_ERR_ARG. */
GW_API gw_status gw_spec_advise(const char *spec, const gw_optimizer_info *optimizer,
                                gw_advice *advice);

/* A stage: a recipe such as "topk", or a refinement such as "q". */
typedef struct gw_stage_info {
    size_t struct_size; /* sizeof(gw_stage_info) */
    const char *name;
    const char *summary; /* one line */
    const char *example; /* the shortest way to write it */
    const char *cost;    /* what one of P workers sends per step for n parameters */
    const char *expect;  /* what to know before using it, or NULL */
    size_t keys;         /* how many gw_key_describe() can describe */
    int recipe;          /* 1: a spec can begin with it */
} gw_stage_info;

/* Describes the stage of that name. Fails with GW_ERR_ARG, or with GW_ERR_SPEC, whose
 * message suggests a similar name; *info is unchanged then. */
GW_API gw_status gw_stage_describe(const char *name, gw_stage_info *info);

/* A key is one option of a stage, as in key=value. Values without a key belong to the
 * first keys, in order. */
typedef struct gw_key_info {
    size_t struct_size; /* sizeof(gw_key_info) */
    const char *name;
    const char *fallback; /* the default value, or NULL if a value is required */
    const char *range;    /* what is expected: a phrase, or words separated by "|" */
    const char *meaning;  /* one line */
} gw_key_info;

/* Describes key i of the stage of that name, counted from 0. Fails with GW_ERR_SPEC, or
 * with GW_ERR_ARG, also if there is no key i; *info is unchanged then. */
GW_API gw_status gw_key_describe(const char *stage, size_t i, gw_key_info *info);

/* Estimates how long the exchanges of a spec take on a network. traffic is what worker
 * 0 has sent and received in any number of steps. On a network with a latency in
 * seconds and a rate in bytes per second, these steps take *rounds * latency + *bytes /
 * rate seconds. This is the textbook formula, for planning: it ignores that messages
 * may share a cable. Both results are 0 for one worker. Fails with GW_ERR_SPEC or
 * GW_ERR_ARG. */
GW_API gw_status gw_spec_path(const char *spec, const gw_layout *layout, int workers,
                              const gw_traffic *traffic, double *rounds, double *bytes);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_SPEC_H */
