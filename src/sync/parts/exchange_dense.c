/* SPDX-License-Identifier: Apache-2.0
 *
 * exchange_dense.c - the average of whole vectors by all-reduce, bucket by bucket. */
#include "sync/buckets.h"
#include "sync/measure.h"
#include "sync/path.h"

static gw_status dense_run(gw_sync *s, const gwi_result *at, gwi_note *note)
{
    gwi_decodes(s);
    return gwi_average_dense(s, at->v, note);
}

static gwi_path dense_path(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    gwi_bucket bucket = {.first_tensor = layout->count};
    gwi_path sum = {0, 0};

    (void)spec;
    while (gwi_bucket_next(layout, &bucket)) {
        gwi_path one = gwi_path_of_sum((double)(bucket.end - bucket.begin), workers);
        sum.rounds += one.rounds;
        sum.bytes += one.bytes;
    }
    return gwi_path_repeated(sum, t);
}

const gwi_exchange gwi_exchange_dense = {
    .part = {.name = "dense"},
    .run = dense_run,
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
