/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index_decode.c - any bytes as positions: n and k from the first 8, the
 * stream from the rest. What is read ascends below n, and comes back from its own
 * encoding. */
#include "wire/index_coder.h"
#include "wire/wire_bytes.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void demand(int truth)
{
    if (!truth)
        abort();
}

static void encode_again(const uint32_t *positions, uint32_t k, uint32_t n)
{
    size_t bound = (size_t)gwi_index_bound(n, k), len, count, done = 0;
    uint32_t block[GWI_INDEX_BLOCK];
    uint8_t *bytes = malloc(bound + 1);
    gwi_index_reader reader;

    demand(bytes != NULL);
    demand(gwi_index_encode(positions, k, n, bytes, &len) == GW_OK);
    demand(k == 0 || len + GWI_INDEX_SPARE_BYTES <= bound);
    gwi_index_start(&reader, bytes, len, n, k);
    do {
        demand(gwi_index_next(&reader, block, &count) == GW_OK);
        for (size_t i = 0; i < count; i++)
            demand(block[i] == positions[done + i]);
        done += count;
    } while (count > 0);
    demand(done == k);
    free(bytes);
}

static gw_status read_all(gwi_index_reader *reader, uint32_t *positions)
{
    size_t count, done = 0;

    do {
        GWI_TRY(gwi_index_next(reader, positions + done, &count));
        done += count;
    } while (count > 0);
    return GW_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    gwi_index_reader reader;

    if (len < 8)
        return 0;
    uint32_t n = gwi_read_u32le(data), k = gwi_read_u32le(data + 4) % 2048;
    uint32_t *positions = malloc(4 * ((size_t)k + 1));
    demand(positions != NULL);
    gwi_index_start(&reader, data + 8, len - 8, n, k);
    gw_status st = read_all(&reader, positions);
    demand(st == GW_OK || st == GW_ERR_DATA);
    for (uint32_t i = 0; st == GW_OK && i < k; i++)
        demand(positions[i] < n && (i == 0 || positions[i - 1] < positions[i]));
    if (st == GW_OK)
        encode_again(positions, k, n);
    free(positions);
    return 0;
}
