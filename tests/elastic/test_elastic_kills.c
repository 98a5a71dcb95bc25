/* SPDX-License-Identifier: Apache-2.0
 *
 * test_elastic_kills.c - a worker dies at any message. The survivors must go on as if
 * it had died between two steps: the same model and the same residuals, bit for bit. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support_elastic.h"

enum { WORKERS = 4, SPARES = 1, STEPS = 7, ALL = WORKERS + SPARES };

static void require_good(const elastic_plan *plan, const elastic_result *r,
                         const char *what)
{
    for (int i = 0; i < plan->workers + plan->spares; i++)
        if (r[i].status != GW_OK)
            fail_msg("'%s', %s: worker %d: %s", plan->spec, what, i, r[i].message);
}

static elastic_plan plan_of(const char *spec)
{
    return (elastic_plan){
        .spec = spec, .workers = WORKERS, .spares = SPARES, .steps = STEPS};
}

/* The steps that survivors had made in common when the spare came. */
static uint64_t changed_at(const elastic_result *r)
{
    return r[WORKERS].first_step;
}

static void require_same(const elastic_plan *plan, const elastic_result *got,
                         const elastic_result *expected, int victim, const char *what)
{
    for (int i = 0; i < ALL; i++) {
        if (i == victim)
            continue;
        if (memcmp(got[i].params, expected[i].params, sizeof got[i].params) != 0)
            fail_msg("'%s', %s: worker %d has another model", plan->spec, what, i);
        if (memcmp(got[i].residual, expected[i].residual, sizeof got[i].residual) != 0)
            fail_msg("'%s', %s: worker %d has another residual", plan->spec, what, i);
        if (memcmp(got[i].estimate, expected[i].estimate, sizeof got[i].estimate) != 0)
            fail_msg("'%s', %s: worker %d has another estimate", plan->spec, what, i);
        if (memcmp(got[i].slot, expected[i].slot, sizeof got[i].slot) != 0)
            fail_msg("'%s', %s: worker %d has another optimizer", plan->spec, what, i);
    }
}

/* Runs in which the victim dies before each step: what all others must equal. */
static void run_between_steps(elastic_plan plan, int victim, elastic_result (*out)[ALL])
{
    for (uint64_t step = 0; step < STEPS; step++) {
        memset(plan.death, 0, sizeof plan.death);
        plan.death[victim].step = step + 1;
        elastic_run(&plan, out[step]);
        require_good(&plan, out[step], "between steps");
    }
}

static uint64_t posts_of_victim(elastic_plan plan, int victim)
{
    elastic_result r[ALL];

    memset(plan.death, 0, sizeof plan.death);
    elastic_run(&plan, r);
    require_good(&plan, r, "without a death");
    return r[victim].posts;
}

/* Before the first common state, those who are left begin with their own worker 0. */
static void kill_everywhere(const char *spec, int victim, uint64_t first,
                            uint64_t stride)
{
    static elastic_result quiet[STEPS][ALL], got[ALL];
    elastic_plan plan = plan_of(spec);
    uint64_t posts = posts_of_victim(plan, victim), seen = 0;

    run_between_steps(plan, victim, quiet);
    for (uint64_t post = first; post <= posts; post += stride) {
        char what[80];
        snprintf(what, sizeof what, "worker %d dies at post %llu", victim,
                 (unsigned long long)post);
        memset(plan.death, 0, sizeof plan.death);
        plan.death[victim].post = post;
        elastic_run(&plan, got);
        require_good(&plan, got, what);
        assert_true(got[victim].died);
        if (got[0].views + got[1].views <= 2)
            continue; /* it died when all had made the last step */
        uint64_t at = changed_at(got);
        if (at >= STEPS || got[WORKERS].views == 0)
            continue;
        require_same(&plan, got, quiet[at], victim, what);
        seen |= UINT64_C(1) << at;
    }
    if (seen == 0)
        fail_msg("'%s': no death was looked at", spec);
}

/* Every message of two methods, and of the others every so many, which is enough to
 * pass through all that is common to them. GW_ELASTIC_ALL=1 takes all. */
static void test_kill_at_any_message(void **state)
{
    bool all = getenv("GW_ELASTIC_ALL") != NULL;

    (void)state;
    for (int i = 0; i < elastic_spec_count; i++) {
        bool each = all || strcmp(elastic_specs[i], "gtopk:0.1+q:4") == 0 ||
                    strcmp(elastic_specs[i], "local:3+topk:0.1") == 0;
        kill_everywhere(elastic_specs[i], i % WORKERS, each ? 1 : 1 + (uint64_t)i % 5,
                        each ? 1 : 5);
    }
}

/* A second worker dies while the first one's death is dealt with. */
static void test_kill_during_an_entry(void **state)
{
    static elastic_result got[ALL];

    (void)state;
    for (int i = 0; i < elastic_spec_count; i += 3) {
        elastic_plan plan = plan_of(elastic_specs[i]);
        uint64_t posts = posts_of_victim(plan, 2);
        for (uint64_t post = posts / 3; post < posts; post += 3) {
            memset(plan.death, 0, sizeof plan.death);
            plan.death[1].post = posts / 3;
            plan.death[2].post = post;
            elastic_run(&plan, got);
            require_good(&plan, got, "two deaths");
            for (int w = 3; w < ALL; w++)
                if (got[w].views > 0 && got[w].first_step < STEPS &&
                    strncmp(elastic_specs[i], "sparta", 6) != 0 &&
                    memcmp(got[0].params, got[w].params, sizeof got[w].params) != 0)
                    fail_msg("'%s': worker %d has another model", elastic_specs[i], w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kill_at_any_message),
        cmocka_unit_test(test_kill_during_an_entry),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
