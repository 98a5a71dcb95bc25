/* SPDX-License-Identifier: Apache-2.0
 *
 * selector.h - which coordinates are sent: those taken out of residual + vector. */
#ifndef GWI_SELECTOR_H
#define GWI_SELECTOR_H

#include "kernels/select.h"
#include "sync/sync.h"

/* What is to be sent of a tensor, or of all, by a threshold. */
typedef struct gwi_cut {
    gwi_threshold threshold;
    size_t above; /* entries that are larger, */
    size_t ties;  /* that are not, */
    size_t taken; /* and those of them for which there is room */
} gwi_cut;

typedef struct gwi_selector {
    gwi_topk_guess guess;
    gwi_topk_work work;
    gwi_list list;  /* what was selected last, indices ascending */
    float *scratch; /* of sampled thresholds */
    gwi_cut *cuts;  /* of each tensor; the first one if there is one for all */
    void *memory;
} gwi_selector;

/* The most entries that one selection can give. */
size_t gwi_selector_most(const gwi_spec *spec, size_t n);

/* The entries that the present step asks for. There are fewer where fewer are not 0;
 * above a threshold there may be more, too. */
size_t gwi_selector_wanted(const gw_sync *sync);

gw_status gwi_selector_init(gwi_selector *sel, const gw_sync *sync);
void gwi_selector_fini(gwi_selector *sel);

/* Takes v into the residual - through the momentum correction, if there is one - and
 * moves the chosen coordinates, none of which is 0, to sel->list. Without a residual
 * they come out of v itself, and what is left there is lost. */
void gwi_selector_run(gwi_selector *sel, gw_sync *sync, float *v);

/* Adds a list to the residual, if there is one. */
void gwi_residual_add(gw_sync *sync, const gwi_list *list);

#endif
