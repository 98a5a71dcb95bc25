/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_checkpoint.c - any bytes as a checkpoint, and any bytes as the contents of
 * sections whose checks are right, which no fuzzer would find by itself.
 *
 * The first byte says which. Sections: kind and worker (1 byte), length (1 byte, or
 * with its top bit 16 times as much), contents. */
#include "run/checkpoint.h"
#include "files/section_parts.h"
#include "run/weights.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { OUT_CAP = 1 << 20 };

static const uint32_t kinds[8] = {
    GWT_KIND_SETTINGS, GWT_KIND_TENSORS, GWT_KIND_JOB,  GWT_KIND_WORKER,
    GWT_KIND_MODEL,    GWT_KIND_SLOTS,   GWT_KIND_KEPT, GWT_KIND_SYNC,
};

static void demand(int truth)
{
    if (!truth)
        abort();
}

static void try_bytes(const uint8_t *bytes, size_t len)
{
    gwt_checkpoint_job job;
    gwt_sections in;
    gwt_weights weights;
    gw_status st = gwt_sections_over(&in, "input", bytes, len);

    demand(st == GW_OK || st == GW_ERR_DATA);
    if (st != GW_OK)
        return;
    st = gwt_checkpoint_check(&in, &job);
    demand(st == GW_OK || st == GW_ERR_DATA);
    if (st == GW_OK && gwt_weights_of(&weights, &in, &job) == GW_OK)
        gwt_weights_free(&weights);
    gwt_sections_close(&in);
}

/* Appends one section and returns its end; its check goes to `all`. */
static uint8_t *put(uint8_t *to, uint32_t kind, uint32_t worker, const uint8_t *bytes,
                    size_t len, gwt_check *all)
{
    gwt_check check;

    gwt_put_word(to, (uint64_t)worker << 32 | kind);
    gwt_put_word(to + 8, len);
    if (len > 0)
        memcpy(to + 16, bytes, len);
    gwt_check_begin(&check);
    gwt_check_add(&check, to, 16 + len);
    gwt_put_word(to + 16 + len, gwt_check_end(&check));
    gwt_check_add(all, to + 16 + len, 8);
    return to + 16 + len + 8;
}

static void try_sections(const uint8_t *data, size_t len)
{
    uint8_t *out = malloc(OUT_CAP), *at = out + 8, end[GWT_END_LEN];
    uint64_t count = 0;
    gwt_check all;

    demand(out != NULL);
    memcpy(out, GWT_SECTIONS_MAGIC, 8);
    gwt_check_begin(&all);
    for (; len >= 2 && at - out < OUT_CAP - 4096; count++) {
        uint32_t kind = kinds[data[0] % 8], worker = data[0] / 8 % 4;
        /* A kind that came later; the inputs of before keep their meaning but for
         * these. */
        if (data[0] >= 224 && data[0] < 232)
            kind = GWT_KIND_WINDOWS;
        size_t n = data[1] < 128 ? data[1] : 16 * (size_t)(data[1] - 128);
        data += 2;
        len -= 2;
        n = n < len ? n : len;
        at = put(at, kind, worker, data, n, &all);
        data += n;
        len -= n;
    }
    gwt_put_word(end, count);
    gwt_put_word(end + 8, gwt_check_end(&all));
    at = put(at, GWT_KIND_END, 0, end, sizeof end, &all);
    try_bytes(out, (size_t)(at - out));
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    if (data[0] & 1)
        try_sections(data + 1, len - 1);
    else
        try_bytes(data + 1, len - 1);
    return 0;
}
