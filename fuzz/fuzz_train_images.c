/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_train_images.c - any bytes as a data file. The first says what the rest is
 * taken for; what is accepted can be read from end to end. */
#include "data/data.h"
#include "data/idx.h"

#include <stdlib.h>

enum { LABELS, IMAGES, CIFAR, KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_idx(const uint8_t *at, size_t len, size_t dims)
{
    gwt_idx idx;
    size_t total = 1;
    volatile uint8_t byte;

    if (gwt_idx_parse(&idx, at, len, dims, "a file") != GW_OK)
        return;
    for (size_t i = 0; i < dims; i++)
        total *= idx.dim[i];
    if (idx.dims != dims || total == 0 || idx.at + total != at + len)
        abort();
    byte = idx.at[0];
    byte = idx.at[total - 1];
    (void)byte;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len == 0)
        return 0;
    switch (data[0] % KINDS) {
    case LABELS:
        read_idx(data + 1, len - 1, 1);
        break;
    case IMAGES:
        read_idx(data + 1, len - 1, 3);
        break;
    default:
        if (gwt_cifar_check(data + 1, len - 1, "a file") == GW_OK &&
            (len - 1) % 3073 != 0)
            abort();
    }
    return 0;
}
