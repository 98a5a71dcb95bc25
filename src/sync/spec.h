/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.h - a sync as a few answers, and the text it is written in.
 *
 *     spec  = stage *( "+" stage )
 *     stage = name [ ":" item *( "," item ) ]
 *     item  = value | key "=" value
 *
 * Values without a key belong to the stage's first keys, in their order. */
#ifndef GWI_SPEC_H
#define GWI_SPEC_H

#include <stdbool.h>

#include "base.h"
#include "kernels/levels.h"

typedef enum gwi_when {
    GWI_WHEN_EVERY,
    GWI_WHEN_GROW,
    GWI_WHEN_END,
    GWI_WHEN_NEVER
} gwi_when;
typedef enum gwi_what { GWI_WHAT_GRADIENT, GWI_WHAT_CHANGE, GWI_WHAT_MODEL } gwi_what;
typedef enum gwi_which {
    GWI_WHICH_ALL,
    GWI_WHICH_TOPK,
    GWI_WHICH_ABOVE,
    GWI_WHICH_CHUNK
} gwi_which;
typedef enum gwi_how {
    GWI_HOW_F32,
    GWI_HOW_BF16,
    GWI_HOW_LEVELS,
    GWI_HOW_CENTRE1,
    GWI_HOW_CENTRE2,
    GWI_HOW_MEANS
} gwi_how;
typedef enum gwi_combine {
    GWI_COMBINE_REDUCE,
    GWI_COMBINE_GATHER,
    GWI_COMBINE_TREE
} gwi_combine;

/* Words that options take; the order is that of the tables in stages.c. Norms are
 * those of levels.h. */
enum { GWI_OFF, GWI_ON };
enum { GWI_SCOPE_GLOBAL, GWI_SCOPE_TENSOR };
enum { GWI_CENTRE_MEAN, GWI_CENTRE_THRESHOLD, GWI_CENTRE_COLUMN };
enum { GWI_PUTBACK_KEEP, GWI_PUTBACK_PAPER };
enum { GWI_AVERAGE_NONE, GWI_AVERAGE_POLYAK };
enum { GWI_VIA_AUTO, GWI_VIA_GATHER, GWI_VIA_SCATTER };

/* The values of all options; those of stages that are absent keep the values that
 * switch them off. */
typedef struct gwi_options {
    double density;        /* of coordinates sent: topk, gtopk; 1 - rate for drop */
    double rate;           /* of coordinates dropped */
    uint64_t every;        /* steps between exchanges */
    double grow;           /* factor of growing periods, 0: constant */
    uint64_t start;        /* local steps begin here, dense before */
    uint64_t chunks;       /* spa: steps until every coordinate was averaged */
    uint64_t bits;         /* 2 to 8, 32: not quantized */
    uint64_t bucket;       /* values that share a norm */
    uint64_t warmup;       /* dense steps at the beginning */
    uint64_t ladder;       /* steps on each rung of the density ladder */
    uint64_t dense_below;  /* tensors with fewer floats are sent whole */
    uint64_t resync;       /* a2sgd: steps between averages of the models, 0: never */
    uint64_t seed;         /* of rounding; added to the sync's own */
    double momentum, clip; /* of the momentum correction; 0: off */
    uint64_t check;        /* steps between comparisons of the models, 0: never */
    int residual, norm, scope, centre, putback, average, mask, via;
} gwi_options;

/* Steps between comparisons of the models where nothing is said. A comparison costs one
 * pass over the model and two short messages to each other worker: 0.3 ms where a step
 * takes 1.7 ms (docs/methods.md), so 0.02 % of 1000 steps. */
enum { GWI_CHECK_EVERY = 1000 };

enum { GWI_MAX_STAGES = 5 };

struct gwi_stage;

typedef struct gwi_spec {
    gwi_when when;
    gwi_what what;
    gwi_which which;
    gwi_how how;
    gwi_combine combine;
    gwi_options opt;
    const struct gwi_stage *stages[GWI_MAX_STAGES];
    int count;
} gwi_spec;

/* Reads text. GW_ERR_SPEC names the word that is wrong and what would fit. */
gw_status gwi_spec_parse(const char *text, gwi_spec *spec);

/* Writes the canonical text: every option of every stage. Returns its length as
 * snprintf() does. */
size_t gwi_spec_write(const gwi_spec *spec, char *text, size_t cap);

/* True if everything is switched off, so that the result is that of "dense". */
bool gwi_spec_is_dense(const gwi_spec *spec);

/* ---- the table of stages (stages.c) ------------------------------------- */

typedef enum gwi_kind { GWI_COUNT, GWI_NUMBER, GWI_WORD } gwi_kind;

/* What a stage answers. A spec has at most one stage of each role, in this order;
 * one that answers everything stands alone. */
typedef enum gwi_role {
    GWI_ROLE_ALL,
    GWI_ROLE_WHEN,
    GWI_ROLE_WHICH,
    GWI_ROLE_HOW,
    GWI_ROLE_MOMENTUM,
    GWI_ROLE_CHECK /* fits behind everything that keeps models equal */
} gwi_role;

typedef struct gwi_key {
    const char *name;
    const char *fallback; /* its value when not given, as text; NULL: required */
    const char *words;    /* of a GWI_WORD, separated by | in the order of the enum */
    const char *range;    /* what fits, for messages */
    const char *meaning;  /* one line, for lists */
    double least, most;   /* of a number or count */
    size_t at;            /* offset in gwi_options */
    gwi_kind kind;
} gwi_key;

typedef struct gwi_stage {
    const char *name;
    const char *summary; /* one line for lists */
    const char *example; /* the shortest way to write it */
    const char *cost;    /* what a worker sends, for lists */
    const char *expect;  /* what users should know before they take it; NULL: nothing */
    gwi_role role;
    bool recipe; /* may come first */
    gwi_when when;
    gwi_what what;
    gwi_which which;
    gwi_how how;
    gwi_combine combine;
    const gwi_key *const *keys; /* ends with NULL */
} gwi_stage;

/* Stage i, NULL past the end; recipes come first. */
const gwi_stage *gwi_stage_at(size_t i);

/* Finds a stage by its name. GW_ERR_SPEC names the stage that was probably meant, or
 * all there are. */
gw_status gwi_stage_find(const char *name, const gwi_stage **out);

/* ---- what follows from the answers (describe.c) -------------------------- */

/* The vectors, each as long as the model, that a sync keeps from step to step. */
typedef struct gwi_memories {
    bool residual;  /* what was not sent */
    bool velocity;  /* of the momentum correction */
    bool reference; /* the last common model */
    bool mean;      /* of all models so far */
} gwi_memories;

gwi_memories gwi_spec_memories(const gwi_spec *spec);

#endif
