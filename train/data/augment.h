/* SPDX-License-Identifier: Apache-2.0
 *
 * augment.h - changes an image a little in every epoch.
 *
 *     crop   as if 4 pixels of 0 were put around the picture and a piece of its own
 *            size cut out anywhere: all that is seen moves by up to 4 each way
 *     flip   left becomes right, every second time
 *
 * The change depends on (seed, epoch, number of the sample) alone, so neither on the
 * workers nor on where a run was resumed. In a normalised data set, 0 is the mean. */
#ifndef GWT_AUGMENT_H
#define GWT_AUGMENT_H

#include "data/data.h"

enum { GWT_AUGMENT_PAD = 4 };

/* Checks that images of that shape can be augmented in this way. GW_ERR_ARG. */
gw_status gwt_augment_check(int what, gwt_shape shape);

/* Augments one sample of gwt_data_batch() in place. what is a sum of GWT_AUGMENT_...;
 * sample is its number in the data set. */
void gwt_augment(float *x, gwt_shape shape, int what, uint64_t seed, uint64_t epoch,
                 uint64_t sample);

#endif
