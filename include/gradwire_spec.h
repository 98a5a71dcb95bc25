/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_spec.h - what specs mean. gradwire.h includes it; programs need not. */
#ifndef GRADWIRE_SPEC_H
#define GRADWIRE_SPEC_H

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a spec without making anything: GW_OK or GW_ERR_SPEC. When canonical is
 * not NULL it receives the spec with every default written out, cut to cap bytes
 * with its final 0; cap of 256 is enough for any spec. */
GW_API gw_status gw_spec_check(const char *spec, char *canonical, size_t cap);

/* The recipes a spec can begin with: the name of recipe i, a summary of one line, and
 * the shortest spec that uses it; NULL past the end. Static strings. */
GW_API const char *gw_recipe_name(size_t i);
GW_API const char *gw_recipe_summary(size_t i);
GW_API const char *gw_recipe_example(size_t i);

/* ---- what is known of a spec -------------------------------------------------
 *
 * These functions answer questions about methods, so that nobody has to know them by
 * name. They make nothing, need no comm and may be called from any thread. All texts
 * are static: they are never freed and never change.
 *
 * The caller sets struct_size of a struct to its sizeof before each call. The library
 * fills in what it knows and sets struct_size to the bytes of that: later versions add
 * fields at the end, take the shorter structs of today, and what a caller knows but the
 * library does not is 0. GW_ERR_ARG if a struct is shorter than it ever was. */

/* What a spec does, as bits of gw_spec_info.traits. One list gives the enum and the
 * texts. Numbers are part of the ABI; append, never renumber. Options count: "topk:1"
 * has the traits of "dense", and "local:4,start=100" sends gradients at first. */
#define GW_TRAIT_MAP(X)                                                              \
    X(GW_TRAIT_SENDS_GRADIENTS, 0, "sends gradients")                                \
    X(GW_TRAIT_SENDS_MODELS, 1, "sends models")                                      \
    X(GW_TRAIT_SENDS_CHANGES, 2, "sends changes of models")                          \
    X(GW_TRAIT_KEEPS_EQUAL, 3, "models are equal after every step")                  \
    X(GW_TRAIT_MEETS, 4, "models are equal after some steps, but not after all")     \
    X(GW_TRAIT_DRIFTS, 5, "nothing brings the models together before the end")       \
    X(GW_TRAIT_SPARSE, 6, "sends a part of the coordinates")                         \
    X(GW_TRAIT_SAME_COORDINATES, 7, "all workers send the same coordinates")         \
    X(GW_TRAIT_CODED, 8, "sends values in fewer than 32 bits")                       \
    X(GW_TRAIT_GATHERS, 9, "each worker receives the messages of all others")        \
    X(GW_TRAIT_OVERLAPS, 10, "exchanges while backward still computes")              \
    X(GW_TRAIT_NEEDS_MODEL, 11, "needs gw_sync_model() after the optimizer's steps") \
    X(GW_TRAIT_RESIDUAL, 12, "keeps what it does not send for later")                \
    X(GW_TRAIT_LIKE_MOMENTUM, 13, "acts like momentum: use none in the optimizer")   \
    X(GW_TRAIT_ENDS_AVERAGED, 14, "gw_sync_finish() averages what still differs")    \
    X(GW_TRAIT_POLYAK, 15, "gw_sync_finish() gives the average of all models so far")

typedef enum gw_trait {
#define GW_ENUM_(name, bit, text) name = 1 << (bit),
    GW_TRAIT_MAP(GW_ENUM_)
#undef GW_ENUM_
} gw_trait;

/* The text of one trait; "unknown trait" for a number not in the list. */
GW_API const char *gw_trait_text(gw_trait trait);

enum { GW_STAGES_MAX = 15 };

typedef struct gw_spec_info {
    size_t struct_size;     /* sizeof(gw_spec_info) */
    unsigned traits;        /* of gw_trait, or'ed */
    double bytes_per_param; /* kept from step to step for each parameter: residual, last
                             * common model and the like, but no room for messages */
    uint64_t period;        /* steps from one exchange to the next; 0 if there is none
                             * before gw_sync_finish() */
    double growth;          /* above 0: periods grow, and after s steps the next has
                             * max(1, floor(growth sqrt(s) / workers)) of them */
    /* The names of its stages, in their order; NULL ends them. */
    const char *stages[GW_STAGES_MAX + 1];
    size_t memories; /* how many it has: gw_memory_describe() */
} gw_spec_info;

/* Describes a spec. GW_ERR_SPEC, as from gw_spec_check(), or GW_ERR_ARG; *info is
 * unchanged then. */
GW_API gw_status gw_spec_describe(const char *spec, gw_spec_info *info);

/* What a run that goes on with another number of workers makes of a memory. */
typedef enum gw_handing {
    GW_HANDING_ADDED = 0,   /* new worker r gets the sum of old workers r, r + P, ... */
    GW_HANDING_COMMON = 1,  /* the same on all workers */
    GW_HANDING_AVERAGED = 2 /* all get the average */
} gw_handing;

/* A vector that a spec keeps from step to step, and that gw_sync_save() writes. */
typedef struct gw_memory_info {
    size_t struct_size; /* sizeof(gw_memory_info) */
    const char *name;   /* one word, such as "residual" */
    unsigned bit;       /* of the set in a saved state (docs/format-files.md) */
    gw_handing handing;
    size_t floats; /* how many; 0: as many as the model has */
} gw_memory_info;

/* Describes memory i of a spec, from 0 on, by ascending bits. GW_ERR_SPEC; GW_ERR_ARG,
 * also if there are not as many. *info is unchanged then. */
GW_API gw_status gw_memory_describe(const char *spec, size_t i, gw_memory_info *info);

/* The optimizer that a spec is to be used with. */
typedef struct gw_optimizer_info {
    size_t struct_size; /* sizeof(gw_optimizer_info) */
    int adaptive;       /* 1: steps depend on the size of gradients so far, or on their
                         * signs: Adam, AdamW, RMSprop, AdaGrad, Lion and the like */
    double momentum;    /* of SGD, otherwise 0 */
    double dampening;
    int nesterov;
    int workers;
} gw_optimizer_info;

/* What gw_spec_advise() says. */
typedef struct gw_advice {
    size_t struct_size; /* sizeof(gw_advice) */
    int takes_momentum; /* 1: the spec has the optimizer's momentum, step without it */
    char spec[256];     /* to use; the one that was asked for if all is well */
    char reason[256];   /* why it is another, in one sentence; "" if it is not */
    char warning[256];  /* what it is known to cost all the same; "" if nothing is */
} gw_advice;

/* The spec that does what `spec` asks for without costing accuracy with this optimizer:
 * momentum of SGD moves in front of a selection, and with an adaptive optimizer the
 * changes of the model are selected instead of gradients. docs/choosing.md has the
 * rules and what was measured. GW_ERR_SPEC; GW_ERR_ARG. */
GW_API gw_status gw_spec_advise(const char *spec, const gw_optimizer_info *optimizer,
                                gw_advice *advice);

/* A stage: a recipe such as "topk", or what refines one, such as "q". */
typedef struct gw_stage_info {
    size_t struct_size; /* sizeof(gw_stage_info) */
    const char *name;
    const char *summary; /* one line */
    const char *example; /* the shortest way to write it */
    const char *cost;    /* what a worker sends per step; P workers, n parameters */
    const char *expect;  /* what to know before it is used; NULL if there is nothing */
    size_t keys;         /* how many it has: gw_key_describe() */
    int recipe;          /* 1: a spec can begin with it */
} gw_stage_info;

/* Describes the stage of that name. GW_ERR_SPEC says which name was probably meant;
 * GW_ERR_ARG. *info is unchanged then. */
GW_API gw_status gw_stage_describe(const char *name, gw_stage_info *info);

/* A setting of a stage. Values without a key belong to its first keys, in their order.
 */
typedef struct gw_key_info {
    size_t struct_size; /* sizeof(gw_key_info) */
    const char *name;
    const char *fallback; /* its value where none is given; NULL: one must be given */
    const char *range;    /* what fits: a sentence, or words separated by | */
    const char *meaning;  /* one line */
} gw_key_info;

/* Describes key i of the stage of that name. GW_ERR_SPEC; GW_ERR_ARG, also if i is not
 * below the number of keys. *info is unchanged then. */
GW_API gw_status gw_key_describe(const char *stage, size_t i, gw_key_info *info);

/* How messages wait for each other: those that worker 0 has sent and received, traffic,
 * in any number of steps of spec take *rounds * latency + *bytes / rate seconds on a
 * network of that latency (seconds) and rate (bytes per second). That is the formula of
 * the textbooks, for planning; it knows nothing of messages that meet on a cable. 0 and
 * 0 for one worker. GW_ERR_SPEC, GW_ERR_ARG. */
GW_API gw_status gw_spec_path(const char *spec, const gw_layout *layout, int workers,
                              const gw_traffic *traffic, double *rounds, double *bytes);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_SPEC_H */
