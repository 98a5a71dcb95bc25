/* SPDX-License-Identifier: Apache-2.0
 *
 * test_group_link.c - what a member and the thread that keeps up its way to a meeting
 * tell each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "way.h"

static atomic_int asked_again;
static atomic_int still_asks = -1;

static void await(atomic_int *flag)
{
    while (*flag <= 0)
        usleep(1000);
}

/* Brings a view, and says that the wish was answered only after the next one. */
static gw_status answer_late(gwg_link *link)
{
    while (!gwg_link_wishes(link).asks)
        usleep(1000);
    gw_status st = gwg_link_bring(link, "view 1 0 1");
    await(&asked_again);
    gwg_link_answered(link, 1);
    still_asks = gwg_link_wishes(link).asks;
    gwg_link_answered(link, 2);
    still_asks += 2 * gwg_link_wishes(link).asks;
    while (!gwg_link_wishes(link).leaves)
        usleep(1000);
    return st;
}

/* A member whose view has failed at once asks for the next one before the thread has
 * noted that the last wish was answered. Its wish was lost then, and it waited for
 * ever. */
static void test_a_new_wish_outlives_the_old_answer(void **state)
{
    static const gwg_way way = {.scheme = "late://", .run = answer_late};
    gwg_self self = {.timeout = 60};
    char line[GWG_LINE_CAP];
    gwg_link *link;

    (void)state;
    assert_int_equal(gwg_link_open(&link, &way, &self), GW_OK);
    gwg_link_ask(link, 0, 0);
    while (gwg_link_take(link, line) == GW_PENDING)
        usleep(1000);
    assert_string_equal(line, "view 1 0 1");
    gwg_link_ask(link, 1, 0);
    asked_again = 1;
    while (still_asks < 0)
        usleep(1000);
    gwg_link_close(link);
    assert_int_equal(still_asks, 1); /* the new wish was open, until view 2 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_wish_outlives_the_old_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
