/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_command.c - "gradwire bench": measures how fast the parts are on this
 * machine. */
#include "bench.h"
#include "commands.h"
#include "flags.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])
#define AT(field)   offsetof(gwb_settings, field)

enum { ARGS_MAX = 64 };

static const gwc_flag flags[] = {
    {"n", "FLOATS", NULL, "length of vectors [25000000, with --quick 100000]",
     GWC_COUNT, AT(n), 1000, 4e9},
    {"threads", "N", "1", "threads per kernel", GWC_INT, AT(threads), 1, 64},
    {"filter", "TEXT", NULL, "measure only rows whose name contains TEXT", GWC_TEXT,
     AT(filter), 0, 0},
    {"model", "NAME", "fnn3", "the model for the benchmark 'model'", GWC_TEXT,
     AT(model), 0, 0},
    {"batch", "N", "64", "its samples per step", GWC_COUNT, AT(batch), 1, 1e6},
    {"sample", "CxHxW", "1x28x28",
     "channels, height and width of its samples; for text,\n"
     "the number of tokens",
     GWC_TEXT, AT(sample), 0, 0},
    {"classes", "N", "10", "its number of classes or of vocabulary words", GWC_COUNT,
     AT(classes), 2, 1e7},
    {"quick", NULL, NULL, "only check that it works, with few, small inputs",
     GWC_SWITCH, AT(quick), 0, 0},
    {"json", NULL, NULL, "print each row as a line of JSON", GWC_SWITCH, AT(json), 0,
     0},
};

static void print_help(void)
{
    const gwb_group *group;

    puts(
        "Usage: gradwire bench [BENCHMARK]... [FLAGS]\n"
        "\n"
        "Measures the parts of gradwire against what this machine allows. A ratio\n"
        "compares the best times of two pieces of code that ran in turns. 'median' is\n"
        "the median ratio of single rounds, and shows how quiet the machine was.\n"
        "docs/measuring.md explains the rows. The exit code is 0 even if targets are\n"
        "missed.\n"
        "\n"
        "Benchmarks");
    for (size_t i = 0; (group = gwb_group_at(i)) != NULL; i++)
        printf("  %-26s%s%s\n", group->name, group->summary,
               group->by_default ? "" : "; only if named");
    puts("\nFlags");
    gwc_flags_help(flags, COUNT(flags), stdout);
    puts("\n"
         "Examples\n"
         "  gradwire bench\n"
         "  gradwire bench kernels --filter top-k\n"
         "  gradwire bench model --model resnet20 --sample 3x32x32 --batch 32\n"
         "  GW_CPU_OFF=avx2 gradwire bench kernels --json");
}

static int run_bench(int argc, char **argv)
{
    gwb_settings set = {0};
    char *names[ARGS_MAX], *rest[ARGS_MAX];
    int help, left;
    gw_status st;

    if (argc > ARGS_MAX) {
        (void)gw_fail(GW_ERR_ARG, "too many arguments: at most %d are allowed",
                      ARGS_MAX);
        return GWC_USAGE;
    }
    size_t count = gwc_flags_part(flags, COUNT(flags), argc, argv, names, rest, &left);
    st = gwc_flags_read(flags, COUNT(flags), "bench", left, rest, &set, &help);
    if (st != GW_OK)
        return GWC_USAGE;
    if (help) {
        print_help();
        return GWC_DONE;
    }
    st = gwb_run(&set, names, count);
    return gwc_exit_code(st);
}

static const char *word(size_t i)
{
    const gwb_group *group = gwb_group_at(i);

    return group != NULL ? group->name : NULL;
}

const gwc_command gwc_command_bench = {
    .name = "bench",
    .summary = "measure kernels, messages, links and exchanges on this machine",
    .run = run_bench,
    .flags = flags,
    .flag_count = COUNT(flags),
    .word = word,
};
