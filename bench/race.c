/* SPDX-License-Identifier: Apache-2.0
 *
 * race.c - times two pieces of code in turns.
 *
 * Whatever slows this machine down for a while slows both, and the best of many
 * rounds is the one that was disturbed least. */
#define _GNU_SOURCE
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MIN = 7, ROUNDS_QUICK = 3, REPEAT_MAX = 1000 };

static const double seconds_min = 1.0;   /* of a race */
static const double seconds_run = 50e-6; /* of what is timed at once */

int gwb_more(const gwb_settings *set, unsigned rounds, double since)
{
    if (set->quick)
        return rounds < ROUNDS_QUICK;
    if (rounds < ROUNDS_MIN)
        return 1;
    return rounds < GWB_ROUNDS_MAX && gwi_now() - since < seconds_min;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double gwb_median(double *x, size_t count)
{
    if (count == 0)
        return (double)NAN;
    qsort(x, count, sizeof *x, ascending);
    return count % 2 == 1 ? x[count / 2] : (x[count / 2 - 1] + x[count / 2]) / 2;
}

/* The time that this thread has had a CPU: on a busy machine a run of some
 * milliseconds is hardly ever left in peace. With more threads, or where the code
 * may sleep, only the wall knows. */
static double clock_of(const gwb_settings *set, const gwb_contender *c)
{
    struct timespec t;

    if (set->threads != 1 || c->sleeps)
        return gwi_now();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one run, as the mean of `repeat`. */
static double time_of(const gwb_settings *set, const gwb_contender *c, unsigned repeat)
{
    double start;

    if (c->prepare != NULL)
        c->prepare(c->arg);
    start = clock_of(set, c);
    for (unsigned i = 0; i < repeat; i++)
        c->run(c->arg);
    return (clock_of(set, c) - start) / repeat;
}

/* How many runs make a time that the clock can tell, from the time of one. */
static unsigned repeat_for(double seconds)
{
    if (!(seconds < seconds_run))
        return 1;
    return 1 + (unsigned)fmin(seconds_run / fmax(seconds, 1e-9), REPEAT_MAX);
}

gwb_race_result gwb_race(const gwb_settings *set, const gwb_contender *a,
                         const gwb_contender *b)
{
    double ratio[GWB_ROUNDS_MAX], start;
    gwb_race_result result = {.best_a = (double)INFINITY, .best_b = (double)INFINITY};
    unsigned rounds = 0;

    unsigned repeat_a = repeat_for(time_of(set, a, 1));
    unsigned repeat_b = repeat_for(time_of(set, b, 1));
    for (start = gwi_now(); gwb_more(set, rounds, start); rounds++) {
        double ta = time_of(set, a, repeat_a), tb = time_of(set, b, repeat_b);
        result.best_a = fmin(result.best_a, ta);
        result.best_b = fmin(result.best_b, tb);
        ratio[rounds] = ta / tb;
    }
    result.ratio = result.best_a / result.best_b;
    result.median = gwb_median(ratio, rounds);
    return result;
}
