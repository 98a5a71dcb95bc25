/* SPDX-License-Identifier: Apache-2.0
 *
 * test_train_newfile.c - files that are written for a user: whole or not at all, two
 * at once under one name, through links, and straight into what is no regular file. */
#define _GNU_SOURCE
#include "files/newfile.h"
#include "support_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAP = 4096 };

/* in_folder() has one buffer only. */
static const char *path_of(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *to = path[next++ % 4];

    snprintf(to, sizeof path[0], "%s", in_folder(name));
    return to;
}

static void assert_holds(const char *path, const char *text)
{
    char there[CAP] = "";
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    there[fread(there, 1, CAP - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(there, text);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

/* How many files there are in the folder, links and all. */
static size_t count_files(const char *pattern)
{
    size_t count;
    glob_t found;

    assert_int_equal(glob(path_of(pattern), GLOB_NOCHECK, NULL, &found), 0);
    count = found.gl_pathc;
    if (count == 1 && strchr(found.gl_pathv[0], '*') != NULL)
        count = 0;
    globfree(&found);
    return count;
}

static mode_t kind_of(const char *path)
{
    struct stat info;

    assert_int_equal(lstat(path, &info), 0);
    return info.st_mode & S_IFMT;
}

static void put(gwt_newfile *file, const char *text)
{
    assert_int_equal(gwt_newfile_add(file, text, strlen(text)), GW_OK);
}

static void old_one_stays_until_the_end(void **state)
{
    const char *path = path_of("file");
    gwt_newfile file;

    (void)state;
    write_text(path, "old");
    assert_int_equal(gwt_newfile_open(&file, path, NULL), GW_OK);
    put(&file, "new");
    assert_holds(path, "old");
    gwt_newfile_abandon(&file);
    assert_holds(path, "old");
    assert_int_equal(count_files("*"), 1);
    assert_int_equal(gwt_newfile_write(path, NULL, "new", 3), GW_OK);
    assert_holds(path, "new");
    assert_int_equal(count_files("*"), 1);
}

/* Each of them is whole; the last one stays. */
static void two_at_once(void **state)
{
    const char *path = path_of("file");
    gwt_newfile one, two;

    (void)state;
    assert_int_equal(gwt_newfile_open(&one, path, NULL), GW_OK);
    put(&one, "first");
    assert_int_equal(gwt_newfile_open(&two, path, NULL), GW_OK);
    put(&two, "2nd");
    put(&one, " file");
    assert_int_equal(gwt_newfile_commit(&one), GW_OK);
    assert_holds(path, "first file");
    put(&two, " file");
    assert_int_equal(gwt_newfile_commit(&two), GW_OK);
    assert_holds(path, "2nd file");
    assert_int_equal(count_files("*"), 1);
}

/* ---- links ---------------------------------------------------------------------- */

static void links_stay(void **state)
{
    (void)state;
    assert_int_equal(mkdir(path_of("there"), 0777), 0);
    write_text(path_of("there/file"), "old");
    assert_int_equal(symlink("there/file", path_of("link")), 0);
    assert_int_equal(symlink("link", path_of("link-to-link")), 0);
    assert_int_equal(gwt_newfile_write(path_of("link-to-link"), NULL, "new", 3), GW_OK);
    assert_true(kind_of(path_of("link-to-link")) == S_IFLNK);
    assert_true(kind_of(path_of("link")) == S_IFLNK);
    assert_holds(path_of("there/file"), "new");
    assert_int_equal(symlink("there/next", path_of("to-nothing")), 0);
    assert_int_equal(gwt_newfile_write(path_of("to-nothing"), NULL, "next", 4), GW_OK);
    assert_true(kind_of(path_of("to-nothing")) == S_IFLNK);
    assert_holds(path_of("there/next"), "next");
    assert_int_equal(count_files("*"), 4);
    assert_int_equal(count_files("there/*"), 2);
    assert_int_equal(symlink("round", path_of("round")), 0);
    assert_int_equal(gwt_newfile_write(path_of("round"), NULL, "x", 1), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "cannot write"));
}

/* ---- what is no regular file ---------------------------------------------------- */

typedef struct reader {
    const char *path;
    char text[CAP];
} reader;

static void *read_fifo(void *arg)
{
    reader *r = arg;
    FILE *file = fopen(r->path, "rb");

    if (file != NULL) {
        r->text[fread(r->text, 1, CAP - 1, file)] = '\0';
        fclose(file);
    }
    return NULL;
}

static void fifo_gets_the_bytes(void **state)
{
    reader r = {.path = path_of("fifo")};
    pthread_t thread;
    gwt_newfile file;

    (void)state;
    assert_int_equal(mkfifo(r.path, 0666), 0);
    /* A check must not open it: the reader would take it for the end. */
    assert_int_equal(gwt_newfile_check(r.path), GW_OK);
    assert_int_equal(pthread_create(&thread, NULL, read_fifo, &r), 0);
    assert_int_equal(gwt_newfile_open(&file, r.path, NULL), GW_OK);
    put(&file, "through ");
    put(&file, "the pipe");
    assert_int_equal(gwt_newfile_commit(&file), GW_OK);
    pthread_join(thread, NULL);
    assert_string_equal(r.text, "through the pipe");
    assert_true(kind_of(r.path) == S_IFIFO);
    assert_int_equal(count_files("*"), 1);
}

/* A device of our own like /dev/full, for whoever could replace the real one; NULL if
 * there can be none in this folder. */
static const char *full_device(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%s", in_folder("full"));
    if (mknod(path, S_IFCHR | 0666, makedev(1, 7)) == 0) {
        int fd = open(path, O_WRONLY);
        if (fd >= 0) {
            close(fd);
            return path;
        }
    }
    return access("/dev", W_OK) == 0 ? NULL : "/dev/full";
}

static void print_text(FILE *stream, const void *text)
{
    fputs(text, stream);
}

static void full_device_is_an_error(void **state)
{
    const char *path = full_device();
    gw_status st;

    (void)state;
    if (path == NULL)
        skip();
    st = gwt_newfile_write(path, NULL, "x", 1);
    assert_true(kind_of(path) == S_IFCHR);
    assert_int_equal(st, GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), strerror(ENOSPC)));
    st = gwt_newfile_print(path, NULL, print_text, "x");
    assert_int_equal(st, GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), strerror(ENOSPC)));
    assert_true(kind_of(path) == S_IFCHR);
}

/* A descriptor goes on where it is, also if it is a file. */
static void descriptors_go_on(void **state)
{
    const char *path = path_of("file");
    char name[64];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before ", 7), 7);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_int_equal(gwt_newfile_check(name), GW_OK);
    assert_int_equal(gwt_newfile_write(name, NULL, "between ", 8), GW_OK);
    assert_int_equal(symlink(name, path_of("link")), 0);
    assert_int_equal(gwt_newfile_print(path_of("link"), NULL, print_text, "it "),
                     GW_OK);
    assert_int_equal(write(fd, "after", 5), 5);
    close(fd);
    assert_holds(path, "before between it after");
    assert_int_equal(gwt_newfile_check(name), GW_ERR_SYSTEM);
    assert_int_equal(count_files("*"), 2);
}

static void checks_leave_nothing(void **state)
{
    (void)state;
    assert_int_equal(gwt_newfile_check(path_of("file")), GW_OK);
    assert_int_equal(count_files("*"), 0);
    assert_int_equal(gwt_newfile_check(path_of("nowhere/file")), GW_ERR_SYSTEM);
    assert_int_equal(gwt_newfile_check(test_folder), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), strerror(EISDIR)));
    assert_int_equal(gwt_newfile_write(test_folder, NULL, "x", 1), GW_ERR_SYSTEM);
    assert_int_equal(count_files("*"), 0);
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RUN(old_one_stays_until_the_end),
        RUN(two_at_once),
        RUN(links_stay),
        RUN(fifo_gets_the_bytes),
        RUN(full_device_is_an_error),
        RUN(descriptors_go_on),
        RUN(checks_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
