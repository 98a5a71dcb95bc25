/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.c - every stage a spec can name: the recipes, each the answers of one
 * paper, and the stages that refine them. To add one: its keys, one entry. Whatever is
 * told about a stage, by gw_stage_describe() and 'gradwire list NAME', is told here. */
#include "sync/spec.h"

#define AT(field) offsetof(gwi_options, field)
#define COUNT_MAX 1e12

static const gwi_key density = {.name = "density",
                                .meaning = "part of the coordinates that is sent",
                                .range = "above 0, at most 1 (1: all)",
                                .least = 1e-9,
                                .most = 1,
                                .at = AT(density),
                                .kind = GWI_NUMBER};
static const gwi_key rate = {.name = "rate",
                             .meaning = "part of the coordinates that is dropped",
                             .range = "from 0 (nothing is dropped) to below 1",
                             .least = 0,
                             .most = 1 - 1e-9,
                             .at = AT(rate),
                             .kind = GWI_NUMBER};
static const gwi_key every = {
    .name = "every",
    .meaning = "steps between averages of the models; grow: longer and longer periods",
    .words = "grow",
    .range = "a count of steps from 1, or grow",
    .least = 1,
    .most = COUNT_MAX,
    .at = AT(every),
    .kind = GWI_COUNT};
static const gwi_key period = {.name = "every",
                               .meaning = "steps between exchanges",
                               .range = "a count of steps from 1",
                               .least = 1,
                               .most = COUNT_MAX,
                               .at = AT(every),
                               .kind = GWI_COUNT};
static const gwi_key chunks = {.name = "chunks",
                               .meaning =
                                   "steps in which every coordinate is averaged once",
                               .range = "a count of steps from 1",
                               .least = 1,
                               .most = 1e6,
                               .at = AT(chunks),
                               .kind = GWI_COUNT};
static const gwi_key bits = {.name = "bits",
                             .meaning = "bits of each value",
                             .range = "2 to 8, or 32 (not quantized)",
                             .least = 2,
                             .most = 32,
                             .at = AT(bits),
                             .kind = GWI_COUNT};
static const gwi_key bucket = {.name = "bucket",
                               .meaning = "values that share a norm",
                               .fallback = "512",
                               .range = "a multiple of 8 from 8 to 65536",
                               .least = 8,
                               .most = 65536,
                               .at = AT(bucket),
                               .kind = GWI_COUNT};
static const gwi_key norm = {
    .name = "norm",
    .meaning = "what a bucket is scaled by: Euclidean norm, or largest magnitude",
    .fallback = "max",
    .words = "l2|max",
    .at = AT(norm),
    .kind = GWI_WORD};
static const gwi_key residual_on = {.name = "residual",
                                    .meaning =
                                        "whether what was not sent is kept for later",
                                    .fallback = "on",
                                    .words = "off|on",
                                    .at = AT(residual),
                                    .kind = GWI_WORD};
static const gwi_key residual_off = {
    .name = "residual",
    .meaning = "whether the error of rounding is kept for later",
    .fallback = "off",
    .words = "off|on",
    .at = AT(residual),
    .kind = GWI_WORD};
static const gwi_key threshold = {
    .name = "threshold",
    .meaning = "one threshold for the whole model, or one for each tensor",
    .fallback = "global",
    .words = "global|tensor",
    .at = AT(scope),
    .kind = GWI_WORD};
static const gwi_key centre1 = {
    .name = "centre",
    .meaning =
        "what a sign stands for: mean kept magnitude, least, or mean of its column",
    .fallback = "mean",
    .words = "mean|threshold|column",
    .at = AT(centre),
    .kind = GWI_WORD};
static const gwi_key centre2 = {
    .name = "centre",
    .meaning = "what the two magnitudes are taken from: means, or the threshold",
    .fallback = "mean",
    .words = "mean|threshold",
    .at = AT(centre),
    .kind = GWI_WORD};
static const gwi_key putback = {
    .name = "putback",
    .meaning = "whether entries that lose in a merge are kept; paper loses some",
    .fallback = "keep",
    .words = "keep|paper",
    .at = AT(putback),
    .kind = GWI_WORD};
static const gwi_key warmup = {.name = "warmup",
                               .meaning = "dense steps at the beginning",
                               .fallback = "0",
                               .range = "a count of dense steps",
                               .least = 0,
                               .most = COUNT_MAX,
                               .at = AT(warmup),
                               .kind = GWI_COUNT};
static const gwi_key ladder = {
    .name = "ladder",
    .meaning = "then steps at each density from 0.25 down to the one asked for",
    .fallback = "0",
    .range = "a count of steps on each rung",
    .least = 0,
    .most = COUNT_MAX,
    .at = AT(ladder),
    .kind = GWI_COUNT};
static const gwi_key dense_below = {.name = "dense_below",
                                    .meaning = "tensors of fewer floats are sent whole",
                                    .fallback = "0",
                                    .range = "a count of floats",
                                    .least = 0,
                                    .most = COUNT_MAX,
                                    .at = AT(dense_below),
                                    .kind = GWI_COUNT};
static const gwi_key resync = {.name = "resync",
                               .meaning = "steps between averages of the models",
                               .fallback = "0",
                               .range = "a count of steps, 0 for never",
                               .least = 0,
                               .most = COUNT_MAX,
                               .at = AT(resync),
                               .kind = GWI_COUNT};
static const gwi_key start = {.name = "start",
                              .meaning = "dense steps before the first local one",
                              .fallback = "0",
                              .range = "the step from which on steps are local",
                              .least = 0,
                              .most = COUNT_MAX,
                              .at = AT(start),
                              .kind = GWI_COUNT};
static const gwi_key grow = {
    .name = "grow",
    .meaning = "factor c of growing periods: c sqrt(s) / P steps after step s",
    .fallback = "1",
    .range = "a factor above 0",
    .least = 1e-6,
    .most = 1e6,
    .at = AT(grow),
    .kind = GWI_NUMBER};
static const gwi_key average = {
    .name = "average",
    .meaning = "the result: the last models, or the average of all models of all steps",
    .fallback = "none",
    .words = "none|polyak",
    .at = AT(average),
    .kind = GWI_WORD};
static const gwi_key via = {
    .name = "via",
    .meaning =
        "whole vectors to all, or segments to owners and back; auto: what sends less",
    .fallback = "auto",
    .words = "auto|gather|scatter",
    .at = AT(via),
    .kind = GWI_WORD};
static const gwi_key seed = {
    .name = "seed",
    .meaning = "of random rounding; it is added to the seed of the sync",
    .fallback = "0",
    .range = "a count",
    .least = 0,
    .most = COUNT_MAX,
    .at = AT(seed),
    .kind = GWI_COUNT};
static const gwi_key momentum = {
    .name = "momentum",
    .meaning = "momentum before the selection; the optimizer should have none",
    .range = "from 0 to below 1",
    .least = 0,
    .most = 1 - 1e-9,
    .at = AT(momentum),
    .kind = GWI_NUMBER};
static const gwi_key clip = {
    .name = "clip",
    .meaning = "clips the gradient; each worker clips its own at clip / sqrt(P)",
    .fallback = "0",
    .range = "the largest norm of a gradient, 0 for any",
    .least = 0,
    .most = 1e30,
    .at = AT(clip),
    .kind = GWI_NUMBER};
static const gwi_key mask = {.name = "mask",
                             .meaning =
                                 "whether entries that are sent lose their velocity",
                             .fallback = "on",
                             .words = "off|on",
                             .at = AT(mask),
                             .kind = GWI_WORD};

static const gwi_key check_every = {.name = "every",
                                    .meaning =
                                        "steps between comparisons of the models",
                                    .range = "a count of steps, 0 for never",
                                    .least = 0,
                                    .most = COUNT_MAX,
                                    .at = AT(check),
                                    .kind = GWI_COUNT};

#define KEYS(...) ((const gwi_key *const[]){__VA_ARGS__, NULL})
#define NO_KEYS   ((const gwi_key *const[]){NULL})

static const gwi_stage table[] = {
    {.name = "dense",
     .summary = "average every gradient, all of it: mini-batch SGD",
     .example = "dense",
     .cost = "8n(P-1)/P bytes, by all-reduce",
     .expect = "the baseline, and the best where the network is fast",
     .role = GWI_ROLE_WHICH,
     .recipe = true,
     .keys = NO_KEYS},
    {.name = "none",
     .summary = "never talk: the control every experiment needs",
     .example = "none",
     .cost = "nothing",
     .expect =
         "each worker trains alone; what others gain over it is what talking is worth",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .when = GWI_WHEN_NEVER,
     .keys = NO_KEYS},
    {.name = "topk",
     .summary = "the largest entries of each gradient, gathered; the rest stays behind",
     .example = "topk:0.001",
     .cost = "at most density n entries, to each of the P-1 others",
     .expect =
         "bytes grow with the number of workers; with many of them gtopk sends less",
     .role = GWI_ROLE_WHICH,
     .recipe = true,
     .which = GWI_WHICH_TOPK,
     .combine = GWI_COMBINE_GATHER,
     .keys = KEYS(&density, &residual_on, &warmup, &ladder, &dense_below)},
    {.name = "gtopk",
     .summary = "the largest entries of all gradients, by a tree (Shi et al. 2019)",
     .example = "gtopk:0.001",
     .cost = "at most density n entries up a tree, and as many down it",
     .expect =
         "bytes grow with log2 P only; a merge costs time in each round of the tree",
     .role = GWI_ROLE_WHICH,
     .recipe = true,
     .which = GWI_WHICH_TOPK,
     .combine = GWI_COMBINE_TREE,
     .keys = KEYS(&density, &putback, &residual_on, &warmup, &ladder, &dense_below)},
    {.name = "drop",
     .summary = "gradient dropping, a sampled threshold (Aji & Heafield 2017)",
     .example = "drop:0.99",
     .cost = "about (1-rate) n entries, to each of the P-1 others",
     .expect =
         "as topk, with a selection that costs less and sends a number that varies",
     .role = GWI_ROLE_WHICH,
     .recipe = true,
     .which = GWI_WHICH_ABOVE,
     .combine = GWI_COMBINE_GATHER,
     .keys = KEYS(&rate, &threshold, &residual_on, &warmup, &ladder, &dense_below)},
    {.name = "qsgd",
     .summary = "every gradient in a few bits per entry (Alistarh et al. 2017)",
     .example = "qsgd:4",
     .cost = "n bits/8 + 4n/bucket bytes, to all or to owners and back",
     .expect = "rounding has no bias; the fewer the bits, the more noise it adds",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .how = GWI_HOW_LEVELS,
     .combine = GWI_COMBINE_GATHER,
     .keys = KEYS(&bits, &bucket, &norm, &residual_off, &via, &warmup, &dense_below,
                  &seed)},
    {.name = "a2sgd",
     .summary = "two means of 8 bytes in all; models drift (Bhattacharya et al. 2020)",
     .example = "a2sgd",
     .cost = "16 bytes and a check, log2 P times",
     .expect = "models drift apart: in our checks no better than none without resync",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .how = GWI_HOW_MEANS,
     .keys = KEYS(&resync)},
    {.name = "local",
     .summary = "local steps, then the average of the models (Patel & Dieuleveut 2019)",
     .example = "local:8",
     .cost = "dense / every; once more at the end, if a period has begun",
     .expect = "models differ between averages, which costs accuracy or more steps",
     .role = GWI_ROLE_WHEN,
     .recipe = true,
     .what = GWI_WHAT_MODEL,
     .keys = KEYS(&every, &grow, &start, &average)},
    {.name = "oneshot",
     .summary = "one average of the models, at the end",
     .example = "oneshot",
     .cost = "dense, once, at the end",
     .expect =
         "made for convex problems; models that have drifted far apart average badly",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .when = GWI_WHEN_END,
     .what = GWI_WHAT_MODEL,
     .keys = KEYS(&average)},
    {.name = "spa",
     .summary = "one chunk of the models averaged per step (Jiang & Agrawal 2018)",
     .example = "spa:8",
     .cost = "one of the chunks: dense / chunks, more if chunks are short",
     .expect = "models differ by what fewer than `chunks` steps change",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .what = GWI_WHAT_MODEL,
     .which = GWI_WHICH_CHUNK,
     .keys = KEYS(&chunks)},
    {.name = "pqasgd",
     .summary = "quantized model changes now and then (Jiang & Agrawal 2018)",
     .example = "pqasgd:8,4",
     .cost = "qsgd / every, of the change of the model",
     .expect = "as local, in fewer bytes and with the noise of rounding",
     .role = GWI_ROLE_ALL,
     .recipe = true,
     .what = GWI_WHAT_CHANGE,
     .how = GWI_HOW_LEVELS,
     .combine = GWI_COMBINE_GATHER,
     .keys = KEYS(&period, &bits, &bucket, &norm, &residual_off, &via, &seed)},
    {.name = "q",
     .summary = "values in a few bits, rounded at random without bias",
     .example = "q:4",
     .cost = "bits of each value, and 4 bytes for each bucket",
     .expect = "with residual=on it takes at least 3 bits, 6 with norm=l2",
     .role = GWI_ROLE_HOW,
     .how = GWI_HOW_LEVELS,
     .keys = KEYS(&bits, &bucket, &norm, &seed)},
    {.name = "bf16",
     .summary = "values in 16 bits",
     .example = "bf16",
     .cost = "16 bits of each value",
     .role = GWI_ROLE_HOW,
     .how = GWI_HOW_BF16,
     .keys = NO_KEYS},
    {.name = "1bit",
     .summary = "values as a sign and a centre",
     .example = "1bit",
     .cost = "1 bit of each value, and the centres",
     .expect = "fits behind topk, gtopk and drop",
     .role = GWI_ROLE_HOW,
     .how = GWI_HOW_CENTRE1,
     .keys = KEYS(&centre1)},
    {.name = "2bit",
     .summary = "values as a sign and one of two centres",
     .example = "2bit",
     .cost = "2 bits of each value, and the centres",
     .expect = "fits behind topk, gtopk and drop",
     .role = GWI_ROLE_HOW,
     .how = GWI_HOW_CENTRE2,
     .keys = KEYS(&centre2)},
    {.name = "momentum",
     .summary = "momentum before the selection, corrected and masked (Lin et al. 2018)",
     .example = "momentum:0.9",
     .cost = "nothing",
     .expect = "fits behind topk, gtopk and drop of gradients with residual=on",
     .role = GWI_ROLE_MOMENTUM,
     .keys = KEYS(&momentum, &clip, &mask)},
    {.name = "check",
     .summary = "how often workers compare their models, 1000 steps if not given",
     .example = "check:1000",
     .cost = "4 bytes to each other worker for each comparison, and their check",
     .expect = "fits behind all methods whose models ever meet; costs next to nothing",
     .role = GWI_ROLE_CHECK,
     .keys = KEYS(&check_every)},
};

const gwi_stage *gwi_stage_at(size_t i)
{
    return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const char *gw_recipe_name(size_t i)
{
    const gwi_stage *s = gwi_stage_at(i);

    return s != NULL && s->recipe ? s->name : NULL;
}

const char *gw_recipe_summary(size_t i)
{
    const gwi_stage *s = gwi_stage_at(i);

    return s != NULL && s->recipe ? s->summary : NULL;
}

const char *gw_recipe_example(size_t i)
{
    const gwi_stage *s = gwi_stage_at(i);

    return s != NULL && s->recipe ? s->example : NULL;
}
