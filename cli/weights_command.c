/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_command.c - "gradwire weights": takes weights out of checkpoints. */
#include "commands.h"

#include "run/weights.h"

#include <stdio.h>
#include <string.h>

static void print_help(void)
{
    puts(
        "Usage: gradwire weights export CHECKPOINT FILE.safetensors\n"
        "\n"
        "Writes the weights of a checkpoint as safetensors: the average, where the\n"
        "workers' models differ. CHECKPOINT may be a run directory: its newest good\n"
        "one is taken. FILE is written over. 'gradwire train --init FILE' begins with\n"
        "such weights.\n"
        "\n"
        "Examples\n"
        "  gradwire weights export runs/first first.safetensors\n"
        "  gradwire weights export runs/first/checkpoint-000003.gwc first.safetensors");
}

static int run_weights(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help();
            return GWC_DONE;
        }
    if (argc != 3 || strcmp(argv[0], "export") != 0) {
        (void)gw_fail(GW_ERR_ARG, "usage: gradwire weights export CHECKPOINT FILE");
        return GWC_USAGE;
    }
    return gwt_weights_export(argv[1], argv[2]) == GW_OK ? GWC_DONE : GWC_FAILED;
}

const gwc_command gwc_command_weights = {
    .name = "weights",
    .summary = "take the weights out of a checkpoint",
    .run = run_weights,
};
