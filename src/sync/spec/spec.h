/* SPDX-License-Identifier: Apache-2.0
 *
 * spec.h - a method as seven answers, and the text it is written in.
 *
 *     spec  = stage *( "+" stage )
 *     stage = name [ ":" item *( "," item ) ]
 *     item  = value | key "=" value
 *
 * Values without a key belong to the stage's first keys, in their order.
 *
 * Each answer is a part (parts.h), a table of functions in a file of its own. A stage
 * names the parts that it brings, and the keys of theirs that it shows. */
#ifndef GWI_SPEC_H
#define GWI_SPEC_H

#include <stdbool.h>

#include "base.h"

/* The questions. The last six refine the answers to the first seven. */
typedef enum gwi_kind {
    GWI_SCHEDULE,  /* when do the workers talk? */
    GWI_SELECTOR,  /* which coordinates are sent? */
    GWI_TRANSFORM, /* coordinates in which basis? */
    GWI_CODER,     /* how are values written? */
    GWI_EXCHANGE,  /* how do messages become one result? */
    GWI_MEMORY,    /* what is kept of what was not sent? */
    GWI_OUTER,     /* what is done with the average? */
    GWI_MODELS,    /* what is kept of past models? */
    GWI_MOMENTUM,  /* what has momentum done before? */
    GWI_RAMP,      /* what is different at the beginning? */
    GWI_SMALL,     /* which tensors are too small to bother? */
    GWI_CHECK,     /* how often are models compared? */
    GWI_LATE,      /* how many steps later is a result used? */
    GWI_KINDS
} gwi_kind;

/* What is handed to an exchange. */
typedef enum gwi_subject { GWI_GRADIENT, GWI_CHANGE, GWI_MODEL } gwi_subject;

enum {
    GWI_MAX_STAGES = 5,
    GWI_MAX_OTHERS = 8,  /* keys of a stage whose fallback is not the usual one */
    GWI_OPTIONS_MAX = 40 /* bytes of any part's options */
};

typedef struct gwi_part gwi_part;
typedef struct gwi_stage gwi_stage;

typedef struct gwi_spec {
    const gwi_part *part[GWI_KINDS];
    gwi_subject subject;
    const gwi_stage *stages[GWI_MAX_STAGES];
    int count;
    /* Each part has a struct of its own here; see gwi_options_of(). */
    _Alignas(8) unsigned char options[GWI_KINDS][GWI_OPTIONS_MAX];
} gwi_spec;

/* The options of the part that answers a question. */
static inline const void *gwi_options_of(const gwi_spec *spec, gwi_kind kind)
{
    return spec->options[kind];
}

/* Reads text. GW_ERR_SPEC names the word that is wrong and what would fit. */
gw_status gwi_spec_parse(const char *text, gwi_spec *spec);

/* Writes the canonical text: every option of every stage. Returns its length as
 * snprintf() does. */
size_t gwi_spec_write(const gwi_spec *spec, char *text, size_t cap);

/* Puts parts in place of those that their options switch off, and decides what is
 * exchanged (resolve.c). With everything off the answers are those of "dense". */
void gwi_spec_resolve(gwi_spec *spec);

/* Takes the exchange that suits so many workers, where the spec leaves that open
 * (resolve.c). */
void gwi_spec_settle(gwi_spec *spec, int workers);

/* Fails with GW_ERR_SPEC if a stage codes values; for parts that add values up as they
 * travel (resolve.c). `stage` is the stage that brings the part. */
gw_status gwi_check_uncoded(const gwi_spec *spec, const struct gwi_stage *stage);

/* True if everything is switched off, so that the result is that of "dense". */
bool gwi_spec_is_dense(const gwi_spec *spec);

/* ---- keys: the options of parts ------------------------------------------ */

typedef enum gwi_value { GWI_COUNT, GWI_NUMBER, GWI_WORD } gwi_value;

enum { GWI_OFF, GWI_ON }; /* of words "off|on" */

/* What a count holds that may also be a word, and is. */
#define GWI_COUNT_WORD UINT64_MAX

/* The same of a number. */
#define GWI_NUMBER_WORD (-1.0)

/* The largest count of steps or floats that a key takes. */
#define GWI_COUNT_MAX 1e12

typedef struct gwi_key {
    const char *name;
    const char *fallback; /* its value when not given, as text; NULL: required */
    const char *words;    /* of a GWI_WORD, separated by | in the order of an enum */
    const char *range;    /* what fits, for messages */
    const char *meaning;  /* one line, for lists */
    double least, most;   /* of a number or count */
    bool (*fits)(double); /* what else it must be; NULL: nothing */
    bool unsaid;          /* canonical specs leave it out where it has its fallback */
    size_t at;            /* offset in the part's options: uint64_t, double or int */
    gwi_value value;
} gwi_key;

/* A key as one stage shows it. */
typedef struct gwi_shown_key {
    const gwi_key *key;
    gwi_kind kind;        /* of the part that it belongs to */
    const char *fallback; /* NULL: required */
} gwi_shown_key;

/* ---- the table of stages (stages.c) -------------------------------------- */

/* What a stage answers. A spec has at most one stage of each role, in this order;
 * one that answers everything stands alone. */
typedef enum gwi_role {
    GWI_ROLE_ALL,
    GWI_ROLE_WHEN,
    GWI_ROLE_WHICH,
    GWI_ROLE_HOW,
    GWI_ROLE_MOMENTUM,
    GWI_ROLE_OUTER,
    GWI_ROLE_CHECK /* fits behind everything that keeps models equal */
} gwi_role;

struct gwi_stage {
    const char *name;
    const char *summary; /* one line for lists */
    const char *example; /* the shortest way to write it */
    const char *cost;    /* what a worker sends, for lists */
    const char *expect;  /* what users should know before they take it; NULL: nothing */
    gwi_role role;
    bool recipe;                      /* may come first */
    const gwi_part *parts[GWI_KINDS]; /* that it brings; NULL: the usual one */
    const char *keys;                 /* of these parts, separated by spaces */
    struct {                          /* those whose fallback is another here */
        const char *key, *fallback;
    } but[GWI_MAX_OTHERS];
};

/* Stage i, NULL past the end; recipes come first. */
const gwi_stage *gwi_stage_at(size_t i);

/* Finds a stage by its name. GW_ERR_SPEC names the stage that was probably meant, or
 * all there are. */
gw_status gwi_stage_find(const char *name, const gwi_stage **out);

/* Key i of a stage; false past the end. */
bool gwi_stage_key(const gwi_stage *stage, size_t i, gwi_shown_key *out);

/* The first stage of a spec that shows a key of this name, or the first of all. */
const gwi_stage *gwi_stage_showing(const gwi_spec *spec, const char *key);

/* The part that answers a question where no stage does. */
const gwi_part *gwi_usual_part(gwi_kind kind);

#endif
