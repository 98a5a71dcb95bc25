/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_command.c - "gradwire weights": exports the weights in checkpoints. */
#include "commands.h"

#include "run/weights.h"

#include <stdio.h>
#include <string.h>

static void print_help(void)
{
    puts(
        "Usage: gradwire weights export CHECKPOINT FILE.safetensors\n"
        "\n"
        "Writes the weights in a checkpoint to a safetensors file. Where the workers'\n"
        "models differ, it writes their average. If CHECKPOINT is a run directory, "
        "its\n"
        "newest good checkpoint is used. An existing FILE is overwritten. 'gradwire\n"
        "train --init FILE' starts from such weights.\n"
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

static const char *word(size_t i)
{
    return i == 0 ? "export" : NULL;
}

const gwc_command gwc_command_weights = {
    .name = "weights",
    .summary = "export the weights in a checkpoint",
    .run = run_weights,
    .word = word,
};
