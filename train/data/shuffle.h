/* SPDX-License-Identifier: Apache-2.0
 *
 * shuffle.h - which samples a worker sees in which step.
 *
 * Every epoch has its own order of all samples, made from (seed, epoch) alone and
 * so the same on every worker. Step s of the epoch takes the next
 * workers x batch samples of it, and worker r the r-th run of batch among those:
 *
 *     order   | step 0                | step 1                | ... | rest |
 *             | w0 | w1 | ... | w P-1 | w0 | w1 | ... | w P-1 |
 *
 * So P workers with batches of B use in each step just the samples that one worker
 * with batches of P x B uses. The rest, which fills no step, is left out until the
 * next epoch's order. */
#ifndef GWT_SHUFFLE_H
#define GWT_SHUFFLE_H

#include "common.h"

/* Fills order with the numbers 0..n-1 as they come in that epoch. */
void gwt_shuffle(uint32_t *order, size_t n, uint64_t seed, uint64_t epoch);

/* The order for models that carry a state from batch to batch, the same in every
 * epoch: the samples are cut into `columns` runs of equal length, one for each
 * place in the batches of all workers, and step s takes the s-th of each run.
 *
 *     samples | column 0      | column 1      | ... | rest |
 *     step 0    first of each column, and so on
 *
 * So what follows a sample in the text follows it in the same place of the next
 * batch. Fills the whole steps of order alone. */
void gwt_columns(uint32_t *order, size_t n, size_t columns);

/* Where in the order worker `rank` of `workers` begins in step `step` of an epoch. */
size_t gwt_shard_first(size_t step, int workers, int rank, size_t batch);

/* Steps of an epoch: whole global batches only. */
size_t gwt_epoch_steps(size_t n, int workers, size_t batch);

#endif
