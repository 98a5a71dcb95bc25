/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - the table of groups of benchmarks. To add one: write its file and add
 * one line to the table. */
#include "bench.h"
#include "common.h"
#include "kernels/pool.h"

#include <stdio.h>
#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

/* The size of a model of 25 million parameters, as ResNet-50 is one; beyond any
 * cache. */
enum { FLOATS = 25000000, FLOATS_QUICK = 100000 };

static const gwb_group *const table[] = {
    &gwb_group_kernels, &gwb_group_wire,  &gwb_group_link,  &gwb_group_exchange,
    &gwb_group_recipes, &gwb_group_train, &gwb_group_model, &gwb_group_beside,
#ifdef GRADWIRE_HAVE_GROUP
    &gwb_group_tls,
#endif
};

const gwb_group *gwb_group_at(size_t i)
{
    return i < COUNT(table) ? table[i] : NULL;
}

static gw_status find(const char *name, const gwb_group **out)
{
    const char *names[COUNT(table)];

    for (size_t i = 0; i < COUNT(table); i++) {
        names[i] = table[i]->name;
        if (strcmp(names[i], name) == 0) {
            *out = table[i];
            return GW_OK;
        }
    }
    return gwt_fail_name("benchmark", name, names, COUNT(table),
                         "'gradwire bench --help'");
}

static gw_status run_named(gwb_sheet *sheet, char *const *names, size_t count)
{
    const gwb_group *group;

    for (size_t i = 0; i < count; i++)
        GWI_TRY(find(names[i], &group));
    for (size_t i = 0; i < count; i++) {
        GWI_TRY(find(names[i], &group));
        GWI_TRY(group->run(sheet));
    }
    return GW_OK;
}

static gw_status run_default(gwb_sheet *sheet)
{
    for (size_t i = 0; i < COUNT(table); i++)
        if (table[i]->by_default)
            GWI_TRY(table[i]->run(sheet));
    return GW_OK;
}

gw_status gwb_run(const gwb_settings *set, char *const *names, size_t count)
{
    gwb_settings own = *set;
    gwb_sheet sheet = {.set = &own};

    if (own.n == 0)
        own.n = own.quick ? FLOATS_QUICK : FLOATS;
    gwi_threads_set((unsigned)own.threads);
    GWI_TRY(count > 0 ? run_named(&sheet, names, count) : run_default(&sheet));
    if (!own.json && sheet.targets > 0)
        printf("\n%u of %u targets met\n", sheet.met, sheet.targets);
    return GW_OK;
}
