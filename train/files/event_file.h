/* SPDX-License-Identifier: Apache-2.0
 *
 * event_file.h - writes numbers to a file that TensorBoard reads.
 *
 * The file is a sequence of records, and all numbers are little-endian:
 *
 *     length of the data (8) | check of these 8 bytes (4) | data | check of the data
 * (4)
 *
 * A check is the CRC-32C c of the bytes, masked: (c >> 15 | c << 17) + 0xa282ead8. The
 * data is a message of Protocol Buffers, an Event: wall_time (field 1, double), step
 * (field 2, varint) and either file_version (field 3, text, in the first record) or
 * summary (field 5), which has a value (field 1) for each number: tag (field 1, text)
 * and simple_value (field 2, float). */
#ifndef GWT_EVENT_FILE_H
#define GWT_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { GWT_EVENT_CAP = 8192, GWT_EVENT_HEAD = 32 };

/* An event while it is written. It needs no memory of its own and is never larger than
 * its buffer: values that do not fit are left out. */
typedef struct gwt_event_record {
    double wall_time; /* seconds since 1970 */
    uint64_t step;
    size_t len;
    uint8_t values[GWT_EVENT_CAP];
} gwt_event_record;

/* Begins an event, adds numbers to it, and writes it. The caller checks the stream for
 * errors. tag has len bytes. */
void gwt_event_begin(gwt_event_record *e, double wall_time, uint64_t step);
void gwt_event_add(gwt_event_record *e, const char *tag, size_t len, float value);
void gwt_event_write(const gwt_event_record *e, FILE *to);

/* Writes the first record of a file. */
void gwt_event_file_begin(FILE *to, double wall_time);

#endif
