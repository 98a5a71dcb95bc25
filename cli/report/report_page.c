/* SPDX-License-Identifier: Apache-2.0
 *
 * report_page.c - writes the page: the bundled HTML, with the runs as JSON instead of a
 * marker. The JSON escapes '<', so that nothing in it can end its HTML element. */
#define _GNU_SOURCE
#include "report/report_page.h"
#include "common.h"
#include "files/json.h"
#include "files/newfile.h"
#include "report/page_bytes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "<!--RUNS-->";

/* The number of records drawn per run, which is more than a plot has pixels. */
enum { POINTS_MOST = 4000 };

gw_status gwc_page_there(void)
{
    size_t len;

    if (gwc_page_bytes(&len) != NULL)
        return GW_OK;
    return gw_fail(GW_ERR_ABSENT, "this build has no report page; install Node.js with "
                                  "npm (Debian's npm), then configure and build again");
}

/* ---- the runs as JSON ----------------------------------------------------------- */

/* Every stride-th record, all evaluations, and the last. */
static int is_drawn(const gwc_run *run, size_t i)
{
    size_t stride = run->points / POINTS_MOST + 1;

    return i % stride == 0 || i + 1 == run->points ||
           !isnan(run->point[GWC_TEST_ACCURACY][i]) ||
           !isnan(run->point[GWC_TEST_LOSS][i]);
}

static void write_points(gwt_json *j, const gwc_run *run)
{
    gwt_json_open(j, "points", '{');
    for (int s = 0; s < GWC_SHOWN; s++) {
        gwt_json_open(j, gwc_series_key[s], '[');
        for (size_t i = 0; i < run->points; i++)
            if (is_drawn(run, i))
                gwt_json_real(j, NULL, run->point[s][i]);
        gwt_json_close(j, ']');
    }
    gwt_json_close(j, '}');
}

static void write_settings(gwt_json *j, const gwc_run *run)
{
    gwt_json_open(j, "settings", '{');
    for (size_t i = 0; i < run->settings; i++) {
        const gwc_setting *s = &run->setting[i];
        if (s->kind == GWC_JSON_TEXT)
            gwt_json_text(j, s->key, s->text);
        else if (s->kind == GWC_JSON_BOOL)
            gwt_json_bool(j, s->key, s->number != 0.0);
        else
            gwt_json_real(j, s->key, s->number);
    }
    gwt_json_close(j, '}');
}

static void write_run(gwt_json *j, const gwc_run *run)
{
    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "name", run->name);
    gwt_json_text(j, "directory", run->directory);
    gwt_json_real(j, "step_s", gwc_run_step_seconds(run));
    gwt_json_real(j, "bytes_step", gwc_run_per_step(run, "bytes_sent"));
    gwt_json_real(j, "later_step_s", gwc_run_later_seconds(run));
    gwt_json_real(j, "later_bytes_step", gwc_run_later_bytes(run));
    gwt_json_bool(j, "validated", run->validated);
    gwt_json_real(j, "bits", gwc_run_number(run, "bits_per_param"));
    gwt_json_open(j, "parts", '{');
    gwt_json_real(j, "compute", gwc_run_per_step(run, "compute_s"));
    gwt_json_real(j, "encode", gwc_run_per_step(run, "encode_s"));
    gwt_json_real(j, "wait", gwc_run_per_step(run, "wait_s"));
    gwt_json_real(j, "decode", gwc_run_per_step(run, "decode_s"));
    gwt_json_close(j, '}');
    write_settings(j, run);
    write_points(j, run);
    gwt_json_close(j, '}');
}

static void write_notes(gwt_json *j, const gwc_page *page)
{
    char text[GWC_RUN_NAME_CAP + GWC_NOTE_CAP + 8];

    gwt_json_open(j, "notes", '[');
    for (size_t i = 0; i < page->notes_count; i++)
        gwt_json_text(j, NULL, page->notes[i]);
    for (size_t i = 0; i < page->count; i++)
        if (page->runs[i].note[0] != '\0') {
            snprintf(text, sizeof text, "%s: %s", page->runs[i].name,
                     page->runs[i].note);
            gwt_json_text(j, NULL, text);
        }
    gwt_json_close(j, ']');
}

/* The runs in memory; released with free(). */
static gw_status runs_json(const gwc_page *page, char **out, size_t *len)
{
    FILE *stream = open_memstream(out, len);
    gwt_json j = {.to = stream};

    if (stream == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for the page");
    gwt_json_open(&j, NULL, '{');
    gwt_json_text(&j, "title", page->title);
    gwt_json_text(&j, "version", gw_version());
    write_notes(&j, page);
    gwt_json_open(&j, "runs", '[');
    for (size_t i = 0; i < page->count; i++)
        write_run(&j, &page->runs[i]);
    gwt_json_close(&j, ']');
    gwt_json_close(&j, '}');
    int bad = ferror(stream);
    if (fclose(stream) != 0 || bad) {
        free(*out);
        *out = NULL;
        return gw_fail(GW_ERR_NOMEM, "no memory for the page");
    }
    return GW_OK;
}

/* ---- the file ------------------------------------------------------------------- */

static void write_escaped(FILE *file, const char *json, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (json[i] == '<')
            fputs("\\u003c", file);
        else
            putc(json[i], file);
}

typedef struct text {
    char *json;
    size_t len;
} text;

static void write_all(FILE *file, const void *arg)
{
    const text *runs = arg;
    size_t len;
    const char *page = gwc_page_bytes(&len);
    const char *at = memmem(page, len, mark, sizeof mark - 1);
    size_t before = at != NULL ? (size_t)(at - page) : len;

    fwrite(page, 1, before, file);
    write_escaped(file, runs->json, runs->len);
    if (at != NULL)
        fwrite(at + sizeof mark - 1, 1, len - before - (sizeof mark - 1), file);
}

gw_status gwc_page_write(const gwc_page *page, const char *path)
{
    text runs;
    gw_status st;

    GWT_TRY(gwc_page_there());
    GWT_TRY(runs_json(page, &runs.json, &runs.len));
    st = gwt_newfile_print(path, NULL, write_all, &runs);
    free(runs.json);
    return st;
}
