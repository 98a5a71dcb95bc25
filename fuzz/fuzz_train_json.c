/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_json.c - any bytes as a file of a run directory: read or refused, and
 * every text that comes out has an end. */
#include "../cli/json_read.c"

#include <stdint.h>
#include <stdio.h>

static gw_status visit(void *arg, const char *key, const gwc_json_value *value)
{
    size_t *seen = arg;

    *seen += strlen(key) + strlen(value->text);
    if (value->kind == GWC_JSON_NUMBER && !isfinite(value->number))
        abort();
    return GW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t seen = 0;

    (void)gwc_json_object((const char *)data, len, visit, &seen);
    if (seen > 4 * len)
        abort();
    return 0;
}
