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
 * A part is the code that answers one of these questions: one file whose only external
 * symbols are its table and the stages that users write for it. Every table begins with
 * a gwi_part. Slots whose comment begins with * must be filled in; the others may be
 * NULL, 0 or false. */
#ifndef GWI_PARTS_H
#define GWI_PARTS_H

#include "collective/collective.h"
#include "kernels/select.h"
#include "layout.h"
#include "sync/spec/spec.h"
#include "wire/wire.h"

/* ---- what all kinds have -------------------------------------------------- */

/* A memory: floats that a part remembers from step to step; gwi_kept() in sync.h
 * returns them. They are zero at first. The code that saves, loads and counts memories
 * walks this list. */
typedef struct gwi_remembered {
    const char *name;   /* in saved states; one word */
    const char *what;   /* for messages */
    unsigned tag;       /* its bit in saved states; no two parts of a spec share one */
    gw_handing handing; /* if a run continues with another number of workers */
    bool (*wanted)(const gwi_spec *spec); /* NULL: always */
    /* Returns how many floats it has; NULL: as many as the model. */
    size_t (*floats)(const gwi_spec *spec, const gw_layout *layout);
    bool by_layout; /* floats() depends on the layout: each segment has its own */
} gwi_remembered;

/* Tags of the memories that several files know, and the number of tags. */
enum {
    GWI_RESIDUAL,
    GWI_VELOCITY,
    GWI_REFERENCE,
    GWI_MEAN,
    GWI_RATE,
    GWI_SCALE,
    GWI_FACTOR = 8,
    GWI_LAST = 9,
    GWI_ESTIMATE = 10,
    GWI_PENDING = 11,
    GWI_WAITING = 12,
    GWI_BEFORE = 13,
    GWI_TAGS = 16
};

struct gwi_part {
    const char *name;
    const gwi_key *keys;  /* ends with one without a name */
    const void *defaults; /* the options before keys set them; NULL: zeros */
    size_t options_size;  /* bytes of options */
    /* The part that this one refines: its options begin with those of that part, and
     * keep the values that were set. NULL: none. */
    const gwi_part *refines;

    /* Checks what this part needs of the other parts, and fails with GW_ERR_SPEC and a
     * message of its own. `stage` is the stage that uses this part. Nothing is switched
     * off yet. */
    gw_status (*check)(const gwi_spec *spec, const gwi_stage *stage);

    /* Returns whether the options switch it off. The usual part then takes its
     * place. */
    bool (*off)(const gwi_spec *spec);

    /* The part's own state: this many zeroed bytes, which gwi_state() in sync.h
     * returns. init() prepares it. If init() fails, fini() must still be safe. */
    size_t state_size;
    gw_status (*init)(gw_sync *sync);
    void (*fini)(gw_sync *sync);

    const gwi_remembered *memories; /* ends with one without a name */
};

/* ---- schedule: when -------------------------------------------------------- */

typedef struct gwi_schedule {
    gwi_part part;
    gwi_subject subject; /* what it exchanges if nothing compresses it */
    bool talks;          /* workers talk before the end */
    bool never;          /* they do not even talk at the end */
    /* Returns the length in steps of the period that begins after `done` local steps.
     * NULL: workers talk in every step. */
    uint64_t (*period)(const gwi_spec *spec, uint64_t done, int workers);
    uint64_t (*start)(
        const gwi_spec *spec);              /* dense steps before the first local one */
    double (*growth)(const gwi_spec *spec); /* of periods; NULL: they do not grow */
    /* Returns the factor of the changes of this step, the same on all workers; NULL:
     * 1. */
    double (*scale)(const gw_sync *sync);
    /* Looks at a change, as the whole sync's worker has made it, to choose the factor
     * of later ones. It may block, and treats *note as an exchange does. NULL: it does
     * not look. */
    gw_status (*measure)(gw_sync *sync, const float *change, gwi_note *note);
} gwi_schedule;

/* ---- selector: which ------------------------------------------------------- */

/* Coordinates that all workers know without a message. */
typedef struct gwi_common {
    size_t begin, end;     /* the coordinates in [begin, end), if index is NULL; */
    const uint32_t *index; /* otherwise `count` coordinates, ascending */
    size_t count;
} gwi_common;

typedef struct gwi_selector {
    gwi_part part;
    /* * Returns the fraction of the coordinates that is sent after the first steps. */
    double (*density)(const gwi_spec *spec);
    /* * Returns the most entries that a selection from n floats can have, if it does
     * not take all. */
    size_t (*most)(const gwi_spec *spec, size_t n);

    /* * A selector has one of these two; with run(), it also has part.off. run() moves
     * the chosen coordinates of r + g, none of which is 0, to sync->list and leaves the
     * rest in r. g is NULL if it has already been added to r. agree() gives coordinates
     * that all workers know. */
    void (*run)(gw_sync *sync, float *r, const float *g);
    void (*agree)(gw_sync *sync, gwi_common *out);

    /* * What run() does, for a gradient in pieces, which stay as they are. NULL: it
     * cannot. It is asked only where the whole vector is one tile. */
    void (*run_pieces)(gw_sync *sync, float *r, const gw_piece *pieces, size_t count);

    /* Whether these are the largest entries of the whole vector, as many as
     * gwi_wanted() says, so that a caller can choose them; NULL: no. */
    bool (*largest)(const gwi_spec *spec);
    bool of_models; /* selects from models; what it leaves out stays in them */
    bool shows_bad; /* NaN and infinity are always chosen */
} gwi_selector;

/* ---- transform: in which basis ---------------------------------------------- */

/* Which tile comes next; zeros are the first. */
typedef struct gwi_tile_walk {
    size_t tensor, row, col; /* of tiles */
    size_t down, across;     /* how many the tensor has; 0: not counted yet */
} gwi_tile_walk;

/* forward() replaces v with its coordinates in another basis, back() does the reverse.
 * NULL: v is its own coordinates. The residual is in coordinates, too. */
typedef struct gwi_transform {
    gwi_part part;
    void (*forward)(gw_sync *sync, float *v);
    void (*back)(gw_sync *sync, float *v);
    /* Coordinates lie in tiles, one after the other. Returns the floats of the next
     * one; 0: there are no more. Selectors take some of each. It may be called before
     * init(). NULL: there are no tiles. */
    size_t (*next_tile)(const gw_sync *sync, gwi_tile_walk *walk);
} gwi_transform;

/* ---- coder: how -------------------------------------------------------------- */

typedef struct gwi_coding gwi_coding; /* coder.h */
typedef struct gwi_message_context gwi_message_context;
typedef struct gwi_exchange gwi_exchange;

typedef struct gwi_coder {
    gwi_part part;
    const gwi_exchange *whole; /* for whole vectors; NULL: it codes only lists */
    bool exact;                /* nothing is lost, so there is no error to keep */
    bool finite;               /* decoded values are always finite */
    bool has_peaks; /* no value is larger than the largest scale of its message */

    /* * Fills in coding, bits and group of a message's form. */
    void (*form)(const gwi_spec *spec, gwi_wire_form *form);
    /* Returns how many values share a scale. Vectors are cut at multiples of it. NULL:
     * 512. */
    size_t (*bucket)(const gwi_spec *spec);
    uint64_t (*seed)(const gwi_spec *spec); /* of rounding; NULL: 0 */
    /* Returns what rounding adds to the variance of a vector, over its squared norm, at
     * most; NULL: it is not known. */
    double (*noise)(const gwi_spec *spec);
    /* Returns whether values are entropy-coded where that makes them shorter; NULL:
     * no. */
    bool (*entropy)(const gwi_spec *spec);

    /* scales() returns how many scales a message of up to k values can have; NULL:
     * none. own() returns how many bytes of memory the coder needs at coding->own. */
    size_t (*scales)(const gwi_coding *coding, size_t k);
    size_t (*own)(const gwi_coding *coding);

    /* * put() writes k values and their scales (coding->scales) to writer; v becomes
     * the error. get() reads values from view into out, and add() adds them to acc.
     * Without add() the coder cannot code whole vectors. */
    void (*put)(gwi_coding *coding, gwi_wire_writer *writer, float *v, size_t k,
                const gwi_message_context *at);
    void (*get)(gwi_coding *coding, const gwi_wire_view *view, float *out);
    void (*add)(gwi_coding *coding, const gwi_wire_view *view, float *acc);

    /* For coders whose scales depend on positions: group() returns the group of a list,
     * and put_list() and get_list() code the list instead of its values. The list given
     * to get_list() has its positions already. get_list() fails with GW_ERR_DATA. */
    bool (*by_position)(const gwi_spec *spec);
    size_t (*group)(gwi_coding *coding, const gwi_list *list);
    void (*put_list)(gwi_coding *coding, gwi_wire_writer *writer, gwi_list *list);
    gw_status (*get_list)(gwi_coding *coding, const gwi_wire_view *view,
                          gwi_list *list);
} gwi_coder;

/* ---- exchange: how messages are combined --------------------------------------- */

/* Where a vector is, and where its average goes. Either v has as many floats as the
 * layout. Or v is NULL, and the vector is in pieces, to which its average goes. They
 * are those of the whole vector. Unless they are `fresh`, they are already in the
 * residual and are zero. */
typedef struct gwi_result {
    float *v;
    const gw_piece *pieces;
    size_t count;
    bool fresh;
} gwi_result;

/* How messages wait for each other: the number of messages, and of bytes, that follow
 * one after the other. */
typedef struct gwi_path {
    double rounds, bytes;
} gwi_path;

struct gwi_exchange {
    gwi_part part;

    /* * Replaces a vector with its average over the workers, or with the average of
     * what was sent of it. *note is this worker's note, and afterwards the least of all
     * workers' notes. If that is not 0, the result is undefined, and what was selected
     * is back in the residual. It may block. */
    gw_status (*run)(gw_sync *sync, const gwi_result *at, gwi_note *note);

    /* * Returns the path of all exchanges that `traffic` counts. workers is above 1. */
    gwi_path (*path)(const gwi_spec *spec, const gw_layout *layout, int workers,
                     const gw_traffic *traffic);

    /* Returns the exchange that takes its place with so many workers, and writes a
     * choice that it has made into its options, which stay. 0: the number of workers is
     * not known yet. NULL: none ever takes its place. */
    const gwi_exchange *(*instead)(gwi_spec *spec, int workers);

    bool lossy;     /* can use a residual; otherwise everything is sent */
    bool of_lists;  /* sends entries that each worker chooses for itself */
    bool closes_up; /* gets v and residual without small tensors: gwi_rest() */
    bool looks;     /* can look for bad numbers while it averages v */
    bool differs;   /* leaves different vectors on the workers */
    bool codes;     /* does not send the floats themselves, whatever the coder */
    bool (*gathers)(const gwi_spec *spec);  /* all to all: bytes grow with workers */
    bool (*by_entry)(const gwi_spec *spec); /* needs v as one vector, not in pieces */
    /* Returns the steps between averages of models that drift apart; NULL or 0:
     * never. */
    uint64_t (*resync)(const gwi_spec *spec);
};

/* ---- memory: what is kept ---------------------------------------------------------
 */

typedef struct gwi_memory {
    gwi_part part;
    bool (*keeps)(const gwi_spec *spec); /* whether there is a residual; NULL: none */
    /* Keeps the entries of list, which were not sent, or not exactly. */
    void (*keep)(gw_sync *sync, const gwi_list *list);
    /* Returns the factor of the residual before a selector adds to it; NULL: 1. */
    double (*decay)(const gwi_spec *spec);

    /* For memories that change what is sent. All are called with the whole sync, around
     * every exchange of what the spec sends, dense steps included. enter() replaces the
     * vector of this worker with what is handed to the exchange; it is not called if
     * the vector has a note. leave() replaces the average with the result of the step.
     * skip() is called instead of leave(), on all workers, if the step is skipped. All
     * or none are NULL. */
    void (*enter)(gw_sync *sync, float *v);
    void (*leave)(gw_sync *sync, float *v);
    void (*skip)(gw_sync *sync);
} gwi_memory;

/* ---- outer: what is done with the average ------------------------------------------
 */

typedef struct gwi_outer {
    gwi_part part;
    /* * An outer has one of these two. With step(), x is the average of what was sent
     * of the changes since the last common model. It becomes the model to continue
     * from. With gradient(), v is the average gradient of a step that is not skipped.
     * It becomes the result. */
    void (*step)(gw_sync *sync, float *x);
    void (*gradient)(gw_sync *sync, float *v);
} gwi_outer;

/* ---- the parts that other files name ------------------------------------------------
 */

extern const gwi_schedule gwi_schedule_steps, gwi_schedule_periods, gwi_schedule_local,
    gwi_schedule_end, gwi_schedule_never;
extern const gwi_selector gwi_selector_all, gwi_selector_topk, gwi_selector_drop,
    gwi_selector_chunk;
extern const gwi_transform gwi_transform_none;
extern const gwi_coder gwi_coder_f32, gwi_coder_bf16, gwi_coder_levels, gwi_coder_signs,
    gwi_coder_1bit, gwi_coder_2bit;
extern const gwi_exchange gwi_exchange_dense, gwi_exchange_common, gwi_exchange_gather,
    gwi_exchange_pairs, gwi_exchange_tree, gwi_exchange_owner, gwi_exchange_coded,
    gwi_exchange_means;
extern const gwi_memory gwi_memory_none, gwi_memory_residual, gwi_memory_ef21;
extern const gwi_outer gwi_outer_take, gwi_outer_sign;
extern const gwi_part gwi_past_models, gwi_momentum, gwi_ramp, gwi_small_tensors,
    gwi_agreement, gwi_late, gwi_stream;

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

/* Returns whether something is not sent, or not exactly. */
static inline bool gwi_loses(const gwi_spec *spec)
{
    return gwi_exchange_of(spec)->lossy && spec->subject != GWI_MODEL;
}

/* Returns whether the exchange that was asked for, if one was, sends something else
 * than floats. */
static inline bool gwi_exchange_codes(const gwi_spec *spec)
{
    const gwi_exchange *asked = gwi_exchange_of(spec);

    return asked != NULL && asked->codes &&
           (asked->part.off == NULL || !asked->part.off(spec));
}

/* Returns whether what is not sent is kept in a residual. */
static inline bool gwi_keeps_residual(const gwi_spec *spec)
{
    const gwi_memory *memory = gwi_memory_of(spec);

    return memory->keeps != NULL && memory->keeps(spec);
}

/* Returns whether the memory changes what is sent: results are then estimates of the
 * average, and not sums of entries that come late. */
static inline bool gwi_estimates(const gwi_spec *spec)
{
    return gwi_memory_of(spec)->enter != NULL;
}

/* Returns the factor that the residual loses weight by. */
static inline double gwi_decay(const gwi_spec *spec)
{
    const gwi_memory *memory = gwi_memory_of(spec);

    return memory->decay != NULL ? memory->decay(spec) : 1;
}

/* Return whether each worker chooses the entries that it sends, and whether it leaves
 * any out. */
static inline bool gwi_sends_lists(const gwi_spec *spec)
{
    return gwi_selector_of(spec)->run != NULL;
}

static inline bool gwi_chooses(const gwi_spec *spec)
{
    const gwi_selector *selector = gwi_selector_of(spec);

    return selector->run != NULL && !selector->part.off(spec);
}

/* Returns whether the average change of the models is not just added to the last common
 * one. */
static inline bool gwi_steps_outside(const gwi_spec *spec)
{
    return spec->part[GWI_OUTER] != &gwi_outer_take.part &&
           gwi_outer_of(spec)->step != NULL;
}

/* Returns whether a spec sends only some coordinates. */
static inline bool gwi_leaves_out(const gwi_spec *spec)
{
    return spec->part[GWI_SELECTOR] != &gwi_selector_all.part;
}

#endif
