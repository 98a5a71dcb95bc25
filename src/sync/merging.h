/* SPDX-License-Identifier: Apache-2.0
 *
 * merging.h - what exchanges that merge lists have in common (gTop-k): what a worker
 * remembers until the final list is known, and who keeps entries that lose.
 *
 * By `putback`:
 *
 *     own    index not in the final W: whoever brought an entry takes it back, whole.
 *            Index in it: what a merge on another branch rejected stays with the worker
 *            that merged. Nothing is lost, and no residual gathers what others brought.
 *     keep   they stay with the worker that merged. Nothing is lost, but the residuals
 *            of low ranks fill with the entries of others. Training suffers, unless
 *            all workers have one velocity (docs/methods.md).
 *     paper  as published, `own` without its second half. An entry that lost in an
 *            inner merge, while its index won elsewhere, is lost for good.
 *
 * What `paper` loses is counted by the worker that merged. */
#ifndef GWI_MERGING_H
#define GWI_MERGING_H

#include "sync/sync.h"

/* Merges of one worker in one exchange: log2 of the workers, and one more, at most. */
enum { GWI_MERGES_MAX = 32 };

/* The state of such an exchange. Lists are of k entries where nothing else is said. */
typedef struct gwi_merging {
    gwi_list theirs, others;           /* read; rejected, 2k entries */
    gwi_list own;                      /* unless putback=keep: what it brought; */
    gwi_list rejected[GWI_MERGES_MAX]; /* what each of its merges rejected; */
    gwi_list error[GWI_MERGES_MAX];    /* what coding took from lists that it sent */
    int merges, merges_cap, errors, errors_cap; /* in this exchange; room for them */
    uint8_t *out, *in;                          /* messages */
    size_t cap;
    void *memory;
} gwi_merging;

/* The keys, and the options that they set. The first is the choice of exchange_coded.c,
 * which takes the place of such an exchange where everything is sent in few bits, and
 * finds its options here. */
typedef struct gwi_merging_options {
    int of_whole;
    int putback, via;
} gwi_merging_options;

enum { GWI_VIA_AUTO, GWI_VIA_PAIRS, GWI_VIA_TREE };

extern const gwi_key gwi_merging_keys[];

/* gwi_part.off and fini. */
bool gwi_merging_off(const gwi_spec *spec);
void gwi_merging_fini(gw_sync *sync);

/* For a worker that does at most so many merges and codings that it must remember. */
gw_status gwi_merging_init(gw_sync *sync, int merges, int codings);

/* Selects W, sync->list. It is empty if there is a note. */
void gwi_merging_begin(gw_sync *sync, const gwi_result *at, gwi_note *note);

/* Reads a list that worker `from` sent. */
gw_status gwi_merging_read(gw_sync *sync, int from, const uint8_t *msg, size_t len,
                           gwi_list *list);

/* Remembers what coding took from the list that was sent (its values are the error), or
 * what a merge left in `others`. With putback=keep it goes to the residual at once. */
void gwi_merging_lost_in_code(gw_sync *sync, const gwi_list *error);
void gwi_merging_rejected(gw_sync *sync);

/* sync->list is the final list, or there is a note: everybody keeps what is theirs, and
 * the list, divided, becomes the result. */
void gwi_merging_end(gw_sync *sync, const gwi_result *at, gwi_note note);

#endif
