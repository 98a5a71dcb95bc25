/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_safetensors.c - any bytes as a safetensors file. What opens can be read:
 * every tensor of floats lies in the file, each has a name of its own, and every byte
 * after the header belongs to one of them. */
#include "files/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void demand(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint64_t bytes = 0;
    gwt_safetensors in;
    gw_status st = gwt_safetensors_over(&in, "input", data, len);

    demand(st == GW_OK || st == GW_ERR_DATA);
    if (st != GW_OK)
        return 0;
    for (size_t i = 0; i < in.count; i++) {
        const gwt_stored *t = &in.list[i];
        size_t n = (size_t)(t->end - t->begin) / 4;
        float *values = malloc(4 * n + 4);
        bytes += t->end - t->begin;
        demand(values != NULL && gwt_safetensors_find(&in, t->name) == t);
        st = gwt_safetensors_read(&in, t, values, n);
        demand(st == (strcmp(t->type, "F32") == 0 ? GW_OK : GW_ERR_DATA));
        free(values);
    }
    demand(bytes == len - in.data);
    gwt_safetensors_close(&in);
    return 0;
}
