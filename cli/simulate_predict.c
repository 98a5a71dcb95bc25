/* SPDX-License-Identifier: Apache-2.0
 *
 * simulate_predict.c - the cost of an exchange by formula.
 *
 * With a the latency of a message, b the time of a byte, P workers, one exchange of
 * vectors of m floats or of messages of S bytes takes
 *
 *     ring all-reduce         2 (P-1) a + 2 (P-1)/P 4m b
 *     recursive doubling      ceil(log2 P) (a + S b)
 *     all-gather              a + (P-1) S b             all send to all at once
 *     coded, by segments      2 a + 2 (P-1)/P S b       to the owner and back
 *     gTop-k tree             2 ceil(log2 P) (a + S b)  up and down
 *
 * S and how many exchanges a step has on average are taken from what was counted, so
 * the formulas know what compression achieved but nothing of when messages meet. */
#include "simulate.h"

#include "collective/collective.h"
#include "sync/buckets.h"
#include "sync/spec.h"

#include <math.h>
#include <string.h>

typedef struct cost {
    double a, b, p;
} cost;

static double rounds(double p)
{
    return ceil(log2(p));
}

/* e all-reduces of m floats per step. */
static double reduce_time(const cost *c, double e, double m)
{
    if (m <= GWI_DOUBLING_FLOATS || m < c->p)
        return e * rounds(c->p) * (c->a + 4 * m * c->b);
    return e * 2 * (c->p - 1) * (c->a + 4 * m / c->p * c->b);
}

/* How many buckets a vector of equal tensors is cut into. */
static double buckets(const gwc_sim *sim)
{
    double floats = (double)sim->params / (double)sim->tensors;
    double each = ceil(GWI_BUCKET_FLOATS / floats);

    return ceil((double)sim->tensors / each);
}

static double reduced_bytes(const cost *c, double m)
{
    if (m <= GWI_DOUBLING_FLOATS || m < c->p)
        return rounds(c->p) * 4 * m;
    return 2 * (c->p - 1) / c->p * 4 * m;
}

static double whole_vectors(const gwc_sim *sim, const gwi_spec *spec, const cost *c,
                            const gwc_point *point)
{
    double m = (double)sim->params, n = 1;

    if (spec->which == GWI_WHICH_CHUNK)
        m /= (double)spec->opt.chunks;
    else if (spec->what == GWI_WHAT_GRADIENT)
        n = buckets(sim);
    double e = point->bytes_sent / reduced_bytes(c, m);
    /* Notes and rounding make it a little more than a whole number. */
    if (e > 0.99 && e < 1.01)
        e = 1;
    return reduce_time(c, e * n, m / n);
}

static double lists(const cost *c, const gwc_point *point)
{
    double e = point->messages_sent / (c->p - 1);

    return e * c->a + fmax(point->bytes_sent, point->bytes_received) * c->b;
}

static double tree(const cost *c, const gwc_point *point)
{
    double log_p = rounds(c->p), e = point->messages_sent / log_p;
    double s = point->messages_sent > 0 ? point->bytes_sent / point->messages_sent : 0;

    return e * 2 * log_p * (c->a + s * c->b);
}

double gwc_predict_wire(const gwc_sim *sim, const gwc_point *point)
{
    bool apart = sim->hosts_per_switch > 0 && point->workers > sim->hosts_per_switch;
    cost c = {sim->latency + (apart ? sim->up_latency : 0), 1 / sim->rate,
              (double)point->workers};
    gwi_spec spec;

    if (point->workers == 1 || point->messages_sent == 0 ||
        gwi_spec_parse(point->spec, &spec) != GW_OK)
        return 0;
    if (spec.how == GWI_HOW_MEANS)
        return rounds(c.p) * (c.a + point->bytes_sent / rounds(c.p) * c.b);
    if (spec.which == GWI_WHICH_TOPK || spec.which == GWI_WHICH_ABOVE)
        return spec.combine == GWI_COMBINE_TREE ? tree(&c, point) : lists(&c, point);
    if (spec.which == GWI_WHICH_ALL &&
        (spec.how == GWI_HOW_LEVELS || spec.how == GWI_HOW_BF16))
        return lists(&c, point);
    return whole_vectors(sim, &spec, &c, point);
}
