/* SPDX-License-Identifier: Apache-2.0
 *
 * runs_list.c - reads all runs that a command was given. */
#define _GNU_SOURCE
#include "report/runs_list.h"
#include "common.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_CAP = 4352, RUNS_MAX = 1000, NOTES_MAX = 1000, NOTE_LEN = 700 };

static gw_status make_room(gwc_run_list *list)
{
    list->run = gwt_calloc(RUNS_MAX, sizeof *list->run, "the runs");
    list->note = gwt_calloc(NOTES_MAX, sizeof *list->note, "the notes");
    list->cap = RUNS_MAX;
    list->notes_cap = NOTES_MAX;
    return list->run != NULL && list->note != NULL ? GW_OK : GW_ERR_NOMEM;
}

static gw_status add_note(gwc_run_list *list, const char *text)
{
    char *copy;

    if (list->notes == list->notes_cap)
        return GW_OK; /* a thousand notes are enough */
    copy = gwt_calloc(NOTE_LEN, 1, "a note");
    if (copy == NULL)
        return GW_ERR_NOMEM;
    snprintf(copy, NOTE_LEN, "%s", text);
    list->note[list->notes++] = copy;
    return GW_OK;
}

static gw_status add_run(gwc_run_list *list, const char *directory)
{
    gw_status st;

    if (list->count == list->cap)
        return gw_fail(GW_ERR_ARG, "too many runs: at most %d can be shown", RUNS_MAX);
    st = gwc_run_read(&list->run[list->count], directory);
    if (st == GW_OK) {
        list->count++;
        return GW_OK;
    }
    gwc_run_free(&list->run[list->count]);
    if (st == GW_ERR_NOMEM)
        return st;
    return add_note(list, gw_error_message());
}

static int has(const char *directory, const char *name)
{
    char path[PATH_CAP];

    int len = snprintf(path, sizeof path, "%s/%s", directory, name);
    return len > 0 && (size_t)len < sizeof path && access(path, F_OK) == 0;
}

static int is_run(const char *directory)
{
    return has(directory, "summary.json") || has(directory, "metrics.jsonl");
}

/* The runs that lie in the directory. */
static gw_status add_inside(gwc_run_list *list, const char *directory, size_t *found)
{
    struct dirent **entry;
    int n = scandir(directory, &entry, NULL, alphasort);
    gw_status st = GW_OK;

    *found = 0;
    if (n < 0)
        return GW_OK;
    for (int i = 0; i < n; i++) {
        char path[PATH_CAP];
        snprintf(path, sizeof path, "%s/%s", directory, entry[i]->d_name);
        if (st == GW_OK && entry[i]->d_name[0] != '.' && is_run(path)) {
            ++*found;
            st = add_run(list, path);
        }
        free(entry[i]);
    }
    free(entry);
    return st;
}

static gw_status add_name(gwc_run_list *list, const char *name)
{
    size_t found;

    if (is_run(name))
        return add_run(list, name);
    GWT_TRY(add_inside(list, name, &found));
    return found > 0 ? GW_OK : add_run(list, name);
}

static const char *model_of(const gwc_run *run)
{
    const char *model = gwc_run_text(run, "model");

    return model != NULL ? model : "";
}

/* Adds a note if models differ, since their accuracies cannot be compared. */
static gw_status note_models(gwc_run_list *list)
{
    for (size_t i = 1; i < list->count; i++)
        if (strcmp(model_of(&list->run[i]), model_of(&list->run[0])) != 0)
            return add_note(list, "the runs train different models; their losses and "
                                  "times cannot be compared");
    return GW_OK;
}

gw_status gwc_run_list_read(gwc_run_list *list, char *const *names, size_t count)
{
    GWT_TRY(make_room(list));
    for (size_t i = 0; i < count; i++)
        GWT_TRY(add_name(list, names[i]));
    if (list->count == 0)
        return gw_fail(GW_ERR_DATA, "%s",
                       list->notes > 0 ? list->note[0] : "no runs found");
    gwc_runs_name(list->run, list->count);
    return note_models(list);
}

void gwc_run_list_free(gwc_run_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        gwc_run_free(&list->run[i]);
    for (size_t i = 0; i < list->notes; i++)
        gwt_free(list->note[i]);
    gwt_free(list->run);
    gwt_free(list->note);
    *list = (gwc_run_list){0};
}
