/* SPDX-License-Identifier: Apache-2.0
 *
 * support_checkpoint.h - a small training in a directory of its own, for tests of its
 * checkpoints. Define _GNU_SOURCE before. */
#ifndef SUPPORT_CHECKPOINT_H
#define SUPPORT_CHECKPOINT_H

#include "run/checkpoint.h"
#include "support_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* 700 / (4 x 8) = 21 steps per epoch. */
static inline gwt_config small(void)
{
    gwt_config config = small_training();

    config.checkpoint_every = "10";
    config.keep = 2;
    config.workers = 4;
    config.spawn = GW_SPAWN_THREADS;
    config.steps = 25;
    return config;
}

/* The run fails while it is prepared, with these words in its message. */
static inline void refuse(const gwt_config *config, gw_status status, const char *a,
                          const char *b)
{
    gwt_job *job;

    assert_int_equal(gwt_job_new(&job, config), status);
    if (strstr(gw_error_message(), a) == NULL || strstr(gw_error_message(), b) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", gw_error_message(), a, b);
}

static inline const char *name_of(int number)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/checkpoint-%06d.gwc", test_folder, number);
    return path;
}

static inline int is_there(int number)
{
    return access(name_of(number), F_OK) == 0;
}

static inline uint8_t *read_all(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 22);

    if (file == NULL || bytes == NULL)
        fail_msg("no file %s", path);
    *len = fread(bytes, 1, 1 << 22, file);
    fclose(file);
    return bytes;
}

static inline void flip(const char *path, long at)
{
    FILE *file = fopen(path, "r+b");
    int byte;

    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 16, file);
    fclose(file);
}

/* Runs c anew up to that step, and makes c go on from there to its end. */
static inline void stop_at(gwt_config *c, uint64_t step)
{
    gwt_config first = *c;

    first.force = 1;
    first.steps = step;
    run(&first);
    c->force = 0;
    c->resume = 1;
}

#define RUN(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

#endif
