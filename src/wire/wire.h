/* SPDX-License-Identifier: Apache-2.0
 *
 * wire.h - messages between workers, as docs/format.md fixes them byte by byte.
 *
 *     | header, 20 bytes | group, 4 | scales, f32 | values | positions |
 *
 * The group and the scales exist where the coding of the values has them, the
 * positions in sparse messages. Everything but the positions has a length that
 * follows from the header and the group, so these come last and need none; values that
 * are coded again (entropy_coder.h) begin with theirs. The
 * header ends with a check of all the rest. A note, in place of a message, is a
 * header and 8 bytes.
 *
 * The wire knows containers and positions. What scales and packed values mean is
 * the business of kernels/: encoders write them straight into the message, where
 * gwi_wire_begin() says, and decoders read them where gwi_wire_open() says.
 * Nothing here allocates. */
#ifndef GWI_WIRE_H
#define GWI_WIRE_H

#include <stdbool.h>

#include "base.h"
#include "wire/entropy_coder.h"
#include "wire/index_coder.h"

enum {
    GWI_WIRE_VERSION = 2,
    GWI_WIRE_HEADER_LEN = 20,
    GWI_WIRE_BITS_AT = 3,   /* where in the header the bits of a value are */
    GWI_WIRE_CHECK_AT = 16, /* where in the header the check is */
    GWI_WIRE_NOTE_LEN = GWI_WIRE_HEADER_LEN + 8
};

typedef enum gwi_wire_kind {
    GWI_WIRE_DENSE = 1,  /* all n values */
    GWI_WIRE_SPARSE = 2, /* k of n values and their positions */
    GWI_WIRE_NOTE = 3    /* no values: where there is a number that is no good */
} gwi_wire_kind;

typedef enum gwi_wire_coding {
    GWI_WIRE_F32 = 0,
    GWI_WIRE_BF16 = 1,
    GWI_WIRE_LEVELS = 2,  /* kernels/levels.h: a norm per bucket, packed levels */
    GWI_WIRE_CENTRES = 3, /* kernels/centres.h: centres, packed sign and choice */
    GWI_WIRE_SIGNS = 4    /* kernels/signs.h: a mean per bucket, packed signs */
} gwi_wire_coding;

/* What a message says about itself. */
typedef struct gwi_wire_form {
    gwi_wire_kind kind;
    gwi_wire_coding coding;
    unsigned bits;  /* per value: levels 2 to 8, centres 1 or 2, signs 1, else 0 */
    uint32_t group; /* levels, signs: entries per bucket; centres: how many */
    uint32_t n;     /* floats in the vector that the message is about */
    uint32_t k;     /* values in it: n if dense, 0 if a note */
    uint32_t step;  /* of the sender, modulo 2^32 */
    bool entropy;   /* read: the values are coded by entropy_coder.h; expected: they may
                     * be; written: gwi_wire_shorten_values() decides */
} gwi_wire_form;

/* The longest message of this form, whatever is in it; a form that no message
 * can have gives 0. A sparse one ends in 8 bytes that are never sent. */
size_t gwi_wire_bound(const gwi_wire_form *form);

/* ---- writing --------------------------------------------------------------- */

/* A message being written: where its parts go. */
typedef struct gwi_wire_writer {
    gwi_wire_form form;
    uint8_t *header;
    uint8_t *scales; /* scale_count little-endian f32 */
    size_t scale_count;
    uint8_t *values; /* values_len bytes; unused bits of the last must be 0 */
    size_t values_len;
    uint8_t *positions;
    size_t len; /* of the message; of a sparse one up to its positions */
} gwi_wire_writer;

/* Writes the header into msg and sets up writer, so that the caller can fill the
 * scales and the values in place. The message is then writer->len bytes long,
 * unless it is sparse. GW_ERR_ARG for a form that no message can have,
 * GW_ERR_SPACE if cap is below gwi_wire_bound(form). */
gw_status gwi_wire_begin(gwi_wire_writer *writer, const gwi_wire_form *form,
                         uint8_t *msg, size_t cap);

/* Bytes of room for gwi_wire_shorten_values() and gwi_wire_restore_values(); 0 if the
 * values do not come in bits. */
size_t gwi_wire_values_room(const gwi_wire_form *form);

/* Codes the values, which are complete and come in bits, if that makes them at least a
 * twentieth shorter. The positions are not there yet. */
void gwi_wire_shorten_values(gwi_wire_writer *writer, uint8_t *room);

/* Appends the k positions of a sparse message, in the order of its values, and
 * adds their length to writer->len. GW_ERR_ARG if they do not ascend below n. */
gw_status gwi_wire_put_positions(gwi_wire_writer *writer, const uint32_t *positions);

/* Writes the check into the header of a message of len bytes that is complete. */
void gwi_wire_seal(uint8_t *msg, size_t len);

/* What a note says: the worker and the tensor in which NaN or infinity is. */
typedef struct gwi_wire_trouble {
    uint32_t worker, tensor;
} gwi_wire_trouble;

/* Writes a note, GWI_WIRE_NOTE_LEN bytes, sealed. */
void gwi_wire_put_note(uint8_t *msg, uint32_t n, uint32_t step, gwi_wire_trouble note);

/* ---- reading --------------------------------------------------------------- */

/* A message that was opened: where its parts are. */
typedef struct gwi_wire_view {
    gwi_wire_form form;
    const uint8_t *scales; /* scale_count little-endian f32 */
    size_t scale_count;
    const uint8_t *values;
    size_t values_len;
    const uint8_t *positions; /* not yet checked */
    size_t positions_len;
} gwi_wire_view;

/* Opens len bytes that may be anything: compares the check, looks at the header, the
 * lengths, the zero bits after packed values, and that the scales of buckets are
 * finite and not negative. Values that are coded are left to
 * gwi_wire_restore_values(). f32, bf16 and centres may be any numbers. GW_ERR_DATA says
 * what is wrong; *view is then undefined. */
gw_status gwi_wire_open(gwi_wire_view *view, const uint8_t *msg, size_t len);

/* Checks that an opened message is the one expected: of the same step, kind,
 * coding, bits, bucket and n, and with at most want->k values. How many centres
 * there are depends on the positions, and is for those who decode them to check.
 * GW_ERR_DATA says what differs. */
gw_status gwi_wire_expect(const gwi_wire_view *view, const gwi_wire_form *want);

/* Whether len bytes claim to be a note; whether they are one, gwi_wire_open() says. */
bool gwi_wire_looks_like_note(const uint8_t *msg, size_t len);

/* Makes the values of an opened message those that were written, which then lie in room
 * if they came coded. GW_ERR_DATA if they are malformed; *view is then undefined. */
gw_status gwi_wire_restore_values(gwi_wire_view *view, uint8_t *room);

/* What an opened note says. */
gwi_wire_trouble gwi_wire_get_note(const gwi_wire_view *view);

/* Reads the k positions of a sparse message at once; gwi_index_next() reads them
 * in blocks. GW_ERR_DATA if there are more than cap or they are malformed. */
gw_status gwi_wire_get_positions(const gwi_wire_view *view, uint32_t *positions,
                                 size_t cap);

/* Begins to read the positions of an opened message in blocks. */
void gwi_wire_start_positions(const gwi_wire_view *view, gwi_index_reader *reader);

/* Whether len bytes are a message in every respect, coded values and positions
 * included. */
gw_status gwi_wire_check(const uint8_t *msg, size_t len);

/* Writes one line about a message, or about what is wrong with it, to text, cut
 * to cap bytes with its final 0. Returns text. */
char *gwi_wire_describe(const uint8_t *msg, size_t len, char *text, size_t cap);

/* ---- arrays of floats ------------------------------------------------------ */

/* n floats to and from the bytes of a message, for scales and values of f32. */
void gwi_wire_put_f32(uint8_t *to, const float *from, size_t n);
void gwi_wire_get_f32(float *to, const uint8_t *from, size_t n);

#endif
