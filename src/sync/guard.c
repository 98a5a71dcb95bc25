/* SPDX-License-Identifier: Apache-2.0
 *
 * guard.c - notices when a residual runs away.
 *
 * What is not sent waits in the residual, and comes out later. In training that goes
 * well, a residual grows for a while, at most as the number of exchanges does, and then
 * stays: what leaves it grows with it. In training that diverges, it doubles every few
 * steps. So it is measured after 1, 2, 4, ... 64 exchanges and then after every 64th,
 * and compared with what it was when there had been half as many exchanges, or a
 * quarter:
 *
 *     exchanges        1   2   4   8   16   32   64   128   192   256   320   ...
 *     compared with    -   1   2   4    8   16   32    64    64   128   128
 *
 * A steady stream of equal gradients makes that 4 at most. Gradients of other lengths
 * make it more or less, hence the limits below. A residual that was next to nothing
 * because nearly everything was sent may grow by any factor; so it has run away only if
 * it is as much longer than the vectors that were added to it then.
 *
 * The measure must not take a schedule of learning rates for growth. It is in units of
 * the largest rate so far: changes of the model grow with the rate, and a residual of
 * velocities is made longer as the rate falls (gw_sync_set_rate()). */
#include "sync/guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "kernels/vector.h"
#include "sync/beside/late.h"

/* A pass over two vectors in 64 exchanges is one to three hundredths of what selecting
 * costs (20 million floats: 0.08 to 0.2 ms of 8 ms, Zen 4). */
enum { EVERY = 64 };

/* In 36 runs that went well the largest growth was 2.5; in those that diverged, and
 * whose residual had a part in it, 17 and more (docs/results-optimizers.md). The first
 * limit must be passed twice in a row, so that no single batch is taken for trouble. */
#define GROWN 8.0
#define BURST 32.0

/* The first comparisons would be of what single batches were like. */
enum { FIRST = 16 };

static bool is_power_of_two(uint64_t n)
{
    return (n & (n - 1)) == 0;
}

/* ---- measuring ------------------------------------------------------------------ */

static double norm_of(const gw_sync *s, const gwi_result *at)
{
    double sum = 0;

    if (at->v != NULL)
        return sqrt(gwi_sumsq(at->v, s->layout->floats));
    for (size_t i = 0; i < at->count; i++)
        sum += gwi_sumsq(at->pieces[i].at, at->pieces[i].floats);
    return sqrt(sum);
}

void gwi_guard_begin(gw_sync *s, const gwi_result *at)
{
    gwi_guard *g = &s->guard;
    uint64_t next = g->exchanges + 1;

    g->due = s->kept[GWI_RESIDUAL] != NULL &&
             (next % EVERY == 0 || (next < EVERY && is_power_of_two(next)));
    if (g->due)
        g->vector = norm_of(s, at);
}

void gwi_guard_rate(gw_sync *s, double rate)
{
    gwi_guard *g = &s->guard;

    g->rate = rate;
    if (rate > g->highest_rate)
        g->highest_rate = rate;
}

/* What lengths are multiplied by to be in units of the largest rate. */
static double unit(const gw_sync *s)
{
    const gwi_guard *g = &s->guard;

    if (!(g->highest_rate > 0))
        return 1;
    if (s->spec.subject == GWI_CHANGE)
        return 1 / g->highest_rate;
    return s->kept[GWI_RATE] != NULL ? g->rate / g->highest_rate : 1;
}

/* ---- judging -------------------------------------------------------------------- */

static void say(gw_sync *s, double times)
{
    gwi_guard *g = &s->guard;
    gw_health *h = &g->health;

    (void)snprintf(h->warning, sizeof h->warning,
                   "step %" PRIu64 ": the residual is %.3g times what it was at step "
                   "%" PRIu64 ": lower the learning rate, clip gradients, or use a "
                   "longer warmup= or a higher density in the spec (\"When it goes "
                   "wrong\" in docs/choosing.md)",
                   s->step, times, g->older.step);
    h->runs_away = 1;
}

static void judge(gw_sync *s, double size)
{
    gwi_guard *g = &s->guard;
    double times = g->older.size > 0 ? size / g->older.size : 0;

    g->health.growth = times;
    g->health.since = g->older.step;
    if (g->exchanges < FIRST || !(times > GROWN)) {
        g->grown = false;
        return;
    }
    if ((g->grown || times > BURST) && !g->health.runs_away)
        say(s, times);
    g->grown = true;
}

void gwi_guard_end(gw_sync *s)
{
    gwi_guard *g = &s->guard;
    double residual, size;

    if (s->kept[GWI_RESIDUAL] == NULL)
        return;
    g->exchanges++;
    if (!g->due)
        return;
    residual = sqrt(gwi_sumsq(s->kept[GWI_RESIDUAL], s->layout->floats));
    size = residual * unit(s);
    g->health.step = s->step;
    g->health.residual_norm = residual;
    g->health.vector_norm = g->vector;
    if (is_power_of_two(g->exchanges)) {
        g->older = g->newer;
        g->newer = (gwi_mark){s->step, fmax(size, g->vector * unit(s))};
    }
    judge(s, size);
}

gw_status gw_sync_health(const gw_sync *s, gw_health *health)
{
    return gwi_hand_out(health, gwi_late_health(s), sizeof *health, sizeof *health,
                        "gw_health");
}
