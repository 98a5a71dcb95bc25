/* SPDX-License-Identifier: Apache-2.0
 *
 * model_shapes.c - the table of known models, and numbers such as 124m. */
#include "model_shapes.h"
#include "common.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* fnn3, resnet20 and vgg16 are the trainer's, on the data sets they are meant for; the
 * others have the sizes that their authors' code has: ResNet-50 and AlexNet for the
 * 1000 classes of ImageNet, GPT-2 with its embedding used twice, LLaMA with 32 layers
 * of width 4096. */
static const gwc_shape table[] = {
    {"fnn3", 199210},         {"resnet20", 269722},     {"resnet50", 25557032},
    {"vgg16", 14728266},      {"alexnet", 61100840},    {"lstm-ptb", 66034000},
    {"gpt2-124m", 124439808}, {"llama-7b", 6738415616},
};

_Static_assert(COUNT(table) <= GWC_SHAPES_MAX, "room for the names of all shapes");

const gwc_shape *gwc_shape_at(size_t i)
{
    return i < COUNT(table) ? &table[i] : NULL;
}

const gwc_shape *gwc_shape_find(const char *name)
{
    for (size_t i = 0; i < COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

size_t gwc_shape_names(const char **names)
{
    for (size_t i = 0; i < COUNT(table); i++)
        names[i] = table[i].name;
    return COUNT(table);
}

/* What a letter after the number multiplies it by; 0 if it is no such letter. */
static double unit_of(const char *text)
{
    static const char letters[] = "kmbgt";
    static const double units[] = {1e3, 1e6, 1e9, 1e9, 1e12};
    const char *at;

    if (text[0] == '\0')
        return 1.0;
    at = strchr(letters, tolower((unsigned char)text[0]));
    return at != NULL && text[1] == '\0' ? units[at - letters] : 0.0;
}

gw_status gwc_parse_params(const char *what, const char *text, uint64_t max,
                           uint64_t *out)
{
    char *end = NULL;
    double x = 0.0, unit = 0.0;

    /* strtod() would also accept signs, hexadecimal numbers, infinity and NaN. */
    if (text[strspn(text, "0123456789.eE+kKmMbBgGtT")] == '\0' &&
        (isdigit((unsigned char)text[0]) || text[0] == '.')) {
        x = strtod(text, &end);
        unit = end != text ? unit_of(end) : 0.0;
    }
    if (unit == 0.0)
        return gw_fail(GW_ERR_ARG,
                       "%s: '%s' is not a number of parameters; write it like 124m, "
                       "25.6M, 7b or 1e9",
                       what, text);
    if (!(x * unit >= 0.5 && x * unit <= (double)max))
        return gw_fail(GW_ERR_ARG, "%s: %s is not between 1 and %" PRIu64, what, text,
                       max);
    *out = (uint64_t)(x * unit + 0.5);
    return GW_OK;
}
