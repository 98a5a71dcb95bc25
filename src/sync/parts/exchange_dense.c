/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_dense.c - the average of whole vectors by all-reduce, bucket by bucket. */
#include "sync/buckets.h"
#include "sync/measure.h"
#include "sync/path.h"
#include "sync/segments.h"
#include "sync/selection.h"

static gw_status dense_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_decodes(s);
    return gwi_looks_along(s) ? gwi_average_dense_looking(s, at->v, note)
                              : gwi_average_dense(s, at->v, note);
}

/* The buckets of a segment, which has its own: from its end on, pieces of tensors. */
static gwi_path path_of_segment(const gw_layout *l, const gwi_cut *cut, int workers)
{
    gwi_path sum = {0, 0};
    size_t end = cut->end;

    for (size_t t = l->count; t-- > 0 && end > cut->begin;) {
        size_t first = l->tensors[t].offset;
        if (first < cut->begin)
            first = cut->begin;
        if (first >= end || (end - first < GWI_BUCKET_FLOATS && first > cut->begin))
            continue;
        gwi_path one = gwi_path_of_sum((double)(end - first), workers);
        sum.rounds += one.rounds;
        sum.bytes += one.bytes;
        end = first;
    }
    return sum;
}

static gwi_path dense_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    gwi_path sum = {0, 0};
    gwi_cut cut = {.spec = spec};

    while (gwi_cut_next(layout, &cut)) {
        gwi_path one = path_of_segment(layout, &cut, workers);
        sum.rounds += one.rounds;
        sum.bytes += one.bytes;
    }
    return gwi_path_repeated(sum, t);
}

const gwi_exchange gwi_exchange_dense = {
    .part = {.name = "dense"},
    .run = dense_run,
    .looks = true,
    .path = dense_path,
};

const gwi_stage gwi_stage_dense = {
    .name = "dense",
    .summary = "average every gradient in full: mini-batch SGD",
    .example = "dense",
    .cost = "8n(P-1)/P bytes, by all-reduce",
    .expect = "the baseline, and the best where the network is fast",
    .role = GWI_ROLE_WHICH,
    .recipe = true,
    .keys = "delay lead",
};
