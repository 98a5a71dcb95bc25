/* SPDX-License-Identifier: Apache-2.0
 *
 * augment.h - shows a picture a little differently in every epoch.
 *
 *     crop   as if 4 pixels of 0 were put around the picture and a piece of its own
 *            size cut out anywhere: all that is seen moves by up to 4 each way
 *     flip   left becomes right, every second time
 *
 * What happens depends on (seed, epoch, number of the sample) and nothing else, so
 * not on workers, nor on where a run was resumed. 0 is the mean where the data set
 * is normalised. */
#ifndef GWT_AUGMENT_H
#define GWT_AUGMENT_H

#include "data/data.h"

enum { GWT_AUGMENT_PAD = 4 };

/* Checks that pictures of that shape can be treated so. GW_ERR_ARG. */
gw_status gwt_augment_check(int what, gwt_shape shape);

/* Treats one sample, floats as gwt_data_batch() left them, where it lies. what is a
 * sum of GWT_AUGMENT_...; sample is its number in the data set. */
void gwt_augment(float *x, gwt_shape shape, int what, uint64_t seed, uint64_t epoch,
                 uint64_t sample);

#endif
