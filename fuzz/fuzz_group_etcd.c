/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_group_etcd.c - any bytes as an answer of etcd's: it is read, it is not whole, or
 * it is refused; and what is read of it as JSON ends. */
#include "etcd.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static gw_status visit(void *arg, const char *path, const char *value)
{
    size_t *seen = arg;

    *seen += strlen(path) < 128 && value != NULL ? strlen(value) : 0;
    return GW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    gwg_text all = {0}, body = {0};
    size_t seen = 0;
    int status = 0;

    gwg_text_bytes(&all, data, len);
    gw_status st = gwg_http_read(&all, &status, &body);
    if (st == GW_OK && (status < 0 || body.len > len))
        abort();
    if (st == GW_OK && body.len > 0)
        (void)gwg_json_walk(body.at, visit, &seen);
    /* The same bytes as JSON and as base64, without a head. */
    if (len > 0) {
        (void)gwg_json_walk(all.at, visit, &seen);
        if (seen > 2 * len || gwg_base64_decode(all.at) > (long)len)
            abort();
    }
    gwg_text_free(&all);
    gwg_text_free(&body);
    return 0;
}
