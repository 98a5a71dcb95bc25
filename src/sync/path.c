/* SPDX-License-Identifier: Apache-2.0
 *
 * path.c - how the messages of an exchange wait for each other, by formula.
 *
 * With P workers, one exchange of vectors of m floats, or of messages of S bytes, is a
 * chain of so many messages, and so many bytes one after the other:
 *
 *                             rounds              bytes
 *     ring all-reduce         2 (P-1)             2 (P-1)/P 4m
 *     recursive doubling      ceil(log2 P)        ceil(log2 P) 4m
 *     all-gather              1                   (P-1) S          all to all at once
 *     coded, by segments      2                   2 (P-1)/P S      to owners and back
 *     gTop-k tree             2 ceil(log2 P)      2 ceil(log2 P) S up and down
 *
 * S and how many exchanges there were are taken from what was counted, so the formulas
 * know what compression achieved, but nothing of when messages meet. */
#include <math.h>

#include "sync/buckets.h"

typedef struct path {
    double rounds, bytes;
} path;

/* Of one all-reduce of m floats. */
static path reduction(double m, double p)
{
    double log_p = ceil(log2(p));

    if (m <= GWI_DOUBLING_FLOATS || m < p)
        return (path){log_p, log_p * 4 * m};
    return (path){2 * (p - 1), 2 * (p - 1) / p * 4 * m};
}

/* Gradients are averaged bucket by bucket. */
static path reduction_of_buckets(const gw_layout *layout, double p)
{
    gwi_bucket bucket = {.first_tensor = layout->count};
    path sum = {0, 0};

    while (gwi_bucket_next(layout, &bucket)) {
        path one = reduction((double)(bucket.end - bucket.begin), p);
        sum.rounds += one.rounds;
        sum.bytes += one.bytes;
    }
    return sum;
}

static path reductions(const gwi_spec *spec, const gw_layout *layout, double p,
                       const gw_traffic *t)
{
    double n = (double)layout->floats;
    path one = spec->which == GWI_WHICH_CHUNK
                   ? reduction(n / (double)spec->opt.chunks, p)
               : spec->what == GWI_WHAT_GRADIENT ? reduction_of_buckets(layout, p)
                                                 : reduction(n, p);
    double times = (double)t->bytes_sent / one.bytes;

    /* Notes, checks and rounding make it a little more than a whole number. */
    if (fabs(times - round(times)) < 0.01 * times)
        times = round(times);
    return (path){times * one.rounds, times * one.bytes};
}

/* All send to all others at once, or a part to each. */
static path lists(double p, const gw_traffic *t)
{
    double sent = (double)t->bytes_sent, received = (double)t->bytes_received;

    return (path){(double)t->messages_sent / (p - 1), fmax(sent, received)};
}

static path path_of(const gwi_spec *spec, const gw_layout *layout, double p,
                    const gw_traffic *t)
{
    bool sparse = spec->which == GWI_WHICH_TOPK || spec->which == GWI_WHICH_ABOVE;

    if (spec->how == GWI_HOW_MEANS) /* a message in each round of doubling */
        return (path){(double)t->messages_sent, (double)t->bytes_sent};
    /* Worker 0 gets as many lists as it sends, one after the other. */
    if (sparse && spec->combine == GWI_COMBINE_TREE)
        return (path){2.0 * (double)t->messages_sent, 2.0 * (double)t->bytes_sent};
    if (sparse || (spec->which == GWI_WHICH_ALL && spec->how != GWI_HOW_F32))
        return lists(p, t);
    return reductions(spec, layout, p, t);
}

gw_status gw_spec_path(const char *text, const gw_layout *layout, int workers,
                       const gw_traffic *traffic, double *rounds, double *bytes)
{
    path found = {0, 0};
    gwi_spec spec;

    if (layout == NULL || traffic == NULL || workers < 1)
        return gw_fail(GW_ERR_ARG,
                       "gw_spec_path() needs a layout, counts and 1 worker or more");
    GWI_TRY(gwi_spec_parse(text, &spec));
    if (workers > 1 && traffic->messages_sent > 0)
        found = path_of(&spec, layout, workers, traffic);
    *rounds = found.rounds;
    *bytes = found.bytes;
    return GW_OK;
}
