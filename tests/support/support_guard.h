/* SPDX-License-Identifier: Apache-2.0
 *
 * support_guard.h - buffers with an inaccessible page on either side.
 *
 *     | no access | canary ... canary | data | gap | no access |   GUARD_END
 *     | no access | gap | data | canary ...       | no access |   GUARD_START
 *
 * A read or write across the page is a crash at once; a write into the bytes
 * between is found by guard_intact(). */
#ifndef GW_SUPPORT_GUARD_H
#define GW_SUPPORT_GUARD_H

#include <stddef.h>

typedef enum guard_side { GUARD_END, GUARD_START } guard_side;

typedef struct guard {
    unsigned char *map;   /* first inaccessible page */
    unsigned char *begin; /* first accessible byte */
    size_t cap;           /* accessible bytes, a multiple of the page */
    unsigned char *data;  /* where guard_place() last put its bytes */
    size_t len;
} guard;

/* Makes room for at least cap bytes. Ends the process on failure: a test that
 * has no memory has nothing to say. */
void guard_init(guard *g, size_t cap);
void guard_fini(guard *g);

/* Hands out len bytes that lie gap bytes from the inaccessible page of that
 * side: with gap 0 they are flush against it. All other bytes become canaries,
 * the len bytes zero. len + gap is at most cap. What was placed before is gone. */
void *guard_place(guard *g, size_t len, guard_side side, size_t gap);

/* Whether every byte outside the placed ones still is as guard_place() left it. */
int guard_intact(const guard *g);

#endif
