/* SPDX-License-Identifier: Apache-2.0
 *
 * data_get.c - gets a data set completely or not at all. All work happens in a
 * directory next to its place:
 *
 *     BASE/.NAME-XXXXXX        what is fetched and unpacked; always removed
 *     BASE/.NAME-XXXXXX/NAME   the checked files, and nothing else
 *     BASE/NAME                what the last one becomes by one rename
 */
#define _GNU_SOURCE
#include "child.h"
#include "data_sets.h"
#include "files/md5.h"
#include "progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WORK_CAP = GWT_PATH_CAP + 64, FILE_CAP = 3 * GWT_PATH_CAP };

/* ---- checking ---------------------------------------------------------------- */

/* directory/name, or that with .gz. */
static gw_status path_of(char path[FILE_CAP], const char *directory, const char *name)
{
    snprintf(path, FILE_CAP, "%s/%s", directory, name);
    if (access(path, F_OK) == 0)
        return GW_OK;
    snprintf(path, FILE_CAP, "%s/%s.gz", directory, name);
    if (access(path, F_OK) == 0)
        return GW_OK;
    return gw_fail(GW_ERR_DATA, "%s is missing from %s", name, directory);
}

static gw_status check_file(const gwc_set *set, const gwc_file *file,
                            const char *directory, int *right)
{
    char path[FILE_CAP], md5[GWT_MD5_CAP], text[16];
    gwt_bytes bytes;

    GWT_TRY(path_of(path, directory, file->name));
    GWT_TRY(gwt_bytes_load(&bytes, path));
    gwt_md5(bytes.at, bytes.len, md5);
    size_t len = bytes.len;
    gw_status st = set->check == NULL ? GW_OK : set->check(bytes.at, bytes.len, path);
    gwt_bytes_free(&bytes);
    GWT_TRY(st);
    *right = strcmp(md5, file->md5) == 0;
    if (!*right && (!set->copies || len == 0))
        return gw_fail(GW_ERR_DATA,
                       "%s is damaged: it has %zu bytes and md5 %s instead of %llu "
                       "bytes and md5 %s; delete it and get it again",
                       path, len, md5, (unsigned long long)file->len, file->md5);
    printf("  %-24s %9s  %s\n", file->name, gwc_bytes((double)len, text),
           *right ? "ok" : "readable, but differs from the published file");
    fflush(stdout);
    return GW_OK;
}

static gw_status check_all(const gwc_set *set, const char *directory)
{
    int right, all = 1;

    for (size_t i = 0; i < set->count; i++) {
        GWT_TRY(check_file(set, &set->files[i], directory, &right));
        all = all && right;
        if (gwc_stopped())
            return gw_fail(GW_ERR_SYSTEM, "stopped");
    }
    if (!all)
        printf("note: this version of %s differs from the published one; mention this "
               "when you report results\n",
               set->place->name);
    return GW_OK;
}

static gw_status check_found(const gwc_set *set, const char *directory)
{
    printf("%s is in %s\n", set->place->name, directory);
    return check_all(set, directory);
}

/* ---- moving into place --------------------------------------------------------- */

static gw_status make_directories(const char *path)
{
    char part[GWT_PATH_CAP];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; *at != '\0'; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(part, 0777);
            *at = '/';
        }
    if (mkdir(part, 0777) != 0 && errno != EEXIST)
        return gw_fail(GW_ERR_SYSTEM, "cannot create %s: %s", path, strerror(errno));
    return GW_OK;
}

static gw_status move(const char *from, const char *to)
{
    if (rename(from, to) == 0)
        return GW_OK;
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
        return gw_fail(GW_ERR_SYSTEM,
                       "%s exists but is not this data set; move it away and try again",
                       to);
    return gw_fail(GW_ERR_SYSTEM, "cannot move %s to %s: %s", from, to,
                   strerror(errno));
}

/* Moves the files of the data set, and no others, out of the unpacked archive. */
static gw_status pick_files(const gwc_set *set, const char *from, const char *to)
{
    char path[FILE_CAP], picked[FILE_CAP];

    GWT_TRY(make_directories(to));
    for (size_t i = 0; i < set->count; i++) {
        GWT_TRY(path_of(path, from, set->files[i].name));
        snprintf(picked, sizeof picked, "%s%s", to, strrchr(path, '/'));
        GWT_TRY(move(path, picked));
    }
    return GW_OK;
}

static gw_status fetch_into(const gwc_set *set, const char *work, const char *base)
{
    char below[GWT_PATH_CAP], from[FILE_CAP], picked[FILE_CAP], place[FILE_CAP];

    GWT_TRY(set->fetch(work, base, below));
    snprintf(from, sizeof from, "%s/%s", work, below);
    snprintf(picked, sizeof picked, "%s/%s", work, set->place->name);
    snprintf(place, sizeof place, "%s/%s", base, set->place->name);
    GWT_TRY(pick_files(set, from, picked));
    printf("checking the files\n");
    GWT_TRY(check_all(set, picked));
    GWT_TRY(move(picked, place));
    printf("%s is in %s\n", set->place->name, place);
    return GW_OK;
}

static gw_status fetch(const gwc_set *set, const char *base)
{
    char work[WORK_CAP];
    gw_status st;

    if (set->fetch == NULL)
        return GW_PENDING;
    GWT_TRY(make_directories(base));
    snprintf(work, sizeof work, "%s/.%s-XXXXXX", base, set->place->name);
    if (mkdtemp(work) == NULL)
        return gw_fail(GW_ERR_SYSTEM, "cannot create a directory in %s: %s", base,
                       strerror(errno));
    st = fetch_into(set, work, base);
    gwc_remove_tree(work);
    return st;
}

/* ---- the whole ----------------------------------------------------------------- */

static void print_by_hand(const gwc_set *set, const char *base)
{
    printf("gradwire cannot download %s.\n%s\nPut ", set->place->name, set->by_hand);
    if (set->fetch != NULL)
        printf("the archive, without unpacking it, into\n  %s\nor put ", base);
    printf("the files\n ");
    for (size_t i = 0; i < set->count; i++)
        printf(" %s", set->files[i].name);
    printf("\ninto\n  %s/%s\nand run 'gradwire data get %s' again to check them.\n",
           base, set->place->name, set->place->name);
}

/* Appends what the user can do by hand to the message of a failed download. */
static gw_status failed(const gwc_set *set, const char *base, gw_status st)
{
    char message[512];

    if (gwc_stopped() || st == GW_ERR_DATA || st == GW_ERR_NOMEM)
        return st;
    snprintf(message, sizeof message, "%s", gw_error_message());
    return gw_fail(st, "%s; %s (%s/%s)", message, set->by_hand, base, set->place->name);
}

gw_status gwc_set_get(const gwc_set *set, const char *into)
{
    char base[GWT_PATH_CAP], path[GWT_PATH_CAP];
    gw_status st;

    if (into != NULL)
        snprintf(base, sizeof base, "%s", into);
    else
        gwt_data_base(base);
    if (base[0] == '\0' || strlen(base) > GWT_PATH_CAP / 2)
        return gw_fail(GW_ERR_ARG,
                       "no directory for data sets; set one with --into DIR");
    if (gwt_data_search(set->place, into, "", path) == GW_OK)
        return check_found(set, path);
    st = fetch(set, base);
    if (st == GW_PENDING) {
        print_by_hand(set, base);
        (void)gw_fail(GW_ERR_SYSTEM, "%s is not installed yet; follow the steps above",
                      set->place->name);
    }
    return st == GW_OK || st == GW_PENDING ? st : failed(set, base, st);
}
