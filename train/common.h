/* SPDX-License-Identifier: Apache-2.0
 *
 * common.h - helpers for every file of the trainer: passing on failures, allocating
 * memory, time, and random numbers that depend on counters alone. */
#ifndef GWT_COMMON_H
#define GWT_COMMON_H

#include "gradwire.h"

/* Passes on a failure. Only the function that detects a failure sets the message. */
#define GWT_TRY(call)               \
    do {                            \
        gw_status st_try_ = (call); \
        if (st_try_ != GW_OK)       \
            return st_try_;         \
    } while (0)

/* On functions whose loops treat each element by itself: the compiler vectorises
 * them whatever the level of optimisation, makes one copy per instruction set, and
 * the loader picks. Multiplications and additions are never contracted, so all
 * copies give the same bits. The sanitizers cannot run before the loader's choice,
 * so they get one plain copy. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GWT_VECTOR \
    __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define GWT_VECTOR
#endif

/* The largest size of a path, with its terminating 0. */
enum { GWT_PATH_CAP = 4096 };

/* count * bytes zeroed bytes aligned to 64, released with gwt_free(), which takes
 * NULL. On failure NULL, and the message says that there was no memory for
 * `what`; the caller returns GW_ERR_NOMEM. */
void *gwt_calloc(size_t count, size_t bytes, const char *what);
void gwt_free(void *memory);

/* For tests: the k-th gwt_calloc() of this thread from now (0 is the next) and
 * all after it fail; (size_t)-1 switches it off. */
void gwt_alloc_fail_at(size_t k);

/* For tests: how many allocations this thread has made. */
size_t gwt_alloc_count(void);

/* Seconds on a clock that never goes back. */
double gwt_now(void);

/* Uses of random numbers; each has a stream of its own. Adding one changes no other
 * stream, but renumbering changes the results of every run. */
enum {
    GWT_STREAM_INIT = 1,
    GWT_STREAM_SHUFFLE = 2,
    GWT_STREAM_SYNTHETIC = 3,
    GWT_STREAM_CONVEX = 4,
    GWT_STREAM_AUGMENT = 5,
    GWT_STREAM_DROPOUT = 6,
    GWT_STREAM_MADE_UP = 7
};

/* 64 random bits that depend on the four numbers and nothing else. */
uint64_t gwt_random(uint64_t seed, uint64_t stream, uint64_t a, uint64_t b);

/* Reads all of text as a finite number in [min, max], or as a whole number of
 * at most max. GW_ERR_ARG; the message begins with `what`. */
gw_status gwt_parse_real(const char *what, const char *text, double min, double max,
                         double *out);
gw_status gwt_parse_count(const char *what, const char *text, uint64_t min,
                          uint64_t max, uint64_t *out);

/* Writes x with as few digits as say exactly this number; returns text. */
const char *gwt_shortest(double x, char text[40]);

/* A length of training as users write it: "500" or "500steps", "2epochs", "0.5epochs".
 */
typedef struct gwt_length {
    double count; /* of steps, or of epochs if... */
    int epochs;   /* ...this is set */
} gwt_length;

/* Reads a length. GW_ERR_ARG; the message begins with `what`. */
gw_status gwt_parse_length(const char *what, const char *text, gwt_length *out);

/* Its steps, where an epoch has so many; parts of a step do not count. */
uint64_t gwt_length_steps(gwt_length length, uint64_t epoch_steps);

/* The name in names[0..count) that is most similar to text, for "did you mean"; NULL if
 * none is similar. Options that follow a ':' in the text do not count. */
const char *gwt_nearest(const char *text, const char *const *names, size_t count);

/* Fails with GW_ERR_ARG because no `what` is called `name`. The message says which of
 * names[0..count) was probably meant. If none is near, it says that `where`, such as
 * "'gradwire list'", shows them; where == NULL: it lists all names. */
gw_status gwt_fail_name(const char *what, const char *name, const char *const *names,
                        size_t count, const char *where);

#endif
