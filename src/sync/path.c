/* SPDX-License-Identifier: Apache-2.0
 *
 * path.c - how the messages of an exchange wait for each other, by formula.
 *
 * With P workers, one exchange of vectors of m floats, or of messages of S bytes, is a
 * chain of this many messages and bytes, one after the other:
 *
 *                             rounds              bytes
 *     ring all-reduce         2 (P-1)             2 (P-1)/P 4m
 *     recursive doubling      ceil(log2 P)        ceil(log2 P) 4m
 *     all-gather              1                   (P-1) S          all to all at once
 *     coded, by segments      2                   2 (P-1)/P S      to owners and back
 *     gTop-k in pairs         log2 P              log2 P S         P a power of two
 *     gTop-k in pairs         log2 Q + 2          (log2 Q + 2) S   P past a power Q
 *     gTop-k tree             2 ceil(log2 P)      2 ceil(log2 P) S up and down
 *
 * S and the number of exchanges come from the counted traffic, so the formulas include
 * what compression achieved. They ignore that messages may share a cable. */
#include "sync/path.h"
#include "sync/beside/stream.h"

#include <math.h>

gwi_path gwi_path_of_sum(double m, int workers)
{
    double p = workers, log_p = ceil(log2(p));

    if (m <= GWI_DOUBLING_FLOATS || m < p)
        return (gwi_path){log_p, log_p * 4 * m};
    return (gwi_path){2 * (p - 1), 2 * (p - 1) / p * 4 * m};
}

gwi_path gwi_path_repeated(gwi_path one, const gw_traffic *t)
{
    double times = (double)t->bytes_sent / one.bytes;

    /* Notes, checks and rounding make it a little more than a whole number. */
    if (fabs(times - round(times)) < 0.01 * times)
        times = round(times);
    return (gwi_path){times * one.rounds, times * one.bytes};
}

gwi_path gwi_path_of_lists(const gwi_spec *spec, const gw_layout *layout, int workers,
                           const gw_traffic *t)
{
    double sent = (double)t->bytes_sent, received = (double)t->bytes_received;

    (void)spec, (void)layout;
    return (gwi_path){(double)t->messages_sent / (workers - 1), fmax(sent, received)};
}

gw_status gw_spec_path(const char *text, const gw_layout *layout, int workers,
                       const gw_traffic *traffic, double *rounds, double *bytes)
{
    gwi_path found = {0, 0};
    gwi_spec spec;

    if (layout == NULL || traffic == NULL || workers < 1)
        return gw_fail(GW_ERR_ARG,
                       "gw_spec_path() needs a layout, traffic and at least 1 worker");
    GWI_TRY(gwi_spec_parse(text, &spec));
    GWI_TRY(gwi_fragments_check(&spec, layout));
    if (workers > 1 && traffic->messages_sent > 0)
        found = gwi_exchange_of(&spec)->path(&spec, layout, workers, traffic);
    *rounds = found.rounds;
    *bytes = found.bytes;
    return GW_OK;
}
