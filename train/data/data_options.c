/* SPDX-License-Identifier: Apache-2.0
 *
 * data_options.c - reads the options after the name of a data set. */
#define _GNU_SOURCE
#include "data/data_options.h"

#include <stdio.h>
#include <string.h>

static gw_status unknown(const char *set, const char *word,
                         const gwt_data_option *words, size_t count)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? " and "
                                                  : ", ",
                                 words[i].name);
    return gw_fail(GW_ERR_ARG, "data set %s: unknown option '%s'; expected one of %s",
                   set, word, list);
}

/* One "name=value". */
static gw_status read_word(const char *set, char *word, const gwt_data_option *words,
                           size_t count, void *settings)
{
    char *value = strchr(word, '=');

    if (value != NULL)
        *value++ = '\0';
    for (size_t i = 0; i < count; i++) {
        if (strcmp(words[i].name, word) != 0)
            continue;
        if (value == NULL)
            return gw_fail(GW_ERR_ARG, "data set %s: %s needs a value", set, word);
        return gwt_parse_count(
            word, value, words[i].min, words[i].max,
            (uint64_t *)(void *)((char *)settings + words[i].offset));
    }
    return unknown(set, word, words, count);
}

gw_status gwt_data_options(const char *set, const char *rest,
                           const gwt_data_option *words, size_t count, void *settings)
{
    char copy[256], *save = NULL;

    if (rest == NULL)
        return GW_OK;
    if (strlen(rest) >= sizeof copy)
        return gw_fail(GW_ERR_ARG, "data set %s: the options are too long", set);
    snprintf(copy, sizeof copy, "%s", rest);
    for (char *w = strtok_r(copy, ",", &save); w != NULL;
         w = strtok_r(NULL, ",", &save))
        GWT_TRY(read_word(set, w, words, count, settings));
    return GW_OK;
}
