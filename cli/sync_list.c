/* SPDX-License-Identifier: Apache-2.0
 *
 * sync_list.c - lists of specs as users write them. */
#include "sync_list.h"
#include "common.h"

#include <stdio.h>
#include <string.h>

static gw_status append(char *list, size_t cap, const char *spec, size_t spec_len)
{
    size_t len = strlen(list);
    int more = snprintf(list + len, cap - len, "%s%.*s", len > 0 ? " " : "",
                        (int)spec_len, spec);

    if (more < 0 || (size_t)more >= cap - len)
        return gw_fail(GW_ERR_ARG, "--sync: the list is longer than %zu characters",
                       cap);
    return GW_OK;
}

/* Leaves out methods that exchange nothing before the end: their steps cost nothing. */
static gw_status append_all(char *list, size_t cap)
{
    const char *example;

    for (size_t i = 0; (example = gw_recipe_example(i)) != NULL; i++) {
        gw_spec_info info = {.struct_size = sizeof info};
        GWT_TRY(gw_spec_describe(example, &info));
        if (info.period > 0)
            GWT_TRY(append(list, cap, example, strlen(example)));
    }
    return GW_OK;
}

gw_status gwc_sync_list(char *out, size_t cap, const char *text)
{
    out[0] = '\0';
    text += strspn(text, " ");
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (len == 3 && strncmp(text, "all", len) == 0)
            GWT_TRY(append_all(out, cap));
        else
            GWT_TRY(append(out, cap, text, len));
        text += len + strspn(text + len, " ");
    }
    return GW_OK;
}
