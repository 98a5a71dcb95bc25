/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.c - opens, reads and writes safetensors files. */
#define _GNU_SOURCE
#include "files/safetensors.h"
#include "files/json.h"
#include "files/sections.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit. */
#define HEADER_MAX UINT64_C(100000000)

/* ---- reading ----------------------------------------------------------------- */

static gw_status read_header(gwt_safetensors *in)
{
    uint8_t word[8];
    uint64_t len;

    if (in->from.len < sizeof word)
        return gw_fail(GW_ERR_DATA,
                       "%s is not a safetensors file: it has %" PRIu64 " bytes",
                       in->from.name, in->from.len);
    GWT_TRY(gwt_source_read(&in->from, 0, word, sizeof word));
    len = gwt_get_word(word);
    if (len > in->from.len - sizeof word || len > HEADER_MAX)
        return gw_fail(GW_ERR_DATA,
                       "%s is not a safetensors file, or is cut off: its header would "
                       "have %" PRIu64 " bytes",
                       in->from.name, len);
    in->header = gwt_calloc((size_t)len + 1, 1, "the header of a safetensors file");
    if (in->header == NULL)
        return GW_ERR_NOMEM;
    GWT_TRY(gwt_source_read(&in->from, sizeof word, in->header, (size_t)len));
    in->data = sizeof word + len;
    return gwt_safetensors_parse(in, in->header, (size_t)len);
}

static gw_status begin(gwt_safetensors *in)
{
    gw_status st = read_header(in);

    if (st != GW_OK)
        gwt_safetensors_close(in);
    return st;
}

gw_status gwt_safetensors_open(gwt_safetensors *out, const char *path)
{
    *out = (gwt_safetensors){.from.fd = -1};
    GWT_TRY(gwt_source_open(&out->from, path));
    return begin(out);
}

gw_status gwt_safetensors_over(gwt_safetensors *out, const char *name,
                               const void *bytes, size_t len)
{
    *out = (gwt_safetensors){.from = gwt_source_over(name, bytes, len)};
    return begin(out);
}

void gwt_safetensors_close(gwt_safetensors *in)
{
    gwt_source_close(&in->from);
    gwt_free(in->header);
    gwt_free(in->list);
    *in = (gwt_safetensors){.from.fd = -1};
}

const gwt_stored *gwt_safetensors_find(const gwt_safetensors *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->list[i].name, name) == 0)
            return &in->list[i];
    return NULL;
}

gw_status gwt_safetensors_check(const gwt_safetensors *in, const gwt_stored *tensor,
                                size_t n)
{
    if (strcmp(tensor->type, "F32") != 0)
        return gw_fail(GW_ERR_DATA,
                       "tensor '%.100s' in %s has type %s; only F32 is supported",
                       tensor->name, in->from.name, tensor->type);
    if (tensor->end - tensor->begin != 4 * (uint64_t)n)
        return gw_fail(GW_ERR_DATA, "tensor '%.100s' in %s does not have %zu values",
                       tensor->name, in->from.name, n);
    return GW_OK;
}

gw_status gwt_safetensors_read(const gwt_safetensors *in, const gwt_stored *tensor,
                               float *to, size_t n)
{
    GWT_TRY(gwt_safetensors_check(in, tensor, n));
    return gwt_source_read(&in->from, in->data + tensor->begin, to, 4 * n);
}

/* ---- writing ----------------------------------------------------------------- */

static void describe_shape(gwt_json *j, const gw_tensor *t, size_t window)
{
    gwt_json_open(j, "shape", '[');
    if (t->rows != 1 || window > 0)
        gwt_json_count(j, NULL, t->rows);
    gwt_json_count(j, NULL, window > 0 ? t->cols / (window * window) : t->cols);
    for (int i = 0; i < 2 && window > 0; i++)
        gwt_json_count(j, NULL, window);
    gwt_json_close(j, ']');
}

static void describe(gwt_json *j, const gw_tensor *t, size_t window, uint64_t at)
{
    gwt_json_open(j, t->name, '{');
    gwt_json_text(j, "dtype", "F32");
    describe_shape(j, t, window);
    gwt_json_open(j, "data_offsets", '[');
    gwt_json_count(j, NULL, at);
    gwt_json_count(j, NULL, at + 4 * (uint64_t)t->rows * t->cols);
    gwt_json_close(j, ']');
    gwt_json_close(j, '}');
}

/* The header as text, filled up with blanks so that the values begin at a multiple
 * of 8. Released with free(). */
static char *make_header(const gw_tensor *tensors, const size_t *windows, size_t count,
                         size_t *len)
{
    char *text = NULL;
    uint64_t at = 0;
    FILE *stream = open_memstream(&text, len);
    gwt_json j = {.to = stream};

    if (stream == NULL)
        return NULL;
    gwt_json_open(&j, NULL, '{');
    gwt_json_open(&j, "__metadata__", '{');
    gwt_json_text(&j, "gradwire", gw_version());
    gwt_json_close(&j, '}');
    for (size_t i = 0; i < count; i++) {
        describe(&j, &tensors[i], windows != NULL ? windows[i] : 0, at);
        at += 4 * (uint64_t)tensors[i].rows * tensors[i].cols;
    }
    gwt_json_close(&j, '}');
    for (long n = ftell(stream); n % 8 != 0; n++)
        putc(' ', stream);
    int bad = ferror(stream);
    if (fclose(stream) != 0 || bad) {
        free(text);
        return NULL;
    }
    return text;
}

static gw_status write_all(gwt_newfile *file, const char *header, size_t len,
                           const gw_tensor *tensors, size_t count, const float *values)
{
    uint8_t word[8];

    gwt_put_word(word, len);
    GWT_TRY(gwt_newfile_add(file, word, sizeof word));
    GWT_TRY(gwt_newfile_add(file, header, len));
    for (size_t i = 0; i < count; i++)
        GWT_TRY(gwt_newfile_add(file, values + tensors[i].offset,
                                4 * tensors[i].rows * tensors[i].cols));
    return GW_OK;
}

gw_status gwt_safetensors_write(const char *path, const gw_tensor *tensors,
                                const size_t *windows, size_t count,
                                const float *values)
{
    size_t len;
    char *header = make_header(tensors, windows, count, &len);
    gwt_newfile file;
    gw_status st;

    if (header == NULL)
        return gw_fail(GW_ERR_NOMEM, "no memory for the header of %s", path);
    st = gwt_newfile_open(&file, path, NULL);
    if (st == GW_OK)
        st = write_all(&file, header, len, tensors, count, values);
    if (st == GW_OK)
        st = gwt_newfile_commit(&file);
    else
        gwt_newfile_abandon(&file);
    free(header);
    return st;
}
