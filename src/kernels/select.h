/* SPDX-License-Identifier: Apache-2.0
 *
 * select.h - which coordinates go out: the largest, or those above a threshold.
 *
 * The residual r takes in the gradient g, and the chosen entries move from r to
 * a list (index ascending, value), leaving 0 behind: what is not sent stays.
 *
 * Magnitudes are compared as bit patterns without the sign. That is a total
 * order: -0 equals 0, NaN is above infinity and equal to every NaN. Among equal
 * magnitudes the lower index goes first. So everything here is EXACT: the same
 * lists and the same r on every instruction set and for every number of threads,
 * down to which NaN a NaN is.
 *
 * Nothing allocates. n is at most 2^32 - 1. */
#ifndef GWI_SELECT_H
#define GWI_SELECT_H

#include "gradwire.h"
#include "kernels/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A list that grows up to cap entries. */
typedef struct gwi_list {
    uint32_t *index;
    float *value;
    size_t n, cap;
} gwi_list;

/* ---- the k largest --------------------------------------------------------- */

/* What one selection leaves for the next on the same vector: a guess at where
 * the threshold lies. It changes how long a selection takes, never its result.
 * Zeroed bytes are a valid beginning. */
typedef struct gwi_topk_guess {
    size_t n, k;     /* what it holds for */
    float threshold; /* magnitude of the k-th largest, 0 if there were fewer */
    float margin;    /* part of it by which to aim lower */
} gwi_topk_guess;

/* Memory for candidates. */
typedef struct gwi_topk_work {
    uint32_t *index;
    float *value;
    size_t entries;
    unsigned parts;
} gwi_topk_work;

/* Bytes needed to select up to k of n floats on `parts` threads (1 to GWI_THREADS_MAX;
 * gwi_threads() is the natural choice). */
size_t gwi_topk_work_bytes(size_t n, size_t k, unsigned parts);

/* Carves the work out of memory (that many bytes, aligned to 4), which the caller
 * keeps and frees. */
void gwi_topk_work_init(gwi_topk_work *work, void *memory, size_t n, size_t k,
                        unsigned parts);

/* r += g (g NULL: r as it is), then moves the k largest of r to index and value (room
 * for k entries each), or as many as there are that are not 0: zeros stay. Returns how
 * many. k <= n, and n and k are at most what work was made for. One pass over r and g
 * when the guess holds. */
size_t gwi_select_topk(gwi_topk_guess *guess, gwi_topk_work *work, float *r,
                       const float *g, size_t n, size_t k, uint32_t *index,
                       float *value);

/* The same for a gradient in pieces, n floats in all. */
size_t gwi_select_topk_of(gwi_topk_guess *guess, gwi_topk_work *work, float *r,
                          const gw_piece *pieces, size_t count, size_t n, size_t k,
                          uint32_t *index, float *value);

/* ---- the k largest of each tile ---------------------------------------------- */

/* A vector cut into runs of so many floats, of which the last may be shorter. */
typedef struct gwi_tiles {
    gwi_topk_guess *guesses; /* one for each tile */
    gwi_topk_work *work;     /* for any of them */
    size_t floats;           /* of a tile, at least 1 */
    size_t k, last_k;        /* entries of a whole tile, and of a shorter one */
} gwi_tiles;

/* gwi_select_topk() for each tile in turn, while it is in the cache; index counts from
 * the beginning of r. Returns how many entries were moved in all. */
size_t gwi_select_tiles(const gwi_tiles *tiles, float *r, const float *g, size_t n,
                        uint32_t *index, float *value);

/* ---- above a threshold ----------------------------------------------------- */

/* What is to go: entries of a magnitude above that of `value` and, if `ties`, those of
 * its own. There are no ties with 0 or NaN. */
typedef struct gwi_threshold {
    float value;
    bool ties;
} gwi_threshold;

/* r += g (g NULL: r as it is), then moves the entries that the threshold lets go to
 * out, which is emptied first. When out is full, the rest stays in r: nothing is
 * lost. A NaN threshold keeps everything in r. Returns whether out had room for all;
 * false may be returned where it just had. */
bool gwi_select_above(float *r, const float *g, size_t n, gwi_threshold threshold,
                      gwi_list *out);

enum { GWI_SAMPLES_MAX = 100000 };

/* The threshold above which about a part 1 - rate of r + g lies: of s =
 * min(n, GWI_SAMPLES_MAX) magnitudes at equal strides n div s, the one at place
 * max(0, floor(s * rate) - 1) in ascending order. 0 for n = 0, NaN if it is a
 * NaN. Samples behind that place are to go, one at least: where not all of them are
 * larger, ties go, too. 0 <= rate <= 1. r and g are not changed; g may be NULL.
 * scratch is room for GWI_THRESHOLD_FLOATS(n) floats. */
#define GWI_THRESHOLD_FLOATS(n)                                              \
    (3 * ((size_t)(n) < (size_t)GWI_SAMPLES_MAX ? (size_t)(n)                \
                                                : (size_t)GWI_SAMPLES_MAX) + \
     64)
gwi_threshold gwi_sampled_threshold(const float *r, const float *g, size_t n,
                                    double rate, float *scratch);

/* The same for samples (1 to GWI_SAMPLES_MAX of them) that are in the front of scratch
 * already, which is changed. */
gwi_threshold gwi_threshold_of(float *scratch, size_t samples, double rate);

/* gwi_sampled_threshold(), then gwi_select_above() with what it finds, which is also
 * left in *threshold. In one pass over r and g when few entries go and the guess,
 * zeroed at the beginning, holds; the guess changes how long it takes, never the
 * result. */
bool gwi_select_sampled(gwi_topk_guess *guess, float *r, const float *g, size_t n,
                        double rate, float *scratch, gwi_threshold *threshold,
                        gwi_list *out);

/* Counts the entries of a magnitude above that of `value`, and those of its own. */
void gwi_count_above(const float *r, size_t n, float value, size_t *above,
                     size_t *ties);

/* The end of the shortest front of r that has `count` entries of just the magnitude of
 * `value`, n if r has not so many. */
size_t gwi_ties_end(const float *r, size_t n, float value, size_t count);

/* Puts the entries of a list back to where they were taken from. */
void gwi_put_back(const gwi_list *list, float *r);

/* ---- pieces ---------------------------------------------------------------- */

/* The order in which magnitudes are compared, 0 to GWI_KEY_NAN. */
enum { GWI_KEY_NAN = 0x7f800001 };
int32_t gwi_magnitude_key(float x);

/* The key of the k-th largest of n values, 1 <= k <= n. *ties is how many of the
 * entries with that very key are among the k largest. */
int32_t gwi_nth_key(const float *value, size_t n, size_t k, size_t *ties);

/* Splits list (n >= k >= 1 entries) into its k largest and the others, both in the
 * order of list, and returns the key of the k-th. largest has room for k entries,
 * others for the rest; one of the two may be list itself. */
int32_t gwi_split_largest(const gwi_list *list, size_t k, gwi_list *largest,
                          gwi_list *others);

/* Which of `samples` magnitudes in descending order is their threshold, and the
 * threshold that its key makes, with as many ties as gwi_nth_key() has counted. */
size_t gwi_threshold_rank(size_t samples, double rate);
gwi_threshold gwi_threshold_at(int32_t key, size_t rank, size_t ties);

/* Learns from a selection of the k-th largest of n that found so many candidates above
 * the guess, and the key nth. */
void gwi_guess_learn(gwi_topk_guess *guess, size_t n, size_t k, size_t found,
                     int32_t nth);

/* The bound above which collect() is to find candidates, if the guess holds for k of n;
 * otherwise -1. */
int32_t gwi_guess_bound(const gwi_topk_guess *guess, size_t n, size_t k);

/* From so many floats on, threads share a pass. */
enum { GWI_SHARED_MIN = 1 << 19 };

/* Room that collect() wants in the list for every step it makes. */
enum { GWI_COLLECT_ROOM = 32 };

/* Most values that are few; keys are padded to whole steps. */
enum { GWI_FEW_MAX = 4096, GWI_FEW_STEP = 32 };

typedef struct gwi_select_kernels {
    const char *isa; /* "c", "avx2", "avx512" or "neon" */

    /* r += g over [begin, end) (g NULL: r as it is) and moves the entries whose
     * bits without the sign are greater than `above` (-1: all) to the end of out.
     * Returns end, or the lower index at which it stopped, because out had fewer
     * than GWI_COLLECT_ROOM free entries: from there on nothing was touched. */
    size_t (*collect)(float *r, const float *g, size_t begin, size_t end, int32_t above,
                      gwi_list *out);

    /* Up to so many values, the key of a certain rank is found by counting keys above
     * one bound after the other. */
    size_t few;

    /* Writes the keys of n <= few values, at least one, and -1 up to a whole step.
     * Returns the bits in which keys differ. */
    uint32_t (*keys)(int32_t *keys, const float *value, size_t n);

    /* How many of n keys so written are at least `least`, which is above -1. */
    size_t (*count_from)(const int32_t *keys, size_t n, int32_t least);

    /* Moves the k entries of from whose keys are larger than nth, or are among the
     * first `ties` of those that are the same, to largest, and the others to others,
     * each in order and with room for no more. One of the two may be from itself. k may
     * also be anything above from->n, if nobody has counted them. */
    void (*split)(const gwi_list *from, size_t k, int32_t nth, size_t ties,
                  gwi_list *largest, gwi_list *others);
} gwi_select_kernels;

/* Whether an entry with this key is among the largest, of which nth is the least
 * and has *ties entries left. Without a branch: nobody could predict it. */
static inline size_t gwi_is_largest(int32_t key, int32_t nth, size_t *ties)
{
    size_t tie = (size_t)(key == nth) & (size_t)(*ties > 0);

    *ties -= tie;
    return (size_t)(key > nth) | tie;
}

/* The kernels that flags allow, those of this CPU, and the parts of the former;
 * kernels.h has the convention. */
void gwi_select_for(unsigned flags, gwi_select_kernels *k);
const gwi_select_kernels *gwi_select(void);
void gwi_select_avx2(gwi_select_kernels *k);
void gwi_select_avx512(gwi_select_kernels *k);
void gwi_select_neon(gwi_select_kernels *k);

#endif
