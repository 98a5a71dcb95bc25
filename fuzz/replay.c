/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a fuzz target over stored inputs, without libFuzzer.
 *
 * Each argument is a file or a folder of files. A folder that does not exist is
 * an empty corpus: the empty input is always tried. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static size_t replayed;

static void die(const char *what, const char *path)
{
    fprintf(stderr, "replay: cannot %s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

/* The input is handed over in a block of exactly its length, so that a sanitizer
 * sees a read past its end. */
static void replay_file(const char *path, size_t len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(len > 0 ? len : 1);

    if (file == NULL || data == NULL)
        die("open", path);
    if (fread(data, 1, len, file) != len)
        die("read", path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    replayed++;
}

static void replay(const char *path);

static void replay_folder(const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);

    if (count < 0)
        die("list", path);
    for (int i = 0; i < count; i++) {
        char *child;

        if (names[i]->d_name[0] != '.') {
            if (asprintf(&child, "%s/%s", path, names[i]->d_name) < 0)
                die("list", path);
            replay(child);
            free(child);
        }
        free(names[i]);
    }
    free(names);
}

static void replay(const char *path)
{
    struct stat info;

    if (stat(path, &info) != 0)
        die("find", path);
    if (S_ISDIR(info.st_mode))
        replay_folder(path);
    else
        replay_file(path, (size_t)info.st_size);
}

int main(int argc, char **argv)
{
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat info;

        if (stat(argv[i], &info) != 0 && errno == ENOENT)
            continue;
        replay(argv[i]);
    }
    printf("replayed %zu inputs and the empty one\n", replayed);
    return 0;
}
