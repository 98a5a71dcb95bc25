/* SPDX-License-Identifier: Apache-2.0
 *
 * base.h - what every file inside the library may use: a macro that passes failures
 * on, and the one pair of functions that allocates and frees memory. */
#ifndef GWI_BASE_H
#define GWI_BASE_H

#include "gradwire.h"

/* Passes a failure on: callers add nothing, only who notices speaks. */
#define GWI_TRY(call)               \
    do {                            \
        gw_status st_try_ = (call); \
        if (st_try_ != GW_OK)       \
            return st_try_;         \
    } while (0)

/* Copies what is known, `own` bytes that begin with a struct_size, to a caller's
 * struct, which says first how long it is and has never been shorter than `least`: that
 * of the type's version 0.1. GW_ERR_ARG. */
gw_status gwi_hand_out(void *to, const void *known, size_t own, size_t least,
                       const char *type);

/* count * bytes zeroed bytes aligned to 64, or NULL without a message; released
 * with gwi_free(), which takes NULL. A product that overflows is NULL. */
void *gwi_calloc(size_t count, size_t bytes);
void gwi_free(void *memory);

/* For tests: the k-th gwi_calloc() from now (0 is the next) and all after it
 * fail; (size_t)-1 switches it off. Per thread, like the counts below. */
void gwi_alloc_fail_at(size_t k);

/* For tests: how many allocations this thread has made. */
size_t gwi_alloc_count(void);

/* For tests: how many bytes this thread holds: what it allocated less what it freed,
 * so memory that changes threads counts on both. */
size_t gwi_alloc_bytes(void);

/* The most floats that a message can be about, so that longer vectors are cut. Tests
 * may set less while no sync is there, and must be alone in their process. */
#define GWI_SEGMENT_FLOATS UINT32_MAX
extern size_t gwi_segment_floats;

/* Seconds of a clock that only moves forward, the same for all processes. */
double gwi_now(void);

#endif
