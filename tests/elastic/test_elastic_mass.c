/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elastic_mass.c - workers die at random messages, several in one training, and
 * others come. For each float, of all exchanges that count,
 *
 *     what all workers fed, those that died later included
 *         = workers times results + what waits in the residuals of survivors
 *           + what waited in those of the dead after their last exchange that counts
 *
 * to rounding. GW_TEST_SEED repeats the deaths. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_elastic.h"

enum { WORKERS = 4, SPARES = 2, ALL = WORKERS + SPARES, STEPS = 9 };

static elastic_result r[ALL];
static int deaths, counted, undone; /* of the last exchanges of those that died */

/* ---- which exchanges count ----------------------------------------------------------
 */

/* A spare that comes when all others have ended has a training of its own. */
static bool took_part(int w)
{
    return r[w].views > 0 && !r[w].late;
}

static const elastic_deed *find_deed(int w, const elastic_deed *name)
{
    for (int k = 0; k < r[w].deed_count; k++)
        if (r[w].deeds[k].entry == name->entry && r[w].deeds[k].count == name->count)
            return &r[w].deeds[k];
    return NULL;
}

/* The exchange of that name as a survivor knows it; NULL: it does not count. */
static const elastic_deed *of_survivor(const elastic_deed *name)
{
    const elastic_deed *found = NULL;

    for (int w = 0; w < ALL && found == NULL; w++)
        if (took_part(w) && !r[w].died)
            found = find_deed(w, name);
    return found;
}

/* The last exchange of a worker that counts; NULL: none does. */
static const elastic_deed *last_deed(int w)
{
    for (int k = r[w].deed_count; k-- > 0;)
        if (of_survivor(&r[w].deeds[k]) != NULL)
            return &r[w].deeds[k];
    return NULL;
}

/* ---- sums ---------------------------------------------------------------------------
 */

typedef struct sums {
    double fed[ELASTIC_FLOATS], applied[ELASTIC_FLOATS], waits[ELASTIC_FLOATS];
} sums;

static void add(double *to, double times, const float *x)
{
    for (size_t i = 0; i < ELASTIC_FLOATS; i++)
        to[i] += times * x[i];
}

/* What was applied is added with the deed of one survivor. */
static void add_deed(sums *s, const char *spec, const elastic_deed *d)
{
    const elastic_deed *known = of_survivor(d);

    if (known == NULL)
        return;
    if (known->workers != d->workers ||
        memcmp(known->result, d->result, sizeof d->result) != 0)
        fail_msg("'%s': exchange %llu has two results", spec,
                 (unsigned long long)d->count);
    add(s->fed, 1, d->fed);
    if (known == d)
        add(s->applied, d->workers, d->result);
}

static void add_worker(sums *s, const char *spec, int w)
{
    const elastic_deed *last = last_deed(w), *end = &r[w].deeds[r[w].deed_count];

    assert_in_range(r[w].deed_count, 0, ELASTIC_DEEDS);
    for (const elastic_deed *d = r[w].deeds; d < end; d++)
        add_deed(s, spec, d);
    if (last != NULL)
        add(s->waits, 1, last->residual);
    if (!r[w].died && last != NULL &&
        memcmp(last->residual, r[w].residual, sizeof last->residual) != 0)
        fail_msg("'%s': the residual of worker %d has changed after its last exchange",
                 spec, w);
    deaths += r[w].died;
    counted += r[w].undecided && last == end - 1;
    undone += r[w].undecided && last != end - 1;
}

static void require_conserved(const char *spec, const char *what)
{
    static sums s;

    memset(&s, 0, sizeof s);
    for (int w = 0; w < ALL; w++)
        if (took_part(w))
            add_worker(&s, spec, w);
    for (size_t i = 0; i < ELASTIC_FLOATS; i++)
        if (fabs(s.fed[i] - s.applied[i] - s.waits[i]) > 1e-4)
            fail_msg("'%s', %s: float %zu: %g fed, %g applied, %g waits", spec, what, i,
                     s.fed[i], s.applied[i], s.waits[i]);
}

/* The estimate of ef21 is the mean of what workers stand for, after each exchange. */
static void require_estimate(const char *spec, const elastic_deed *d)
{
    double sum[ELASTIC_FLOATS] = {0};

    for (int w = 0; w < ALL; w++) {
        const elastic_deed *own = took_part(w) ? find_deed(w, d) : NULL;
        if (own != NULL)
            add(sum, 1, own->fed);
    }
    for (size_t i = 0; i < ELASTIC_FLOATS; i++)
        if (fabs(sum[i] - (double)d->workers * (double)d->result[i]) > 1e-4)
            fail_msg("'%s': exchange %llu, float %zu: estimate %g of %d workers, who "
                     "stand for %g",
                     spec, (unsigned long long)d->count, i, (double)d->result[i],
                     d->workers, sum[i]);
}

static void require_estimates(const char *spec)
{
    for (int w = 0; w < ALL; w++)
        for (int k = 0; took_part(w) && k < r[w].deed_count; k++)
            if (of_survivor(&r[w].deeds[k]) == &r[w].deeds[k])
                require_estimate(spec, &r[w].deeds[k]);
}

/* ---- deaths ------------------------------------------------------------------------
 */

/* One of the first workers stays. Another one dies in the first half, so that spares
 * come while the others train; each of the rest may die, too, at any message. */
static elastic_plan draw(const char *spec, const uint64_t *posts, uint64_t seed)
{
    elastic_plan plan = {
        .spec = spec, .workers = WORKERS, .spares = SPARES, .steps = STEPS};
    int stays = (int)(test_random(seed, 0) % WORKERS);
    int first = (stays + 1 + (int)(test_random(seed, 1) % (WORKERS - 1))) % WORKERS;

    for (int w = 0; w < ALL; w++) {
        uint64_t at = test_random(seed, 10 + (uint64_t)w);
        uint64_t most = posts[w < WORKERS ? w : 0];
        if (w == first)
            plan.death[w].post = 1 + at % (most / 2);
        else if (w != stays && test_random(seed, 20 + (uint64_t)w) % 2 == 0)
            plan.death[w].post = 1 + at % most;
    }
    return plan;
}

static void run(const elastic_plan *plan)
{
    elastic_run(plan, r);
    for (int w = 0; w < plan->workers + plan->spares; w++)
        if (r[w].status != GW_OK)
            fail_msg("'%s': worker %d: %s", plan->spec, w, r[w].message);
}

static void kill_at_random(const char *spec, uint64_t seed, int runs)
{
    elastic_plan plan = {.spec = spec, .workers = WORKERS, .steps = STEPS};
    uint64_t posts[WORKERS];
    char what[64];

    run(&plan);
    bool conserves = r[0].conserves, estimates = strstr(spec, "ef21") != NULL;
    for (int w = 0; w < WORKERS; w++)
        posts[w] = r[w].posts;
    for (int k = 0; k < runs && (conserves || estimates); k++) {
        snprintf(what, sizeof what, "run %d", k);
        plan = draw(spec, posts, test_random(seed, (uint64_t)k));
        run(&plan);
        if (conserves)
            require_conserved(spec, what);
        else
            require_estimates(spec);
    }
    print_message("%-22s %s\n", spec,
                  conserves   ? ""
                  : estimates ? "estimate"
                              : "keeps no sum");
}

/* GW_ELASTIC_ALL=1 makes many more runs. */
static void test_mass_after_random_deaths(void **state)
{
    int runs = getenv("GW_ELASTIC_ALL") != NULL ? 400 : 12;
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < elastic_spec_count; i++)
        kill_at_random(elastic_specs[i], test_random(seed, 1000 + (uint64_t)i), runs);
    print_message("%d deaths; %d of these workers died with a result that counts, and "
                  "%d with one that was put back\n",
                  deaths, counted, undone);
    assert_true(deaths > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mass_after_random_deaths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
