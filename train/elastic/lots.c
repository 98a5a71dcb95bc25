/* SPDX-License-Identifier: Apache-2.0
 *
 * lots.c - which batches a worker gets where workers come and go. */
#include "elastic/lots.h"

#include <string.h>

void gwt_lots_begin(gwt_lots *l, uint64_t batches, uint64_t exchange)
{
    memset(l, 0, sizeof *l);
    l->next = l->used = batches;
    l->exchange = exchange;
}

static void give_back(gwt_lots *l, gwt_lot lot)
{
    lot.id = 0;
    if (lot.count == 0)
        return;
    if (l->returned_count == GWT_MOST_RETURNED) {
        l->skipped += lot.count;
        return;
    }
    l->returned[l->returned_count++] = lot;
}

/* Takes a lot of so many batches out of those that were returned, the oldest first. */
static int take_returned(gwt_lots *l, uint64_t steps, gwt_lot *out)
{
    for (uint64_t i = 0; i < l->returned_count; i++) {
        gwt_lot *r = &l->returned[i];
        if (r->count < steps)
            continue;
        out->first = r->first;
        out->stride = r->stride;
        out->count = steps;
        r->first += steps * r->stride;
        r->count -= steps;
        if (r->count == 0) {
            l->returned_count--;
            memmove(r, r + 1, (size_t)(l->returned_count - i) * sizeof *r);
        }
        return 1;
    }
    return 0;
}

static uint64_t share_of(const gwt_lot *lot, uint64_t steps)
{
    return lot->share > 0 && lot->share < steps ? lot->share : steps;
}

/* What a worker does not get of a lot is returned. */
static void shorten(gwt_lots *l, gwt_lot *lot, uint64_t count)
{
    gwt_lot tail = {.first = lot->first + count * lot->stride,
                    .stride = lot->stride,
                    .count = lot->count - count};

    lot->count = count;
    give_back(l, tail);
}

/* Gives lots to all that have none. */
static void deal(gwt_lots *l, uint64_t steps)
{
    uint64_t rest = 0, i = 0;

    for (uint64_t r = 0; r < l->count; r++)
        if (l->lots[r].count == 0 &&
            !take_returned(l, share_of(&l->lots[r], steps), &l->lots[r]))
            rest++;
    for (uint64_t r = 0; r < l->count; r++) {
        gwt_lot *lot = &l->lots[r];
        if (lot->count > 0)
            continue;
        lot->first = l->next + i++;
        lot->stride = rest;
        lot->count = steps;
        shorten(l, lot, share_of(lot, steps));
    }
    l->next += rest * steps;
}

static int find(const gwt_lot *lots, uint64_t count, uint64_t id)
{
    for (uint64_t i = 0; i < count; i++)
        if (lots[i].id == id)
            return (int)i;
    return -1;
}

void gwt_lots_follow(gwt_lots *l, const uint64_t *ids, size_t count, uint64_t steps)
{
    gwt_lot now[GWT_MOST_LOTS];

    count = count < GWT_MOST_LOTS ? count : GWT_MOST_LOTS;
    for (size_t r = 0; r < count; r++) {
        int at = find(l->lots, l->count, ids[r]);
        now[r] = at >= 0 ? l->lots[at] : (gwt_lot){.id = ids[r]};
        if (at >= 0)
            l->lots[at].count = 0;
    }
    for (uint64_t i = 0; i < l->count; i++)
        give_back(l, l->lots[i]);
    memcpy(l->lots, now, count * sizeof *now);
    l->count = count;
    deal(l, steps);
}

void gwt_lots_use(gwt_lots *l, uint64_t exchange, uint64_t steps)
{
    uint64_t made = exchange - l->exchange;

    for (uint64_t r = 0; r < l->count; r++) {
        gwt_lot *lot = &l->lots[r];
        uint64_t used = made < lot->count ? made : lot->count;
        lot->first += used * lot->stride;
        lot->count -= used;
        l->used += used;
        give_back(l, *lot);
        lot->count = 0;
    }
    l->exchange = exchange;
    deal(l, steps);
}

uint64_t gwt_lots_batch(const gwt_lots *l, size_t rank, uint64_t i)
{
    const gwt_lot *lot = &l->lots[rank];

    return lot->first + i % lot->count * lot->stride;
}

int gwt_lots_good(const gwt_lots *l)
{
    if (l->count > GWT_MOST_LOTS || l->returned_count > GWT_MOST_RETURNED)
        return 0;
    for (uint64_t r = 0; r < l->count; r++)
        if (l->lots[r].count == 0)
            return 0;
    return 1;
}
