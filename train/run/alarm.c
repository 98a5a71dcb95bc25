/* SPDX-License-Identifier: Apache-2.0
 *
 * alarm.c - notices when the loss of a run goes away from what it was.
 *
 * A loss is too high when it is half as much again as that of the first step, or, once
 * a fifth of that is learnt, when three quarters of what was learnt are lost again.
 * Each such step gives a point, each other one takes two away, and 32 points are an
 * alarm: no single batch brings it about, nor a few steps at the beginning in which the
 * loss jumps. A loss of more than 16 times the first is a burst and gives four points,
 * so that a run that will end with NaN is told of before. A run that has burst and is
 * dead since has about the loss of the first step; that is too high then.
 *
 * In 36 runs that went well nothing got more than 5 points. */
#include "run/alarm.h"

#include <math.h>

enum { POINTS = 32, BURST_POINTS = 4 };

#define TOO_HIGH 1.5
#define BURST    16.0
#define DEAD     0.9
#define SMOOTH   (1.0 / 32.0)

/* A loss that is higher is too high. */
static double limit(const gwt_alarm *a)
{
    if (a->best < 0.8 * a->first)
        return a->first - 0.25 * (a->first - a->best);
    return (a->burst ? DEAD : TOO_HIGH) * a->first;
}

static void begin(gwt_alarm *a, double loss)
{
    a->first = fmax(a->first, loss);
    a->mean = a->best = a->first;
}

int gwt_alarm_sees(gwt_alarm *a, double loss)
{
    if (!isfinite(loss)) {
        a->points = POINTS;
        a->worst = loss;
    }
    if (a->points >= POINTS)
        return 1;
    if (!(a->mean > 0.0))
        begin(a, loss);
    /* What bursts must not hide the losses after it. */
    a->mean += SMOOTH * (fmin(loss, 4.0 * a->first) - a->mean);
    a->best = fmin(a->best, a->mean);
    if (loss > BURST * a->first) {
        a->points += BURST_POINTS;
        a->burst = 1;
    } else if (loss > limit(a)) {
        a->points++;
    } else {
        a->points = a->points > 2 ? a->points - 2 : 0;
    }
    a->worst = a->points > 0 ? fmax(a->worst, loss) : 0.0;
    a->burst = a->burst && a->points > 0;
    return a->points >= POINTS;
}
