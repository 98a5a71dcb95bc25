/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index_encode.c - any positions, encoded and decoded. Each byte is a gap:
 * its upper five bits a shift, its lower three a factor. */
#include "wire/index_coder.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void demand(int truth)
{
    if (!truth)
        abort();
}

static uint32_t take_positions(const uint8_t *data, size_t len, uint32_t *positions)
{
    uint64_t next = 0;
    uint32_t k = 0;

    for (size_t i = 0; i < len; i++) {
        next += (uint64_t)(data[i] & 7) << data[i] / 8;
        if (next >= UINT32_MAX)
            break;
        positions[k++] = (uint32_t)next++;
    }
    return k;
}

static void check(const uint32_t *positions, uint32_t k, uint32_t n, uint8_t *bytes)
{
    uint32_t block[GWI_INDEX_BLOCK];
    gwi_index_reader reader;
    size_t len, count, done = 0;

    demand(gwi_index_encode(positions, k, n, bytes, &len) == GW_OK);
    demand(k == 0 || len + GWI_INDEX_SPARE_BYTES <= gwi_index_bound(n, k));
    gwi_index_start(&reader, bytes, len, n, k);
    do {
        demand(gwi_index_next(&reader, block, &count) == GW_OK);
        for (size_t i = 0; i < count; i++)
            demand(block[i] == positions[done + i]);
        done += count;
    } while (count > 0);
    demand(done == k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint32_t *positions = malloc(4 * (len + 1));

    demand(positions != NULL);
    uint32_t k = take_positions(data, len, positions);
    /* As few as there can be: the bound is then at its smallest. */
    uint32_t n = k > 0 ? positions[k - 1] + 1 : 0;
    uint8_t *bytes = malloc((size_t)gwi_index_bound(n, k) + 1);
    demand(bytes != NULL);
    check(positions, k, n, bytes);
    free(bytes);
    free(positions);
    return 0;
}
