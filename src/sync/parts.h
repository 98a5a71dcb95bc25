/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - the seven kinds of parts that a method is made of.
 *
 *     schedule   when the workers talk                    parts/schedule_*.c
 *     selector   which coordinates are sent               parts/selector_*.c
 *     transform  in which basis they are coordinates      parts/transform_*.c
 *     coder      how values are written                   parts/coder_*.c
 *     exchange   how messages become one result           parts/exchange_*.c
 *     memory     what is kept of what was not sent        parts/memory_*.c
 *     outer      what is done with the average            parts/outer_*.c
 *
 * A part is one file whose only external symbols are its table and the stages that
 * users write for it. Every table begins with a gwi_part. Slots that are marked with *
 * must be filled in; the others may be NULL, 0 or false. */
#ifndef GWI_PARTS_H
#define GWI_PARTS_H

#include "collective/collective.h"
#include "kernels/select.h"
#include "layout.h"
#include "sync/spec/spec.h"
#include "wire/wire.h"

/* ---- what all kinds have -------------------------------------------------- */

/* Floats that a part remembers from step to step: gwi_kept() in sync.h. They are
 * zeroed at first, saved, loaded and counted by whoever walks this list. */
typedef struct gwi_remembered {
    const char *name;   /* of saved states: one word */
    const char *what;   /* for messages */
    unsigned tag;       /* bit of saved states, different for all parts of a spec */
    gw_handing handing; /* when a run goes on with another number of workers */
    bool (*wanted)(const gwi_spec *spec); /* NULL: always */
    /* How many floats, if not as many as the model has. */
    size_t (*floats)(const gwi_spec *spec, const gw_layout *layout);
} gwi_remembered;

/* Tags of the memories that more than one file knows, and how many tags there are. */
enum { GWI_RESIDUAL, GWI_VELOCITY, GWI_REFERENCE, GWI_MEAN, GWI_RATE, GWI_TAGS = 16 };

struct gwi_part {
    const char *name;
    const gwi_key *keys;  /* ends with one without a name */
    const void *defaults; /* the options, options_size bytes, before keys set them; */
    size_t options_size;  /* NULL: zeros */

    /* What it needs of the other parts; says it in its own words: GW_ERR_SPEC. `stage`
     * is the one that brought it. Nothing is switched off yet. */
    gw_status (*check)(const gwi_spec *spec, const gwi_stage *stage);

    /* Whether the options switch it off, so that the usual part takes its place. */
    bool (*off)(const gwi_spec *spec);

    /* Bytes of zeroed state of its own: gwi_state() in sync.h. init() prepares it; if
     * it fails, it must leave it so that fini() is safe. */
    size_t state_size;
    gw_status (*init)(gw_sync *sync);
    void (*fini)(gw_sync *sync);

    const gwi_remembered *memories; /* ends with one without a name */
};

/* ---- schedule: when -------------------------------------------------------- */

typedef struct gwi_schedule {
    gwi_part part;
    gwi_subject subject; /* that it hands over, if nothing compresses it */
    bool talks;          /* before the end */
    bool never;          /* not even then */
    /* Steps in the period that begins after `done` local steps; NULL: every step. */
    uint64_t (*period)(const gwi_spec *spec, uint64_t done, int workers);
    uint64_t (*start)(
        const gwi_spec *spec);              /* dense steps before the first local one */
    double (*growth)(const gwi_spec *spec); /* of periods; NULL: they do not grow */
    double (*scale)(const gwi_spec *spec);  /* of the average change; NULL: 1 */
} gwi_schedule;

/* ---- selector: which ------------------------------------------------------- */

/* Coordinates that all workers know without being told. */
typedef struct gwi_common {
    size_t begin, end;     /* those from begin to before end, if index is NULL; */
    const uint32_t *index; /* otherwise `count` of them, ascending */
    size_t count;
} gwi_common;

typedef struct gwi_selector {
    gwi_part part;
    /* * The part of the coordinates that is sent when the beginning is over. */
    double (*density)(const gwi_spec *spec);
    /* * The most entries that one selection of n floats can give, if not all. */
    size_t (*most)(const gwi_spec *spec, size_t n);

    /* * One of these two; with run(), part.off, too. run() moves the chosen coordinates
     * of r + g, none of which is 0, to sync->list and leaves the rest in r; g is NULL
     * if r has it already. */
    void (*run)(gw_sync *sync, float *r, const float *g);
    void (*agree)(gw_sync *sync, gwi_common *out);

    bool of_models; /* takes a part of the models; what it leaves stays in them */
    bool shows_bad; /* NaN and infinity are always among what is chosen */
} gwi_selector;

/* ---- transform: in which basis ---------------------------------------------- */

/* Both replace v by its coordinates, and coordinates by v; NULL: as they are. */
typedef struct gwi_transform {
    gwi_part part;
    void (*forward)(gw_sync *sync, float *v);
    void (*back)(gw_sync *sync, float *v);
} gwi_transform;

/* ---- coder: how -------------------------------------------------------------- */

typedef struct gwi_coding gwi_coding; /* coder.h */
typedef struct gwi_message_context gwi_message_context;
typedef struct gwi_exchange gwi_exchange;

typedef struct gwi_coder {
    gwi_part part;
    const gwi_exchange *whole; /* for whole vectors; NULL: it codes lists alone */
    bool exact;                /* nothing is lost: there is no error to keep */
    bool finite;               /* what is decoded can be nothing but finite */
    bool has_peaks; /* no value is larger than the largest scale of its message */

    /* * Fills in coding, bits and group of a message's form. */
    void (*form)(const gwi_spec *spec, gwi_wire_form *form);
    /* Values that share a scale, so that vectors are cut there; NULL: 512. */
    size_t (*bucket)(const gwi_spec *spec);
    uint64_t (*seed)(const gwi_spec *spec); /* of rounding; NULL: 0 */

    /* The scales that a message of up to k values can have; NULL: none. And bytes of
     * memory that coding needs, at coding->own. */
    size_t (*scales)(const gwi_coding *coding, size_t k);
    size_t (*own)(const gwi_coding *coding);

    /* * Writes k values and their scales (coding->scales) where writer says; v becomes
     * the error. Reads them from view to out, or adds them to acc: without add() whole
     * vectors cannot be coded. */
    void (*put)(gwi_coding *coding, gwi_wire_writer *writer, float *v, size_t k,
                const gwi_message_context *at);
    void (*get)(gwi_coding *coding, const gwi_wire_view *view, float *out);
    void (*add)(gwi_coding *coding, const gwi_wire_view *view, float *acc);

    /* Where scales depend on positions: the group of a list, and the list instead of
     * its values. get_list() is given a list with its positions; GW_ERR_DATA. */
    bool (*by_position)(const gwi_spec *spec);
    size_t (*group)(gwi_coding *coding, const gwi_list *list);
    void (*put_list)(gwi_coding *coding, gwi_wire_writer *writer, gwi_list *list);
    gw_status (*get_list)(gwi_coding *coding, const gwi_wire_view *view,
                          gwi_list *list);
} gwi_coder;

/* ---- exchange: how messages are combined --------------------------------------- */

/* Where a vector is, and where its average belongs. Either v has as many floats as the
 * layout; or it is NULL, the vector is in the residual already, and its average belongs
 * into pieces, which are clear, and those of the whole vector. */
typedef struct gwi_result {
    float *v;
    const gw_piece *pieces;
    size_t count;
} gwi_result;

/* How messages wait for each other: so many, and so many bytes, one after another. */
typedef struct gwi_path {
    double rounds, bytes;
} gwi_path;

struct gwi_exchange {
    gwi_part part;

    /* * Replaces a vector by its average over the workers, or by the average of what
     * was sent of it. *note is this worker's and must be the least of all workers'
     * afterwards; if it is not 0 then, the result is undefined and what was selected
     * is back in the residual. May block. */
    gw_status (*run)(gw_sync *sync, const gwi_result *at, gwi_note *note);

    /* * The path of all exchanges that `traffic` counts; workers > 1. */
    gwi_path (*path)(const gwi_spec *spec, const gw_layout *layout, int workers,
                     const gw_traffic *traffic);

    bool lossy;     /* has a use for a residual; otherwise all is sent whole */
    bool of_lists;  /* sends what a selector has chosen for itself alone */
    bool closes_up; /* is given v and residual without small tensors: gwi_rest() */
    bool differs;   /* does not leave the same vector on all workers */
    bool codes;     /* sends something else than the floats, whatever the coder */
    bool (*gathers)(const gwi_spec *spec); /* all to all: bytes grow with workers */
    /* Steps between averages of models that it lets drift apart; NULL or 0: never. */
    uint64_t (*resync)(const gwi_spec *spec);
};

/* ---- memory: what is kept ---------------------------------------------------------
 */

typedef struct gwi_memory {
    gwi_part part;
    bool (*keeps)(const gwi_spec *spec); /* whether there is a residual; NULL: none */
    /* The entries of list were not sent, or not exactly. */
    void (*keep)(gw_sync *sync, const gwi_list *list);
} gwi_memory;

/* ---- outer: what is done with the average ------------------------------------------
 */

typedef struct gwi_outer {
    gwi_part part;
    /* * x is the average of what was sent of the models' changes since the last common
     * one; it becomes the model to go on from. */
    void (*step)(gw_sync *sync, float *x);
    /* The model of this worker after each step, and the one that training ends with. */
    void (*see)(gw_sync *sync, const float *x);
    void (*end)(gw_sync *sync, float *x);
    bool (*sees)(const gwi_spec *spec); /* whether it must see models */
} gwi_outer;

/* ---- the parts that other files name ------------------------------------------------
 */

extern const gwi_schedule gwi_schedule_steps, gwi_schedule_periods, gwi_schedule_local,
    gwi_schedule_end, gwi_schedule_never;
extern const gwi_selector gwi_selector_all, gwi_selector_topk, gwi_selector_drop,
    gwi_selector_chunk;
extern const gwi_transform gwi_transform_none;
extern const gwi_coder gwi_coder_f32, gwi_coder_bf16, gwi_coder_levels, gwi_coder_1bit,
    gwi_coder_2bit;
extern const gwi_exchange gwi_exchange_dense, gwi_exchange_common, gwi_exchange_gather,
    gwi_exchange_tree, gwi_exchange_coded, gwi_exchange_means;
extern const gwi_memory gwi_memory_none, gwi_memory_residual;
extern const gwi_outer gwi_outer_take;
extern const gwi_part gwi_momentum, gwi_ramp, gwi_small_tensors, gwi_agreement;

static inline const gwi_schedule *gwi_schedule_of(const gwi_spec *spec)
{
    return (const gwi_schedule *)spec->part[GWI_SCHEDULE];
}

static inline const gwi_selector *gwi_selector_of(const gwi_spec *spec)
{
    return (const gwi_selector *)spec->part[GWI_SELECTOR];
}

static inline const gwi_transform *gwi_transform_of(const gwi_spec *spec)
{
    return (const gwi_transform *)spec->part[GWI_TRANSFORM];
}

static inline const gwi_coder *gwi_coder_of(const gwi_spec *spec)
{
    return (const gwi_coder *)spec->part[GWI_CODER];
}

static inline const gwi_exchange *gwi_exchange_of(const gwi_spec *spec)
{
    return (const gwi_exchange *)spec->part[GWI_EXCHANGE];
}

static inline const gwi_memory *gwi_memory_of(const gwi_spec *spec)
{
    return (const gwi_memory *)spec->part[GWI_MEMORY];
}

static inline const gwi_outer *gwi_outer_of(const gwi_spec *spec)
{
    return (const gwi_outer *)spec->part[GWI_OUTER];
}

/* Whether some of what is exchanged is not sent, or not exactly. */
static inline bool gwi_loses(const gwi_spec *spec)
{
    return gwi_exchange_of(spec)->lossy && spec->subject != GWI_MODEL;
}

/* Whether what is not sent is kept in a residual. */
static inline bool gwi_keeps_residual(const gwi_spec *spec)
{
    const gwi_memory *memory = gwi_memory_of(spec);

    return memory->keeps != NULL && memory->keeps(spec);
}

/* Whether workers send entries of their own choice, and whether they leave any out. */
static inline bool gwi_sends_lists(const gwi_spec *spec)
{
    return gwi_selector_of(spec)->run != NULL;
}

static inline bool gwi_chooses(const gwi_spec *spec)
{
    const gwi_selector *selector = gwi_selector_of(spec);

    return selector->run != NULL && !selector->part.off(spec);
}

/* Whether a spec sends some coordinates only. */
static inline bool gwi_leaves_out(const gwi_spec *spec)
{
    return spec->part[GWI_SELECTOR] != &gwi_selector_all.part;
}

#endif
