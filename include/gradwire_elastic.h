/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire_elastic.h - training that goes on when workers die, join and leave.
 *
 *     for each comm, as workers come and go:
 *         gw_sync_enter(&sync, comm, params, &options, &entry);
 *         train until a call fails or a new comm is due
 *
 * An *entry* brings all workers of a new comm to one state. Those that have trained
 * before keep what is their own, such as residuals; those that are new take the common
 * model and what belongs to it. Between entries, an exchange is made by all workers or
 * by none: a call of a sync that fails is put back. docs/elastic.md has the promises.
 *
 * gw_group_enter() in gradwire_group.h finds the workers, makes the comm and enters. */
#ifndef GRADWIRE_ELASTIC_H
#define GRADWIRE_ELASTIC_H

#include "gradwire.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an entry found. Fields are the same on all workers unless a comment says "this
 * worker". */
typedef struct gw_entry {
    size_t struct_size;   /* sizeof(gw_entry) */
    uint64_t number;      /* 1 if nobody had trained before; otherwise higher than those
                           * of all entries before */
    int rank, workers;    /* this worker's rank; of the comm */
    int source;           /* the rank of the worker whose state the new ones take */
    int joined;           /* 1: this worker took the state; a step that it had begun is
                           * of no use any more */
    int joiners;          /* how many took the state */
    int leavers;          /* how many leave; a new comm without them should follow */
    int gone;             /* workers of this worker's last entry that are not here */
    int left;             /* 1: this worker wanted to leave, and may */
    double lost;          /* the norm of what waited in the residuals of those that are
                           * gone, as far as it was known when they last exchanged */
    uint64_t step;        /* steps that this worker's model has made */
    uint32_t check;       /* CRC-32C of the common model; of workers that are about to
                           * apply a result that others have applied, of the one before */
    const uint64_t *ids;  /* of the workers by rank, which stay as long as they train;
                           * valid until the next entry of the sync */
    const uint8_t *takes; /* by rank: 1 where a worker took the state; likewise */
} gw_entry;

typedef struct gw_enter_options {
    size_t struct_size; /* sizeof(gw_enter_options) */
    int leaves;         /* 1: this worker hands over what it has not sent, and leaves */

    /* Called on every worker after the sync has the common state and before params has
     * it, for what else belongs to it, such as the optimizer's: gw_entry_hand() passes
     * it on. It may use comm; all workers make the same calls. NULL: nothing else
     * belongs to it. A failure ends the entry. */
    gw_status (*hand)(void *arg, gw_comm *comm, const gw_entry *entry);
    void *arg;
} gw_enter_options;

/* Brings the workers of comm to one state. *sync is a sync that was made on comm with
 * gw_sync_new(), or one that was in use before with another comm, which may have been
 * freed. *sync changes if it was made for another comm. All workers call it together,
 * and those with a new sync call gw_sync_new() before. Call it instead of
 * gw_sync_start(). params is this worker's model. On a worker that takes the state it
 * is replaced, after everything else has arrived. opt may be NULL. out may be NULL.
 *
 * From the first entry on, a call that fails because a worker is gone has done nothing:
 * gw_sync_gradient(), gw_sync_model() or gw_sync_finish() leave its vector and all
 * memories as they were. Enter again with a new comm, and make the same call with the
 * same vector. If others had got the result before the failure, this call returns the
 * same result at once. A worker that `joined` begins with a new gradient instead.
 *
 * This costs a copy of the vector and of all memories in each exchange, memory for
 * these copies, and 16 bytes to each other worker. gw_sync_overlaps() is 0 from then
 * on, gw_sync_gradient_part() only waits for gw_sync_gradient(), and callers cannot
 * choose entries themselves (gw_sync_takes_entries()).
 *
 * Fails as collectives do: enter again with a new comm. The state is as before then.
 * Fails with GW_ERR_MISMATCH as gw_sync_new() does; with GW_ERR_DIFFER if models that
 * should be equal are not; with GW_ERR_SPEC if the models of the spec never meet
 * ("none", "oneshot", "a2sgd"); with GW_ERR_ARG or GW_ERR_NOMEM. */
GW_API gw_status gw_sync_enter(gw_sync **sync, gw_comm *comm, float *params,
                               const gw_enter_options *opt, gw_entry *out);

/* In `hand` of gw_enter_options: copies len bytes at `bytes` from the source to all
 * workers that take the state. It leaves those of the other workers alone. All workers
 * call it with the same len. */
GW_API gw_status gw_entry_hand(gw_comm *comm, const gw_entry *entry, void *bytes,
                               size_t len);

/* Returns the step of the last exchange that all workers have made, and the number of
 * steps from that to the next one: 1, unless the method makes local steps. Both are the
 * same on all workers after an entry, and 0 before the first one. */
GW_API uint64_t gw_sync_exchanged(const gw_sync *sync);
GW_API uint64_t gw_sync_period(const gw_sync *sync);

/* What comms learn about how long a round takes, so that a worker that hangs is noticed
 * sooner than after a fixed time limit. A comm keeps it as long as it needs it. Fails
 * with GW_ERR_NOMEM. */
typedef struct gw_limit gw_limit;

GW_API gw_status gw_limit_new(gw_limit **out);
GW_API void gw_limit_free(gw_limit *limit); /* limit may be NULL */

/* Returns the seconds after which a worker is given up, and 0 before the comm that uses
 * it has made 8 rounds. Any thread may call it. */
GW_API double gw_limit_seconds(const gw_limit *limit);

/* From now on, the time limit of comm is 8 times the longest time between two messages
 * in the last 5 to 10 minutes, but at least 5 s, and at most the comm's own limit. That
 * one holds for the first 8 steps of a sync with messages, and while a worker pauses.
 * One comm at a time learns; the next one goes on with what was learned. Limits of
 * workers may differ. Fails with GW_ERR_ARG if the transport cannot tell of pauses. */
GW_API gw_status gw_comm_learn(gw_comm *comm, gw_limit *limit);

/* Tells the other workers that this one is about to do something that takes longer than
 * a round, such as an evaluation, before it sends anything again. Workers that learn
 * their time limit wait for it as long as their comm's own limit says. Nothing else
 * changes, so it need not be called where no limit is learned. */
GW_API void gw_comm_pause(gw_comm *comm);

#ifdef __cplusplus
}
#endif

#endif /* GRADWIRE_ELASTIC_H */
