/* SPDX-License-Identifier: Apache-2.0
 *
 * event_file.c - records of TensorBoard. */
#include "files/event_file.h"

#include <string.h>

/* Of Protocol Buffers: the number of a field, and how it is coded. */
enum { VARINT = 0, DOUBLE = 1, BYTES = 2, FLOAT = 5 };
#define FIELD(number, kind) ((uint8_t)((number) << 3 | (kind)))

/* CRC-32C, four bits at a time: entry i is what i becomes in four steps. */
static uint32_t crc32c(const uint8_t *at, size_t len)
{
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t c = ~UINT32_C(0);

    for (size_t i = 0; i < len; i++) {
        c ^= at[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}

static size_t put_word(uint8_t *to, uint64_t word, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(word >> 8 * i);
    return bytes;
}

/* Seven bits per byte, the lowest first; the highest bit says that more follow. */
static size_t put_varint(uint8_t *to, uint64_t word)
{
    size_t n = 0;

    for (; word >= 128; word >>= 7)
        to[n++] = (uint8_t)(word | 128);
    to[n++] = (uint8_t)word;
    return n;
}

static void put_check(FILE *to, const uint8_t *at, size_t len)
{
    uint32_t c = crc32c(at, len);
    uint8_t bytes[4];

    put_word(bytes, (c >> 15 | c << 17) + UINT32_C(0xa282ead8), 4);
    fwrite(bytes, 1, 4, to);
}

static void put_record(FILE *to, const uint8_t *data, size_t len)
{
    uint8_t bytes[8];

    put_word(bytes, len, 8);
    fwrite(bytes, 1, 8, to);
    put_check(to, bytes, 8);
    fwrite(data, 1, len, to);
    put_check(to, data, len);
}

static size_t put_time(uint8_t *to, double wall_time)
{
    uint64_t bits;

    memcpy(&bits, &wall_time, sizeof bits);
    to[0] = FIELD(1, DOUBLE);
    return 1 + put_word(to + 1, bits, 8);
}

void gwt_event_file_begin(FILE *to, double wall_time)
{
    static const char version[] = "brain.Event:2";
    uint8_t data[GWT_EVENT_HEAD + sizeof version];
    size_t n = put_time(data, wall_time);

    data[n++] = FIELD(3, BYTES);
    n += put_varint(data + n, sizeof version - 1);
    memcpy(data + n, version, sizeof version - 1);
    put_record(to, data, n + sizeof version - 1);
}

void gwt_event_begin(gwt_event_record *e, double wall_time, uint64_t step)
{
    e->wall_time = wall_time;
    e->step = step;
    e->len = 0;
}

void gwt_event_add(gwt_event_record *e, const char *tag, size_t len, float value)
{
    uint32_t bits;
    uint8_t *to = e->values + e->len;
    size_t n = 0;

    /* A tag of less than 100 bytes makes a value whose length is one byte, too. */
    if (len == 0 || len >= 100 || e->len + len + 16 > GWT_EVENT_CAP)
        return;
    memcpy(&bits, &value, sizeof bits);
    to[n++] = FIELD(1, BYTES);
    to[n++] = (uint8_t)(2 + len + 5);
    to[n++] = FIELD(1, BYTES);
    to[n++] = (uint8_t)len;
    memcpy(to + n, tag, len);
    n += len;
    to[n++] = FIELD(2, FLOAT);
    n += put_word(to + n, bits, 4);
    e->len += n;
}

void gwt_event_write(const gwt_event_record *e, FILE *to)
{
    uint8_t data[GWT_EVENT_CAP + GWT_EVENT_HEAD];
    size_t n = put_time(data, e->wall_time);

    data[n++] = FIELD(2, VARINT);
    n += put_varint(data + n, e->step);
    data[n++] = FIELD(5, BYTES);
    n += put_varint(data + n, e->len);
    memcpy(data + n, e->values, e->len);
    put_record(to, data, n + e->len);
}
