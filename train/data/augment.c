/* SPDX-License-Identifier: Apache-2.0
 *
 * augment.c - changes an image a little in every epoch. */
#include "data/augment.h"

#include <string.h>

/* A smaller image could be shifted out of view. */
enum { SMALLEST = 2 * GWT_AUGMENT_PAD };

gw_status gwt_augment_check(int what, gwt_shape shape)
{
    if (what == GWT_AUGMENT_NONE ||
        (shape.height >= SMALLEST && shape.width >= SMALLEST))
        return GW_OK;
    return gw_fail(GW_ERR_ARG,
                   "--augment needs images of at least %dx%d; this data set has "
                   "samples of %zux%zu",
                   SMALLEST, SMALLEST, shape.height, shape.width);
}

/* Sets a row to another, or itself, moved by dx; what comes in at an end is 0. */
static void move_row(float *to, const float *from, ptrdiff_t width, ptrdiff_t dx)
{
    ptrdiff_t left = dx < 0 ? -dx : 0, right = dx > 0 ? dx : 0;
    size_t stays = (size_t)(width - left - right);

    memmove(to + left, from + right, stays * sizeof *to);
    memset(to, 0, (size_t)left * sizeof *to);
    memset(to + left + stays, 0, (size_t)right * sizeof *to);
}

/* Row y becomes row y + dy, shifted by dx. The order of rows is such that none is
 * overwritten before it has been used. */
static void move_plane(float *x, gwt_shape shape, ptrdiff_t dy, ptrdiff_t dx)
{
    ptrdiff_t height = (ptrdiff_t)shape.height, width = (ptrdiff_t)shape.width;

    for (ptrdiff_t i = 0; i < height; i++) {
        ptrdiff_t y = dy >= 0 ? i : height - 1 - i;
        if (y + dy >= 0 && y + dy < height)
            move_row(x + y * width, x + (y + dy) * width, width, dx);
        else
            memset(x + y * width, 0, shape.width * sizeof *x);
    }
}

static void flip_plane(float *x, gwt_shape shape)
{
    for (size_t y = 0; y < shape.height; y++, x += shape.width)
        for (size_t a = 0, b = shape.width - 1; a < b; a++, b--) {
            float swap = x[a];
            x[a] = x[b];
            x[b] = swap;
        }
}

/* In -PAD..PAD, from 16 bits. */
static ptrdiff_t offset(uint64_t bits)
{
    return (ptrdiff_t)(((bits & 0xffff) * (2 * GWT_AUGMENT_PAD + 1)) >> 16) -
           GWT_AUGMENT_PAD;
}

void gwt_augment(float *x, gwt_shape shape, int what, uint64_t seed, uint64_t epoch,
                 uint64_t sample)
{
    uint64_t bits = gwt_random(seed, GWT_STREAM_AUGMENT, epoch, sample);
    ptrdiff_t dy = offset(bits), dx = offset(bits >> 16);
    int flip = (int)(bits >> 63);

    for (size_t c = 0; c < shape.channels; c++, x += shape.height * shape.width) {
        if (what & GWT_AUGMENT_CROP)
            move_plane(x, shape, dy, dx);
        if ((what & GWT_AUGMENT_FLIP) && flip)
            flip_plane(x, shape);
    }
}
