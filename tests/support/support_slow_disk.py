# SPDX-License-Identifier: Apache-2.0
#
# support_slow_disk.py - a disk that takes its time: a small library, loaded before all others,
# in which fsync() of a file sleeps if a word is in the file's name, and so does open() to read.
import os
import shutil
import subprocess

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void rest(const char *name)
{
    const char *word = getenv("SLOW_FILE"), *seconds = getenv("SLOW_SECONDS");
    struct timespec nap = {0};

    if (word == NULL || seconds == NULL || strstr(name, word) == NULL)
        return;
    nap.tv_sec = atoi(seconds);
    nanosleep(&nap, NULL);
}

int fsync(int fd)
{
    int (*real)(int);
    char link[64], name[4096] = "";

    *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, name, sizeof name - 1) > 0)
        rest(name);
    return real(fd);
}

int open(const char *name, int flags, ...)
{
    int (*real)(const char *, int, ...);
    int mode = 0;

    if (flags & O_CREAT) {
        __builtin_va_list list;
        __builtin_va_start(list, flags);
        mode = __builtin_va_arg(list, int);
        __builtin_va_end(list);
    }
    *(void **)&real = dlsym(RTLD_NEXT, "open");
    if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_DIRECTORY))
        rest(name);
    return real(name, flags, mode);
}
"""


def build(folder):
    """The library's path, None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with open(f"{folder}/slow.c", "w") as f:
        f.write(SOURCE)
    made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", f"{folder}/slow.c", "-o",
                           f"{folder}/slow.so", "-ldl"], capture_output=True)
    return f"{folder}/slow.so" if made.returncode == 0 else None


def environment(library, word, seconds):
    """In which files whose name has the word in it take so many seconds."""
    asan = os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "LD_PRELOAD": library, "SLOW_FILE": word, "SLOW_SECONDS": str(seconds),
            "ASAN_OPTIONS": f"{asan}:verify_asan_link_order=0" if asan else
            "verify_asan_link_order=0"}
