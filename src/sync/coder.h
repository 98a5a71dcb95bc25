/* SPDX-License-Identifier: Apache-2.0
 *
 * coder.h - how values are written: lists and vectors to messages and back.
 *
 * Writing replaces the values with the error, value - decoded, which a residual can
 * keep. The parts coder_*.c code the values. This file has what all of them share:
 * headers, positions, checks and memory. */
#ifndef GWI_CODER_H
#define GWI_CODER_H

#include "sync/parts.h"

struct gwi_coding {
    const gwi_coder *coder;
    const gwi_spec *spec;
    const gw_layout *layout;
    float *scales;                  /* room for the scales of one message */
    size_t scales_cap, scales_read; /* room; of the last message read */
    bool finite;                    /* values that are not are refused */
    uint8_t *room;                  /* to code values in; NULL: they are not */
    size_t room_len;
    void *own; /* of the coder */
    void *memory;
};

/* The words of the key `code` that coders show. */
enum { GWI_CODE_RAW, GWI_CODE_ENTROPY };

/* That key, for a struct of options that has it as an int `code`. */
#define GWI_CODE_KEY(options)                                                    \
    {                                                                            \
        .name = "code",                                                          \
        .meaning =                                                               \
            "entropy: the same values in fewer bytes, by how often each occurs", \
        .fallback = "raw", .words = "raw|entropy", .unsaid = true,               \
        .at = offsetof(options, code), .value = GWI_WORD                         \
    }

/* Prepares for messages of up to k values, all of them finite or not; spec and layout
 * must stay. GW_ERR_NOMEM. */
gw_status gwi_coding_init(gwi_coding *coding, const gwi_spec *spec,
                          const gw_layout *layout, bool finite, size_t k);
void gwi_coding_fini(gwi_coding *coding);

/* The longest message of up to k of n values, or of all n. */
size_t gwi_coding_list_bound(const gwi_coding *coding, size_t n, size_t k);
size_t gwi_coding_vector_bound(const gwi_coding *coding, size_t n);

/* What a message is for. */
struct gwi_message_context {
    uint64_t step;
    uint64_t key;    /* of random rounding */
    uint64_t bucket; /* of a vector: number of its first one in the random bits */
};

/* Writes list (of a vector of n floats) and sets *len; its values become the error. */
gw_status gwi_coding_put_list(gwi_coding *coding, gwi_list *list, size_t n,
                              const gwi_message_context *at, uint8_t *msg, size_t cap,
                              size_t *len);

/* Reads a message about n floats into list, up to its capacity. The bytes may be
 * anything: GW_ERR_DATA says what is wrong with them. */
gw_status gwi_coding_get_list(gwi_coding *coding, const uint8_t *msg, size_t len,
                              size_t n, uint64_t step, gwi_list *list);

/* The same for a whole vector: v becomes the error; acc += values, or out = values. */
gw_status gwi_coding_put_vector(gwi_coding *coding, float *v, size_t n,
                                const gwi_message_context *at, uint8_t *msg, size_t cap,
                                size_t *len);
gw_status gwi_coding_add_vector(gwi_coding *coding, const uint8_t *msg, size_t len,
                                uint64_t step, float *acc, size_t n);
gw_status gwi_coding_get_vector(gwi_coding *coding, const uint8_t *msg, size_t len,
                                uint64_t step, float *out, size_t n);

/* No value of the vector read last is of a larger magnitude; infinite if not known. */
float gwi_coding_peak(const gwi_coding *coding);

#endif
