/* SPDX-License-Identifier: Apache-2.0
 *
 * selection.h - takes the chosen coordinates out of residual + vector, and puts back
 * what was not sent. */
#ifndef GWI_SELECTION_H
#define GWI_SELECTION_H

#include "sync/sync.h"

/* max(1, floor(density n)), as gTop-k has it, and at most n. */
size_t gwi_entries(double density, size_t n);

/* A list of up to cap entries in 8 * cap bytes of memory. */
static inline gwi_list gwi_list_in(void *memory, size_t cap)
{
    uint32_t *index = memory;

    return (gwi_list){index, (float *)(void *)(index + cap), 0, cap};
}

/* The entries that the present step asks for. There are fewer where fewer are not 0;
 * above a threshold there may be more, too. */
size_t gwi_wanted(const gw_sync *sync);

/* Takes the vector at `at` into the residual, and moves the chosen coordinates to
 * sync->list. Without a residual they come out of the vector itself, and what is left
 * there is lost. */
void gwi_choose(gw_sync *sync, const gwi_result *at);

/* Gives back what was not sent, or not exactly. */
void gwi_keep(gw_sync *sync, const gwi_list *list);

/* Copies a list, for which `to` has room. */
void gwi_list_copy(gwi_list *to, const gwi_list *from);

/* Returns whether the list, whose indices ascend, has this one. Asked for ascending
 * indices, from *at = 0 on. */
bool gwi_list_has(const gwi_list *list, size_t *at, uint32_t index);

/* Adds to the residual those entries whose index is in the final list, or is not. The
 * indices of both ascend. */
void gwi_keep_if(gw_sync *sync, const gwi_list *list, const gwi_list *final, bool in);

/* Clears the result, and adds a list whose entries ascend. */
void gwi_result_clear(const gw_sync *sync, const gwi_result *at);
void gwi_result_add(const gw_sync *sync, const gwi_result *at, const gwi_list *list);

/* Whether this step's gradient can go straight into the residual. */
bool gwi_goes_straight(const gw_sync *sync);

/* Whether bad numbers are looked for among what was selected, and not in the gradient:
 * see gwi_look_at_selected(). */
bool gwi_looks_later(const gw_sync *sync);

/* Whether they are looked for while the gradient is summed. Nothing between the call
 * and the sum may have to know. */
bool gwi_looks_along(const gw_sync *sync);

/* An exchange whose note is 0 has what was selected looked at, and sends the note that
 * this returns. Where a bad number ends the run anyway (GW_NONFINITE_END), exact top-k
 * does not read the gradient an extra time to find it: NaN and infinity are larger than
 * everything, so they are among what was selected; the residual is then spoiled.
 * Otherwise the gradient was good, and the residual has overflowed. */
gwi_note gwi_look_at_selected(gw_sync *sync);

/* Finite entries may add up to more than a float holds. Such a sum is of no use to
 * anybody: it becomes 0, and the note that this returns says where. */
gwi_note gwi_drop_overflow(const gw_sync *sync, const gwi_list *list);

#endif
