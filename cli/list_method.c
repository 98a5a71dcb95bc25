/* SPDX-License-Identifier: Apache-2.0
 *
 * list_method.c - "gradwire list gtopk": describes the keys of a method, what it costs
 * and what to expect of it. Nothing here knows a method by name. */
#include "list_method.h"
#include "terminal.h"
#include "common.h"
#include "files/json.h"

#include <stdio.h>
#include <string.h>

/* The longest canonical spec, and more. */
enum { SPEC_CAP = 256 };

/* A spec, or a single stage. A stage that no spec can begin with has no traits. */
typedef struct method {
    const char *spec; /* NULL: a stage that refines others */
    gw_spec_info info;
} method;

static gw_status find(const char *text, method *out)
{
    gw_stage_info stage = {.struct_size = sizeof stage};

    *out = (method){.spec = text, .info = {.struct_size = sizeof out->info}};
    if (strpbrk(text, ":+") != NULL)
        return gw_spec_describe(text, &out->info);
    GWT_TRY(gw_stage_describe(text, &stage));
    if (stage.recipe) {
        out->spec = stage.example;
        return gw_spec_describe(stage.example, &out->info);
    }
    out->spec = NULL;
    out->info.stages[0] = stage.name;
    return GW_OK;
}

/* ---- as text -------------------------------------------------------------- */

static void print_row(const char *title, const char *text)
{
    gwc_printf(stdout, 15, "  %-12s %s\n", title, text);
}

static gw_status print_keys(const gw_stage_info *stage)
{
    for (size_t i = 0; i < stage->keys; i++) {
        gw_key_info key = {.struct_size = sizeof key};
        char text[64];
        GWT_TRY(gw_key_describe(stage->name, i, &key));
        snprintf(text, sizeof text, "%s=%s", key.name,
                 key.fallback != NULL ? key.fallback : "...");
        gwc_printf(stdout, 23, "    %-18s %s\n    %-18s %s%s\n", text, key.meaning, "",
                   key.range, key.fallback != NULL ? "" : "; must be given");
    }
    return GW_OK;
}

static gw_status print_stage(const char *name)
{
    gw_stage_info stage = {.struct_size = sizeof stage};

    GWT_TRY(gw_stage_describe(name, &stage));
    gwc_printf(stdout, 0, "%s - %s\n\n", stage.name, stage.summary);
    print_row("example", stage.example);
    print_row("sends", stage.cost);
    if (stage.expect != NULL)
        print_row("expect", stage.expect);
    if (stage.keys > 0)
        puts("  keys, with their defaults");
    GWT_TRY(print_keys(&stage));
    putchar('\n');
    return GW_OK;
}

static void print_spec(const method *m)
{
    char text[64], full[SPEC_CAP];

    gwc_printf(stdout, 0, "%s\n\n", m->spec);
    if (gw_spec_check(m->spec, full, sizeof full) == GW_OK)
        print_row("in full", full);
    snprintf(text, sizeof text, "%g bytes for each parameter, and buffers for messages",
             m->info.bytes_per_param);
    print_row("keeps",
              m->info.bytes_per_param > 0 ? text : "only buffers for messages");
    for (unsigned bit = 1; bit != 0 && bit <= m->info.traits; bit <<= 1)
        if (m->info.traits & bit)
            print_row("", gw_trait_text((gw_trait)bit));
    putchar('\n');
}

static gw_status print_text(const method *m)
{
    for (size_t i = 0; m->info.stages[i] != NULL; i++)
        GWT_TRY(print_stage(m->info.stages[i]));
    if (m->spec != NULL)
        print_spec(m);
    gwc_printf(stdout, 0,
               "P is the number of workers and n is the number of parameters. See "
               "docs/methods.md.\n");
    return GW_OK;
}

/* ---- as JSON -------------------------------------------------------------- */

static gw_status json_keys(gwt_json *j, const gw_stage_info *stage)
{
    gwt_json_open(j, "keys", '[');
    for (size_t i = 0; i < stage->keys; i++) {
        gw_key_info key = {.struct_size = sizeof key};
        GWT_TRY(gw_key_describe(stage->name, i, &key));
        gwt_json_open(j, NULL, '{');
        gwt_json_text(j, "name", key.name);
        gwt_json_text(j, "default", key.fallback);
        gwt_json_bool(j, "required", key.fallback == NULL);
        gwt_json_text(j, "range", key.range);
        gwt_json_text(j, "meaning", key.meaning);
        gwt_json_close(j, '}');
    }
    gwt_json_close(j, ']');
    return GW_OK;
}

static gw_status json_stage(gwt_json *j, const char *name)
{
    gw_stage_info stage = {.struct_size = sizeof stage};

    GWT_TRY(gw_stage_describe(name, &stage));
    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "name", stage.name);
    gwt_json_text(j, "summary", stage.summary);
    gwt_json_text(j, "example", stage.example);
    gwt_json_text(j, "sends", stage.cost);
    gwt_json_text(j, "expect", stage.expect);
    GWT_TRY(json_keys(j, &stage));
    gwt_json_close(j, '}');
    return GW_OK;
}

static gw_status print_json(const method *m)
{
    gwt_json j = {.to = stdout, .indent = 2};
    char full[SPEC_CAP];

    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "spec", m->spec);
    if (m->spec != NULL && gw_spec_check(m->spec, full, sizeof full) == GW_OK)
        gwt_json_text(&j, "in_full", full);
    gwt_json_open(&j, "stages", '[');
    for (size_t i = 0; m->info.stages[i] != NULL; i++)
        GWT_TRY(json_stage(&j, m->info.stages[i]));
    gwt_json_close(&j, ']');
    if (m->spec != NULL) {
        gwt_json_real(&j, "bytes_per_param", m->info.bytes_per_param);
        gwt_json_count(&j, "period", m->info.period);
        gwt_json_open(&j, "traits", '[');
        for (unsigned bit = 1; bit != 0 && bit <= m->info.traits; bit <<= 1)
            if (m->info.traits & bit)
                gwt_json_text(&j, NULL, gw_trait_text((gw_trait)bit));
        gwt_json_close(&j, ']');
    }
    gwt_json_close(&j, '}');
    putchar('\n');
    return GW_OK;
}

gw_status gwc_list_method(const char *text, int json)
{
    method m;

    GWT_TRY(find(text, &m));
    return json ? print_json(&m) : print_text(&m);
}
