/* SPDX-License-Identifier: Apache-2.0
 *
 * compare_cases.c - lists the runs of a comparison: every method on every link with
 * every number of workers. */
#define _GNU_SOURCE
#include "commands.h"
#include "common.h"
#include "compare/compare.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* WORD_CAP is longer than any spec and any text that is made from one. */
enum { LIST_MAX = 100, WORD_CAP = 600 };

/* Splits a list at spaces; changes text. */
static gw_status split(const char *flag, char *text, char **word, size_t *count)
{
    *count = 0;
    for (char *at = strtok(text, " \t\n"); at != NULL; at = strtok(NULL, " \t\n")) {
        if (*count == LIST_MAX)
            return gw_fail(GW_ERR_ARG, "--%s: the list has more than %d entries", flag,
                           LIST_MAX);
        word[(*count)++] = at;
    }
    return GW_OK;
}

/* Writes text as a part of a file name: letters, digits, dots, and a dash for any other
 * characters. */
static size_t put_word(char *to, size_t cap, const char *text)
{
    size_t n = 0;

    for (; *text != '\0' && n + 1 < cap; text++)
        if (isalnum((unsigned char)*text) || *text == '.')
            to[n++] = *text;
        else if (n > 0 && to[n - 1] != '-')
            to[n++] = '-';
    while (n > 0 && to[n - 1] == '-')
        n--;
    to[n] = '\0';
    return n;
}

static gw_status name_directory(const gwc_compare *c, gwc_case *one, const char *asked)
{
    char sync[WORD_CAP], link[WORD_CAP], seed[40] = "";

    put_word(sync, sizeof sync, asked);
    put_word(link, sizeof link, one->link != NULL ? one->link : "no-link");
    if (one->seed != 0)
        snprintf(seed, sizeof seed, "-seed%" PRIu64, one->seed);
    int len = snprintf(one->directory, sizeof one->directory, "%s/%s-%s-%sw%s", c->out,
                       sync, link, one->workers, seed);
    if (len < 0 || (size_t)len >= sizeof one->directory)
        return gw_fail(GW_ERR_ARG, "--out: the path '%.100s...' is too long", c->out);
    return GW_OK;
}

static gw_status add_arg(gwc_case *one, char *arg)
{
    if (one->args + 1 >= GWC_CASE_ARGS_MAX)
        return gw_fail(GW_ERR_ARG, "too many flags: at most %d are allowed",
                       GWC_CASE_ARGS_MAX);
    one->arg[one->args++] = arg;
    return GW_OK;
}

/* ---- the texts of arguments ---------------------------------------------------- */

/* All texts are stored in one block of memory. */
typedef struct texts {
    char *at, *end;
} texts;

/* Stores first and second as one text. */
static gw_status put_text(texts *t, char **out, const char *first, const char *second)
{
    size_t room = (size_t)(t->end - t->at);
    int len = snprintf(t->at, room, "%s%s", first, second);

    *out = t->at;
    if (len < 0 || (size_t)len >= room)
        return gw_fail(GW_ERR_ARG, "the lists of the comparison are too long");
    t->at += len + 1;
    return GW_OK;
}

/* "lr=0.4,momentum=0" as --lr=0.4 --momentum=0. */
static gw_status add_own_settings(gwc_case *one, texts *t, const char *list)
{
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        char word[WORD_CAP];
        char *arg;
        if (len == 0 || len >= sizeof word)
            return gw_fail(
                GW_ERR_ARG,
                "%s: bad settings after '@'; expected something like lr=0.4,momentum=0",
                one->sync);
        snprintf(word, sizeof word, "%.*s", (int)len, list);
        if (strchr(word, '=') == NULL)
            return gw_fail(
                GW_ERR_ARG,
                "%s: '%s' after '@' has no value; expected something like lr=0.4",
                one->sync, word);
        GWT_TRY(put_text(t, &arg, "--", word));
        GWT_TRY(add_arg(one, arg));
        list += len + (list[len] == ',');
    }
    return GW_OK;
}

/* Everything but --out. */
static gw_status add_args(const gwc_compare *c, gwc_case *one, texts *t,
                          const char *asked)
{
    const char *at = strchr(asked, '@');
    char *arg;
    char sync[WORD_CAP];

    if (strlen(asked) >= sizeof sync)
        return gw_fail(GW_ERR_ARG, "the spec '%.40s...' is too long", asked);
    one->settings = at != NULL ? at + 1 : "";
    for (int i = 0; i < c->rest_count; i++)
        GWT_TRY(add_arg(one, c->rest[i]));
    snprintf(sync, sizeof sync, "%.*s", (int)strcspn(asked, "@"), asked);
    GWT_TRY(put_text(t, &arg, "--sync=", sync));
    one->sync = arg + strlen("--sync=");
    GWT_TRY(add_arg(one, arg));
    GWT_TRY(put_text(t, &arg, "--workers=", one->workers));
    GWT_TRY(add_arg(one, arg));
    if (one->link != NULL) {
        GWT_TRY(put_text(t, &arg, "--link=", one->link));
        GWT_TRY(add_arg(one, arg));
    }
    GWT_TRY(add_own_settings(one, t, one->settings));
    if (one->seed != 0) {
        snprintf(sync, sizeof sync, "%" PRIu64, one->seed);
        GWT_TRY(put_text(t, &arg, "--seed=", sync));
        GWT_TRY(add_arg(one, arg));
    }
    GWT_TRY(name_directory(c, one, asked));
    return gwc_train_check(one->args, one->arg);
}

/* ---- all cases ------------------------------------------------------------------ */

static gw_status check_distinct(const gwc_compare *c)
{
    for (size_t i = 0; i < c->count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(c->cases[i].directory, c->cases[j].directory) == 0)
                return gw_fail(GW_ERR_ARG,
                               "%s and %s would share a directory; name each method, "
                               "link and number of workers once",
                               c->cases[j].sync, c->cases[i].sync);
    return GW_OK;
}

static gw_status fill(gwc_compare *c, texts *t)
{
    char *sync[LIST_MAX], *link[LIST_MAX], *workers[LIST_MAX], *text[3];
    size_t syncs, links, counts;

    GWT_TRY(put_text(t, &text[0], c->sync, ""));
    GWT_TRY(put_text(t, &text[1], c->link, ""));
    GWT_TRY(put_text(t, &text[2], c->workers, ""));
    GWT_TRY(split("sync", text[0], sync, &syncs));
    GWT_TRY(split("link", text[1], link, &links));
    GWT_TRY(split("workers", text[2], workers, &counts));
    if (syncs * links * counts == 0)
        return gw_fail(GW_ERR_ARG, "--sync, --link or --workers is an empty list");
    size_t seeds = (size_t)c->seeds, all = syncs * links * counts * seeds;
    if (all > GWC_CASES_MAX)
        return gw_fail(GW_ERR_ARG,
                       "the comparison has %zu runs; at most %d are allowed", all,
                       GWC_CASES_MAX);
    /* Seeds change fastest, then methods, links and numbers of workers. */
    for (size_t i = 0; i < all; i++) {
        gwc_case *one = &c->cases[c->count++];
        const char *on = link[i / seeds / syncs % links];
        one->link = strcmp(on, "none") == 0 ? NULL : on;
        one->workers = workers[i / seeds / syncs / links];
        /* The first run is the same as without --seeds, so it may exist already. */
        one->seed = i % seeds == 0 ? 0 : 1 + i % seeds;
        GWT_TRY(add_args(c, one, t, sync[i / seeds % syncs]));
    }
    return check_distinct(c);
}

gw_status gwc_cases_make(gwc_compare *c)
{
    enum { TEXT_BYTES = 1 << 22 };
    texts t;

    c->cases = gwt_calloc(GWC_CASES_MAX, sizeof *c->cases, "the runs");
    c->text = gwt_calloc(TEXT_BYTES, 1, "the runs");
    if (c->cases == NULL || c->text == NULL)
        return GW_ERR_NOMEM;
    t = (texts){c->text, c->text + TEXT_BYTES};
    return fill(c, &t);
}

void gwc_cases_free(gwc_compare *c)
{
    gwt_free(c->cases);
    gwt_free(c->text);
    c->cases = NULL;
    c->text = NULL;
}
