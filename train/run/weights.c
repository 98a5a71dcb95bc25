/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - writes weights to files and reads them back. */
#include "run/weights.h"

#include "run/checkpoint.h"
#include "files/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SHAPE_CAP = 160 };

/* ---- writing ------------------------------------------------------------------- */

/* The same with the statistics as one more tensor. */
static gw_status write_with_stats(const char *path, const gw_tensor *tensors,
                                  const size_t *windows, size_t count,
                                  const float *params, const float *stats, size_t n)
{
    size_t floats = 0;
    gw_status st = GW_ERR_NOMEM;

    for (size_t i = 0; i < count; i++)
        floats += tensors[i].rows * tensors[i].cols;
    gw_tensor *all = gwt_calloc(count + 1, sizeof *all, "the names of tensors");
    size_t *all_windows = gwt_calloc(count + 1, sizeof *all_windows, "windows");
    float *values = gwt_calloc(floats + n, sizeof *values, "a copy of the weights");
    if (all != NULL && all_windows != NULL && values != NULL) {
        if (windows != NULL)
            memcpy(all_windows, windows, count * sizeof *windows);
        memcpy(all, tensors, count * sizeof *all);
        all[count] = (gw_tensor){GWT_STATS_NAME, floats, 1, n};
        memcpy(values, params, floats * sizeof *values);
        memcpy(values + floats, stats, n * sizeof *values);
        st = gwt_safetensors_write(path, all, all_windows, count + 1, values);
    }
    gwt_free(all);
    gwt_free(all_windows);
    gwt_free(values);
    return st;
}

gw_status gwt_weights_write(const char *path, const gw_tensor *tensors,
                            const size_t *windows, size_t count, const float *params,
                            const float *stats, size_t n)
{
    if (n > 0)
        return write_with_stats(path, tensors, windows, count, params, stats, n);
    return gwt_safetensors_write(path, tensors, windows, count, params);
}

/* ---- reading ------------------------------------------------------------------- */

/* Whether the first dimensions multiply to rows and the others to cols. */
static int fits(const gwt_stored *s, size_t rows, size_t cols)
{
    uint64_t first = 1, rest = 1;

    for (size_t i = 0; i < s->dims; i++)
        rest *= s->dim[i]; /* checked against the length of the file */
    if (rest != (uint64_t)rows * cols)
        return 0;
    for (size_t i = 0; i < s->dims && first != rows; i++)
        first *= s->dim[i];
    return first == rows;
}

static const char *shape_text(const gwt_stored *s, char text[SHAPE_CAP])
{
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < s->dims; i++)
        len += (size_t)snprintf(text + len, SHAPE_CAP - len, "%s%" PRIu64,
                                i > 0 ? " x " : "", s->dim[i]);
    return s->dims > 0 ? text : "a single number";
}

/* Finds a tensor of the model in the file and reads it, unless `to` is NULL. */
static gw_status read_one(const gwt_safetensors *in, const gw_tensor *t, float *to)
{
    const gwt_stored *s = gwt_safetensors_find(in, t->name);
    char shape[SHAPE_CAP];

    if (s == NULL)
        return gw_fail(GW_ERR_DATA, "%s has no tensor '%s', but the model has one",
                       in->from.name, t->name);
    if (strcmp(s->type, "F32") == 0 && !fits(s, t->rows, t->cols))
        return gw_fail(GW_ERR_DATA,
                       "tensor '%s' in %s is %s, but that of the model is %zu x %zu",
                       t->name, in->from.name, shape_text(s, shape), t->rows, t->cols);
    if (to == NULL)
        return gwt_safetensors_check(in, s, t->rows * t->cols);
    return gwt_safetensors_read(in, s, to, t->rows * t->cols);
}

/* Checks that the file has no tensor that is not in the model. */
static gw_status check_known(const gwt_safetensors *in, const gw_tensor *tensors,
                             size_t count, size_t stats)
{
    for (size_t i = 0; i < in->count; i++) {
        const char *name = in->list[i].name;
        size_t k = 0;
        while (k < count && strcmp(tensors[k].name, name) != 0)
            k++;
        if (k == count && (stats == 0 || strcmp(name, GWT_STATS_NAME) != 0))
            return gw_fail(
                GW_ERR_DATA,
                "%s has a tensor '%.100s', but the model has none of that name",
                in->from.name, name);
    }
    return GW_OK;
}

/* Reads all tensors into the model; if params is NULL, only checks them. */
static gw_status read_into(const gwt_safetensors *in, gwt_model *model, float *params)
{
    size_t count, n;
    const gw_tensor *tensors = gwt_model_tensors(model, &count);
    float *stats = gwt_model_stats(model, &n);

    GWT_TRY(check_known(in, tensors, count, n));
    for (size_t i = 0; i < count; i++)
        GWT_TRY(read_one(in, &tensors[i],
                         params != NULL ? params + tensors[i].offset : NULL));
    gw_tensor extra = {GWT_STATS_NAME, 0, 1, n};
    return n > 0 ? read_one(in, &extra, params != NULL ? stats : NULL) : GW_OK;
}

static gw_status with_file(const char *path, gwt_model *model, float *params)
{
    gwt_safetensors in;
    gw_status st;

    GWT_TRY(gwt_safetensors_open(&in, path));
    st = read_into(&in, model, params);
    gwt_safetensors_close(&in);
    return st;
}

gw_status gwt_weights_read(const char *path, gwt_model *model)
{
    return with_file(path, model, gwt_model_params(model));
}

gw_status gwt_weights_check(const char *path, gwt_model *model)
{
    return with_file(path, model, NULL);
}

/* ---- out of a checkpoint ----------------------------------------------------------
 */

/* Parses one line of TENS, "name rows cols", at *at. Replaces the blank after the name
 * by 0. */
static gw_status take_line(gwt_weights *w, const char *file, char **at, size_t *offset,
                           uint64_t floats)
{
    char *line = *at, *end = strchr(line, '\n'), *cols, *rows;
    gw_tensor *t = &w->tensors[w->count];

    if (end == NULL)
        return gw_fail(GW_ERR_DATA, "the list of tensors in %s is malformed", file);
    *end = '\0';
    *at = end + 1;
    cols = strrchr(line, ' ');
    if (cols != NULL)
        *cols++ = '\0';
    rows = strrchr(line, ' ');
    if (cols == NULL || rows == NULL)
        return gw_fail(GW_ERR_DATA, "a tensor in %s has no shape", file);
    *rows++ = '\0';
    uint64_t r, c, left = floats - *offset;
    GWT_TRY(gwt_parse_count("rows of a tensor", rows, 1, UINT32_MAX, &r));
    GWT_TRY(gwt_parse_count("columns of a tensor", cols, 1, UINT32_MAX, &c));
    if (r * c > left)
        return gw_fail(GW_ERR_DATA, "the tensors in %s are larger than its model",
                       file);
    *t = (gw_tensor){line, *offset, (size_t)r, (size_t)c};
    *offset += (size_t)(r * c);
    w->count++;
    return GW_OK;
}

static gw_status take_tensors(gwt_weights *w, const gwt_sections *in,
                              const gwt_checkpoint_job *job)
{
    const gwt_section *text = gwt_sections_find(in, GWT_KIND_TENSORS, 0);
    size_t lines = 0, offset = 0;

    w->names = gwt_calloc((size_t)text->len + 1, 1, "the names of tensors");
    if (w->names == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(gwt_sections_read(in, text, 0, w->names, (size_t)text->len));
    for (size_t i = 0; i < text->len; i++)
        lines += w->names[i] == '\n';
    w->tensors = gwt_calloc(lines + 1, sizeof *w->tensors, "the names of tensors");
    if (w->tensors == NULL)
        return GW_ERR_NOMEM;
    char *at = w->names;
    while (w->count < lines && *at != '\0')
        GWT_TRY(take_line(w, in->from.name, &at, &offset, job->floats));
    if (offset != job->floats || at != w->names + text->len)
        return gw_fail(GW_ERR_DATA, "the tensors in %s do not match its model",
                       in->from.name);
    return GW_OK;
}

/* The windows of convolutions, a number per line; older files have none. A window that
 * does not fit its tensor is an error. */
static gw_status take_windows(gwt_weights *w, const gwt_sections *in)
{
    const gwt_section *section = gwt_sections_find(in, GWT_KIND_WINDOWS, 0);
    char *text, *at;
    gw_status st;

    w->windows = gwt_calloc(w->count + 1, sizeof *w->windows, "windows");
    if (w->windows == NULL)
        return GW_ERR_NOMEM;
    if (section == NULL)
        return GW_OK;
    text = gwt_calloc((size_t)section->len + 1, 1, "windows");
    if (text == NULL)
        return GW_ERR_NOMEM;
    st = gwt_sections_read(in, section, 0, text, (size_t)section->len);
    at = text;
    for (size_t i = 0; st == GW_OK && i < w->count; i++) {
        size_t k = strtoul(at, &at, 10);
        if (*at++ != '\n' || k > 4096 || (k > 0 && w->tensors[i].cols % (k * k) != 0))
            st = gw_fail(GW_ERR_DATA, "the windows in %s do not match its tensors",
                         in->from.name);
        else
            w->windows[i] = k;
    }
    gwt_free(text);
    return st;
}

/* The average of the first n floats of `copies` sections. */
static gw_status take_average(const gwt_sections *in, uint32_t kind, uint64_t copies,
                              float *to, size_t n)
{
    const size_t most = n < GWT_PIECE / sizeof *to ? n + 1 : GWT_PIECE / sizeof *to;
    float *piece = gwt_calloc(most, sizeof *piece, "a piece of a checkpoint");
    gw_status st = piece != NULL ? GW_OK : GW_ERR_NOMEM;

    for (uint64_t r = 0; st == GW_OK && r < copies; r++) {
        const gwt_section *s = gwt_sections_find(in, kind, (uint32_t)r);
        for (size_t i = 0; st == GW_OK && i < n; i += most) {
            size_t part = n - i < most ? n - i : most;
            st = gwt_sections_read(in, s, i * sizeof *to, piece, part * sizeof *to);
            for (size_t k = 0; k < part; k++)
                to[i + k] = r == 0 ? piece[k] : to[i + k] + piece[k];
        }
    }
    for (size_t i = 0; copies > 1 && i < n; i++)
        to[i] /= (float)copies;
    gwt_free(piece);
    return st;
}

static gw_status take_weights(gwt_weights *w, const gwt_sections *in,
                              const gwt_checkpoint_job *job)
{
    size_t n = (size_t)job->floats;

    GWT_TRY(take_tensors(w, in, job));
    GWT_TRY(take_windows(w, in));
    w->stats_floats = (size_t)job->stats;
    w->params = gwt_calloc(n, sizeof *w->params, "weights");
    w->stats = gwt_calloc(w->stats_floats, sizeof *w->stats, "statistics");
    if (w->params == NULL || w->stats == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(take_average(in, GWT_KIND_MODEL, job->models, w->params, n));
    return take_average(in, GWT_KIND_KEPT, job->workers, w->stats, w->stats_floats);
}

gw_status gwt_weights_of(gwt_weights *out, const gwt_sections *in,
                         const gwt_checkpoint_job *job)
{
    *out = (gwt_weights){0};
    gw_status st = take_weights(out, in, job);
    if (st != GW_OK)
        gwt_weights_free(out);
    return st;
}

void gwt_weights_free(gwt_weights *weights)
{
    gwt_free(weights->tensors);
    gwt_free(weights->windows);
    gwt_free(weights->names);
    gwt_free(weights->params);
    gwt_free(weights->stats);
    *weights = (gwt_weights){0};
}

gw_status gwt_weights_export(const char *checkpoint, const char *path)
{
    char found[GWT_FILE_CAP];
    gwt_checkpoint_job job;
    gwt_weights weights;
    gwt_sections in;
    struct stat info;
    gw_status st;

    if (stat(checkpoint, &info) == 0 && S_ISDIR(info.st_mode)) {
        GWT_TRY(gwt_checkpoints_newest(checkpoint, found));
        checkpoint = found;
    }
    GWT_TRY(gwt_checkpoint_open(&in, checkpoint, &job));
    st = gwt_weights_of(&weights, &in, &job);
    gwt_sections_close(&in);
    if (st != GW_OK)
        return st;
    st = gwt_weights_write(path, weights.tensors, weights.windows, weights.count,
                           weights.params, weights.stats, weights.stats_floats);
    gwt_weights_free(&weights);
    return st;
}
