/* SPDX-License-Identifier: Apache-2.0
 *
 * coder.h - how values are written: lists and vectors to messages and back.
 *
 * Writing leaves behind what the message does not say: the values become the
 * error, value - decoded, which a residual can take in. */
#ifndef GWI_CODER_H
#define GWI_CODER_H

#include "kernels/select.h"
#include "layout.h"
#include "sync/spec.h"
#include "wire/wire.h"

typedef struct gwi_coder {
    gwi_how how;
    gwi_levels_format levels;
    int centre;                     /* which GWI_CENTRE_ word */
    const gw_layout *layout;        /* for columns */
    float *scales;                  /* room for the scales of one message */
    size_t scales_cap, scales_read; /* room; of the last message read */
    bool finite;                    /* values that are not are refused */
    uint32_t *slots;                /* columns only: for the widest tensor */
    struct gwi_column_sum *sums;
    void *memory;
} gwi_coder;

/* Prepares for messages of up to k values, all of them finite or not. GW_ERR_NOMEM. */
gw_status gwi_coder_init(gwi_coder *coder, const gwi_spec *spec,
                         const gw_layout *layout, bool finite, size_t k);
void gwi_coder_fini(gwi_coder *coder);

/* The longest message of up to k of n values, or of all n. */
size_t gwi_coder_list_bound(const gwi_coder *coder, size_t n, size_t k);
size_t gwi_coder_vector_bound(const gwi_coder *coder, size_t n);

/* What a message is for. */
typedef struct gwi_occasion {
    uint64_t step;
    uint64_t key;    /* of random rounding */
    uint64_t bucket; /* of a vector: number of its first one in the random bits */
} gwi_occasion;

/* Writes list (of a vector of n floats) and sets *len; its values become the error. */
gw_status gwi_coder_put_list(gwi_coder *coder, gwi_list *list, size_t n,
                             const gwi_occasion *at, uint8_t *msg, size_t cap,
                             size_t *len);

/* Reads a message about n floats into list, up to its capacity. The bytes may be
 * anything: GW_ERR_DATA says what is wrong with them. */
gw_status gwi_coder_get_list(gwi_coder *coder, const uint8_t *msg, size_t len, size_t n,
                             uint64_t step, gwi_list *list);

/* The same for a whole vector: v becomes the error; acc += values, or out = values. */
gw_status gwi_coder_put_vector(gwi_coder *coder, float *v, size_t n,
                               const gwi_occasion *at, uint8_t *msg, size_t cap,
                               size_t *len);
gw_status gwi_coder_add_vector(gwi_coder *coder, const uint8_t *msg, size_t len,
                               uint64_t step, float *acc, size_t n);
gw_status gwi_coder_get_vector(gwi_coder *coder, const uint8_t *msg, size_t len,
                               uint64_t step, float *out, size_t n);

/* No value of the vector read last is of a larger magnitude; infinite if not known. */
float gwi_coder_peak(const gwi_coder *coder);

#endif
