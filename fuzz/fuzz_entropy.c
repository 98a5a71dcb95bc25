/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_entropy.c - any bytes as values that were coded by how often each occurs; and
 * what decodes is decoded the same after it was coded again.
 *
 *     | bits, u8 | k, u32 | coded values | */
#include "wire/entropy_coder.h"
#include "wire/wire_bytes.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { HEAD = 5, MAX_K = 1 << 20 };

static void demand(int truth)
{
    if (!truth)
        abort();
}

static void *get(size_t len)
{
    void *memory = malloc(len + 1);

    demand(memory != NULL);
    return memory;
}

static void code_again(const uint8_t *values, uint64_t k, unsigned bits)
{
    size_t raw = gwi_entropy_cut_of(k, bits).len, found;
    uint8_t *room = get(gwi_entropy_room(k, bits)), *back = get(raw);
    size_t len = gwi_entropy_encode(values, k, bits, room);
    uint8_t *coded = get(len);

    demand(20 * len <= 19 * raw);
    if (len > 0) {
        gwi_entropy_store(room, k, bits, coded);
        demand(gwi_entropy_length(coded, len, k, bits, &found) == GW_OK);
        demand(found == len);
        demand(gwi_entropy_decode(coded, k, bits, back) == GW_OK);
        demand(memcmp(back, values, raw) == 0);
    }
    free(coded);
    free(back);
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < HEAD)
        return 0;
    unsigned bits = 1 + (data[0] - 1u) % 8;
    uint64_t k = gwi_read_u32le(data + 1) % MAX_K;
    size_t found, most = len - HEAD;
    /* Exactly as long, so that a sanitizer sees a read past the end. */
    uint8_t *coded = get(most), *out = get(gwi_entropy_cut_of(k, bits).len);

    memcpy(coded, data + HEAD, most);
    if (gwi_entropy_length(coded, most, k, bits, &found) == GW_OK) {
        gw_status st = gwi_entropy_decode(coded, k, bits, out);
        demand(st == gwi_entropy_check(coded, k, bits));
        if (st == GW_OK)
            code_again(out, k, bits);
    }
    free(out);
    free(coded);
    return 0;
}
