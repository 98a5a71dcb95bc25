/* SPDX-License-Identifier: Apache-2.0
 *
 * test_errors.c - what gw_error_message() says can be printed on a terminal, whatever
 * went into it: names of files, and the reasons of workers on other hosts. */
#include "support_ranks.h"

#include <string.h>

#include "base.h"

static void expect(const char *given, const char *kept)
{
    gw_status st = gw_fail(GW_ERR_DATA, "worker %d: %s", 3, given);

    assert_int_equal(st, GW_ERR_DATA);
    assert_memory_equal(gw_error_message(), "worker 3: ", 10);
    assert_string_equal(gw_error_message() + 10, kept);
}

static void test_text_is_kept(void **state)
{
    static const char *const texts[] = {
        "",
        "plain text, ~ and all: 100 % of it",
        "Gr\xc3\xb6\xc3\x9fte \xc2\xa0", /* two bytes each, the least is U+00A0 */
        "\xe0\xa0\x80 \xe2\x82\xac \xed\x9f\xbf \xee\x80\x80", /* three */
        "\xf0\x90\x80\x80 \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf",  /* four */
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect(texts[i], texts[i]);
}

static void test_control_characters_are_taken_out(void **state)
{
    (void)state;
    expect("\x1b[2Jhello\x1b]0;title\x07", "?[2Jhello?]0;title?");
    expect("a\nb\tc\rd\be\x7f"
           "f\x01",
           "a?b?c?d?e?f?");
    /* A terminal may take a byte, or a character, of this range for "escape [". */
    expect("x\x9b"
           "2Jy",
           "x?2Jy");
    expect("x\xc2\x9b"
           "2Jy",
           "x??2Jy");
    expect("\xc2\x80\xc2\x9f", "????");
}

/* These make what follows show as something else than it says. */
static void test_turns_of_direction_are_taken_out(void **state)
{
    (void)state;
    expect("a\xe2\x80\xae"
           "b\xe2\x80\xaa\xe2\x80\x8f",
           "a???b??????");
    expect("\xe2\x80\xa8\xe2\x80\xa9", "??????"); /* ends of lines */
    expect("\xe2\x81\xa6\xe2\x81\xa9", "??????");
    /* Those beside them are characters like any other. */
    expect("\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf",
           "\xe2\x80\x8d\xe2\x80\x90\xe2\x80\xa7\xe2\x80\xaf");
    expect("\xe2\x81\xa5\xe2\x81\xaa", "\xe2\x81\xa5\xe2\x81\xaa");
}

static void test_what_is_no_utf8_is_taken_out(void **state)
{
    (void)state;
    expect("\x80\xbf\xff\xfe", "????");
    expect("\xc0\x9b\xc1\xbf", "????"); /* too long for what they mean */
    expect("\xe0\x80\x9b \xf0\x80\x80\x9b", "??? ????");      /* likewise */
    expect("\xed\xa0\x80", "???");                            /* half of a pair */
    expect("\xf4\x90\x80\x80 \xf5\x80\x80\x80", "???? ????"); /* none so high */
    expect("\xe2\x82", "??");                                 /* cut off */
    expect("\xe2\x82 \xf0\x9f\x98 \xc3", "?? ??? ?");
    expect("\xe2\x1b[2J", "??[2J");
}

/* A message that is too long is cut, and half a character at its end is none. */
static void test_cut_message_is_clean(void **state)
{
    char text[601] = "";

    (void)state;
    for (size_t i = 0; i < 600; i += 3)
        memcpy(text + i, "\xe2\x82\xac", 3);
    for (int before = 0; before < 3; before++) {
        gw_fail(GW_ERR_DATA, "%.*s%s", before, "xx", text);
        const char *message = gw_error_message();
        size_t whole = (511 - (size_t)before) / 3 * 3 + (size_t)before;
        assert_int_equal(strlen(message), 511);
        assert_memory_equal(message + before, text, whole - (size_t)before);
        for (size_t i = whole; i < 511; i++)
            assert_int_equal(message[i], '?');
    }
}

/* An earlier message may be part of the next. */
static void test_message_within_message(void **state)
{
    (void)state;
    gw_fail(GW_ERR_DATA, "a\x1b[0m");
    gw_fail(GW_ERR_DATA, "b %s", gw_error_message());
    assert_string_equal(gw_error_message(), "b a?[0m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_kept),
        cmocka_unit_test(test_control_characters_are_taken_out),
        cmocka_unit_test(test_turns_of_direction_are_taken_out),
        cmocka_unit_test(test_what_is_no_utf8_is_taken_out),
        cmocka_unit_test(test_cut_message_is_clean),
        cmocka_unit_test(test_message_within_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
