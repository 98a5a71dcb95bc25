/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire.h - data-parallel SGD for slow links.
 *
 * A training loop makes two calls per step, whatever the method:
 *
 *     compute grad;
 *     gw_sync_gradient(sync, grad);
 *     optimizer step on params with grad;
 *     gw_sync_model(sync, params);
 *
 * A worker is a process or a thread with a rank. The method is chosen by a line of
 * text, the spec ("dense", "gtopk:0.001+q:4"). Each method does its work in one of the
 * two calls, and the other call returns at once. A gw_comm connects one worker to the
 * others. A gw_sync applies one method to one model on one comm.
 *
 * Threads: only one thread at a time may use a gw_comm and the syncs made on it.
 * Different threads may use different comms at the same time.
 *
 * Errors: every function that can fail returns a gw_status. gw_error_message() returns
 * the message of the last failure on the calling thread. */
#ifndef GRADWIRE_H
#define GRADWIRE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The build reads the version from these three lines. */
#define GW_VERSION_MAJOR 0
#define GW_VERSION_MINOR 1
#define GW_VERSION_PATCH 0

#if defined(__GNUC__)
#define GW_API               __attribute__((visibility("default")))
#define GW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define GW_API
#define GW_PRINTF(fmt, args)
#endif

/* ---- status -------------------------------------------------------------- */

/* This list defines the enum, the names and the texts. 0 means success, positive
 * numbers are not failures, negative numbers are. The numbers are part of the ABI:
 * append new ones and never renumber. */
#define GW_STATUS_MAP(X)                                                        \
    X(GW_OK, 0, "success")                                                      \
    X(GW_PENDING, 1, "not finished yet; call again")                            \
    X(GW_SKIPPED, 2, "the step was skipped on every worker; do not apply it")   \
    X(GW_ERR_ARG, -1, "invalid argument")                                       \
    X(GW_ERR_NOMEM, -2, "out of memory")                                        \
    X(GW_ERR_SPACE, -3, "output buffer too small")                              \
    X(GW_ERR_DATA, -4, "message or file is truncated or malformed")             \
    X(GW_ERR_SPEC, -5, "invalid spec")                                          \
    X(GW_ERR_PEER, -6, "another worker is gone")                                \
    X(GW_ERR_TIMEOUT, -7, "another worker does not answer")                     \
    X(GW_ERR_SYSTEM, -8, "the operating system reported an error")              \
    X(GW_ERR_NUMBER, -9, "a gradient holds NaN or infinity")                    \
    X(GW_ERR_MISMATCH, -10, "the workers were started with different settings") \
    X(GW_ERR_ABSENT, -11, "this build does not have the requested feature")     \
    X(GW_ERR_STOPPED, -12, "stopped by the user")                               \
    X(GW_ERR_DIFFER, -13, "the workers' models differ but should be equal")

typedef enum gw_status {
#define GW_ENUM_(name, value, text) name = value,
    GW_STATUS_MAP(GW_ENUM_)
#undef GW_ENUM_
} gw_status;

/* Return the name of a status ("GW_ERR_ARG") and its meaning, as static strings. They
 * return "GW_UNKNOWN" and "unknown status" for a number that is not in the list, and
 * never NULL. */
GW_API const char *gw_status_name(gw_status status);
GW_API const char *gw_status_text(gw_status status);

/* Returns the message of the last failure on this thread: one printable line of UTF-8,
 * even if it quotes names or the messages of other workers. It is never NULL and stays
 * valid until the next failure on this thread. A success does not clear it. */
GW_API const char *gw_error_message(void);

/* Records a message for gw_error_message() and returns status. Transports and bodies of
 * gw_local_run() can use it to fail in one statement. A message longer than 511 bytes
 * is cut. Each byte of a control character or of invalid UTF-8 becomes a "?". */
GW_API gw_status gw_fail(gw_status status, const char *format, ...) GW_PRINTF(2, 3);

/* Returns the version of the library that is running, such as "0.1.0". */
GW_API const char *gw_version(void);

/* Returns which vector instructions are in use on this CPU: "avx512", "avx2", "neon" or
 * "c". The environment variable GW_CPU_OFF=avx512,avx2 turns some of them off. */
GW_API const char *gw_isa(void);

/* ---- comm: one worker's connection to the others --------------------------- */

typedef struct gw_comm gw_comm;

/* Moves messages; gradwire_transport.h has its functions. */
typedef struct gw_transport gw_transport;

typedef struct gw_comm_options {
    size_t struct_size;     /* sizeof(gw_comm_options) */
    double timeout_seconds; /* without progress before a failure; 0: 60 s */
} gw_comm_options;

/* Makes a comm of `workers` workers over the caller's transport; this worker is `rank`.
 * table is copied, and its functions receive ctx. opt may be NULL. On success the
 * caller releases *out with gw_comm_free(). On failure *out is NULL, and close() was
 * not called. Fails with GW_ERR_ARG or GW_ERR_NOMEM. */
GW_API gw_status gw_comm_new(gw_comm **out, const gw_transport *table, void *ctx,
                             int rank, int workers, const gw_comm_options *opt);

/* Makes a comm over stream sockets that the caller has connected (TCP between machines,
 * or socketpairs). fds[r] is connected to worker r, whose comm has the other end;
 * fds[rank] is ignored. hosts[r] names the host of worker r in messages and is copied.
 * hosts, its entries and opt may be NULL. On success the comm owns the sockets, and
 * gw_comm_free() closes them. On failure *out is NULL, and the caller still owns them.
 * Fails with GW_ERR_ARG or GW_ERR_NOMEM.
 *
 * gw_comm_free() tells the others that this worker ended normally. What the worker has
 * sent still arrives: over TCP, gw_comm_free() waits as long as data keeps leaving.
 * When a worker dies, the others notice as soon as they wait for anything. A worker
 * that waits for more than a quarter of a second, or a 16th of the time limit, sends
 * signs of life to all others. So everybody names the right worker if one hangs or is
 * cut off. Less than 1 KiB of awaited messages per second of waiting counts as silence.
 * Nothing received is trusted: a collective fails with GW_ERR_DATA and names the worker
 * that sent a malformed frame. */
GW_API gw_status gw_comm_sockets(gw_comm **out, const int *fds,
                                 const char *const *hosts, int rank, int workers,
                                 const gw_comm_options *opt);

/* Emulates a network such as "1gbit,50us" on this comm, as if every worker were a host
 * of its own. Each worker has a full-duplex interface of that rate. All its sends share
 * one direction, all its receives the other, and every message takes the latency to
 * arrive. Rates are in kbit, mbit or gbit, latencies in us or ms. The latency may be
 * left out. Call it on every worker before anything is sent. The workers' clocks must
 * agree, so all of them must run on one machine. A slow message does not use up the
 * time limit, which starts when the message should have arrived. Fails with
 * GW_ERR_NOMEM, or with GW_ERR_ARG, also if the transport has its own all-reduce. */
GW_API gw_status gw_comm_link(gw_comm *comm, const char *link);

/* Parses a link as gw_comm_link() does, without a comm, into the rate of an interface
 * and the latency of a message. Either pointer may be NULL. Fails with GW_ERR_ARG,
 * which names the invalid part; nothing is written then. */
GW_API gw_status gw_link_parse(const char *link, double *bytes_per_second,
                               double *latency_seconds);

/* Releases comm and closes its transport. comm may be NULL. Free its syncs first. A
 * comm belongs to the process that made it. A process forked from that one may free its
 * copy, which tells the others nothing, but must not use it. Its copies of sockets are
 * closed at the fork, so that connections end when the parent does. */
GW_API void gw_comm_free(gw_comm *comm);

/* Return this worker's rank and the number of workers. */
GW_API int gw_comm_rank(const gw_comm *comm);
GW_API int gw_comm_workers(const gw_comm *comm);
/* Returns the name of the transport, or "link(NAME)" after gw_comm_link(). */
GW_API const char *gw_comm_transport(const gw_comm *comm);

/* What this worker has sent and received. Bytes are those of messages with gradwire's
 * headers and, on sockets, the 8 bytes before each message; gw_sync_stats() counts the
 * same bytes. Signs of life on sockets (8 bytes each), goodbyes and reasons of failures
 * depend on time and not on the method, so they are not counted. Neither is what MPI or
 * the network adds. Workers that sum in shared memory count the messages that a ring
 * would send. The workers together receive as much as they send. */
typedef struct gw_traffic {
    uint64_t bytes_sent, bytes_received;
    uint64_t messages_sent, messages_received;
    double wait_seconds; /* spent waiting for messages */
} gw_traffic;

GW_API gw_traffic gw_comm_traffic(const gw_comm *comm);

/* Returns the host that a worker runs on, or NULL if the transport does not know it.
 * The string is valid as long as comm. */
GW_API const char *gw_comm_host(const gw_comm *comm, int rank);

/* Reports that this worker fails between two collectives, so that the others need not
 * wait for the time limit. It sends them this thread's last message, breaks the comm as
 * a failed collective does, and returns status. It does nothing if comm is already
 * broken. */
GW_API gw_status gw_comm_fail(gw_comm *comm, gw_status status);

/* Interrupts comm: the call that waits now, or the next one that waits, soon fails with
 * GW_ERR_STOPPED. The other workers are told the reason, and comm stays broken. This is
 * the only function that may be called while another thread uses comm, or from a signal
 * handler. comm must not be freed at the same time. It cannot interrupt an engine's own
 * all-reduce, or a transport that has finish(). */
GW_API void gw_comm_interrupt(gw_comm *comm);

/* What a worker is doing, for timelines. */
typedef enum gw_activity {
    GW_ACTIVITY_ENCODE, /* turns its data into messages */
    GW_ACTIVITY_SEND,   /* posts a message; begin and end are the same */
    GW_ACTIVITY_WAIT,   /* waits until a message has arrived or left */
    GW_ACTIVITY_DECODE  /* turns the messages of others into data */
} gw_activity;

/* Called when an activity has ended. begin and end are in seconds of the monotonic
 * clock. A send has a peer and a number of bytes; others have -1 and 0. The call comes
 * from the thread that exchanges, which waits until it returns. */
typedef void gw_trace(void *arg, gw_activity what, double begin, double end, int peer,
                      size_t bytes);

/* Calls `tell` for every activity of the syncs on this comm. Pass NULL to stop. Call it
 * only between steps. */
GW_API void gw_comm_trace(gw_comm *comm, gw_trace *tell, void *arg);

/* Collectives. Every worker of the comm makes the same calls in the same order, with
 * lengths that match. The order of summation depends only on n and the number of
 * workers, and the result has the same bits on every worker. Collectives fail with
 * GW_ERR_PEER or GW_ERR_TIMEOUT, which name rank, host and step; with GW_ERR_DATA if a
 * peer sent a message of the wrong length, or it was damaged on the way; or with
 * GW_ERR_NOMEM if scratch memory cannot grow. After a failure the comm stays broken,
 * and the contents of the buffers are undefined. If the transport has its own
 * all-reduce, sums use it: their bits may differ from those of other transports, and
 * the traffic counted is the least that any all-reduce needs. */

/* Returns once every worker has called it. */
GW_API gw_status gw_barrier(gw_comm *comm);

/* Copies len bytes at buf from worker root to all workers. */
GW_API gw_status gw_broadcast(gw_comm *comm, void *buf, size_t len, int root);

/* Copies len bytes from `out` on worker `from` to `in` on worker `to`. Only these two
 * need to call it, with the same len; it returns at once on the others. `out` is used
 * only on `from`, and `in` only on `to`. */
GW_API gw_status gw_transfer(gw_comm *comm, int from, const void *out, int to, void *in,
                             size_t len);

/* Replaces x (n floats) with its sum over the workers. */
GW_API gw_status gw_allreduce(gw_comm *comm, float *x, size_t n);

/* Sums x (n floats) over the workers. Afterwards x[begin, end), the range that
 * gw_part() gives for this worker, holds that range of the sum. The rest of x is
 * undefined. */
GW_API gw_status gw_reduce_scatter(gw_comm *comm, float *x, size_t n);

/* Divides n items among the workers as evenly as possible and writes the range of
 * worker `rank`. If n is not divisible, the first ranges are larger by one. */
GW_API void gw_part(size_t n, int workers, int rank, size_t *begin, size_t *end);

/* Gathers one message from each worker. The message of worker r goes to all + r * cap,
 * and its length to lens[r]. This worker's own message is copied too; mine may already
 * point there. Lengths may differ between workers, but cap is the same on all and at
 * least the longest len. Fails with GW_ERR_ARG if len > cap. */
GW_API gw_status gw_allgather(gw_comm *comm, const void *mine, size_t len, void *all,
                              size_t cap, size_t *lens);

/* ---- local: the workers of one machine -------------------------------------
 *
 * Workers are threads of this process or processes forked from it. They communicate
 * through rings in shared memory, which has no name and so cannot be left behind. */

typedef enum gw_spawn { GW_SPAWN_PROCESSES = 0, GW_SPAWN_THREADS = 1 } gw_spawn;

typedef struct gw_local_options {
    size_t struct_size;     /* sizeof(gw_local_options) */
    int workers;            /* 1 to 1024 */
    gw_spawn spawn;         /* how gw_local_run() starts them */
    double timeout_seconds; /* without progress before a failure; 0: 60 s */
    size_t ring_bytes; /* per pair and direction; per worker twice that for sums, 1 MiB
                        * at most; 0: 512 KiB, fewer if many workers */
    const char *link;  /* as for gw_comm_link(), or NULL */
} gw_local_options;

/* What a worker does. It is called once per worker with the worker's own comm, which is
 * freed after it returns. Its status and, after a failure, its message are the worker's
 * result. */
typedef gw_status gw_body(gw_comm *comm, void *arg);

/* Runs body(comm, arg) on every worker and returns when all have ended. Returns GW_OK
 * if all succeeded, otherwise the status and message of the first failure. A worker
 * that was killed by a signal comes before those that only noticed.
 *
 * With processes, call it while this process has only one thread. It flushes output
 * buffers before it forks. Workers ignore SIGINT, exit after body returns, and die with
 * the calling process, however that ends. After a failure the other workers have two
 * seconds to end before they are killed. */
GW_API gw_status gw_local_run(const gw_local_options *opt, gw_body *body, void *arg);

/* Local workers for callers that start the threads or processes themselves. Make the
 * group first, then join it from each thread or forked process. Release each comm with
 * gw_comm_free(), and the group after all of them. On failure *out is NULL. Both fail
 * with GW_ERR_ARG, GW_ERR_NOMEM or GW_ERR_SYSTEM. */
typedef struct gw_local_group gw_local_group;

GW_API gw_status gw_local_group_new(gw_local_group **out, const gw_local_options *opt);
GW_API gw_status gw_local_join(gw_comm **out, gw_local_group *group, int rank);
GW_API void gw_local_group_free(gw_local_group *group);

/* ---- layout: which floats belong together ---------------------------------- */

/* One tensor of a model, whose parameters form one flat vector: rows * cols floats from
 * offset on, row by row. A vector has rows = 1. */
typedef struct gw_tensor {
    const char *name;
    size_t offset, rows, cols;
} gw_tensor;

typedef struct gw_layout gw_layout;

/* Makes a layout of count tensors, in ascending order of offset, starting at 0 and
 * without gaps or overlaps. Names are copied and need not be unique; NULL means "". A
 * layout may have as many floats as memory can hold. A sync for more than 4,294,967,295
 * floats selects, codes and exchanges them in segments of at most that many, one after
 * the other. On success the caller releases *out with gw_layout_free(). Fails with
 * GW_ERR_NOMEM, or with GW_ERR_ARG, which names the tensor that is wrong. */
GW_API gw_status gw_layout_new(gw_layout **out, const gw_tensor *tensors, size_t count);
GW_API void gw_layout_free(gw_layout *layout);

/* Return the number of floats, the number of tensors, and tensor i, which must be below
 * that number. The tensor is valid as long as the layout. */
GW_API size_t gw_layout_floats(const gw_layout *layout);
GW_API size_t gw_layout_tensors(const gw_layout *layout);
GW_API const gw_tensor *gw_layout_tensor(const gw_layout *layout, size_t i);

/* ---- sync: one method for one model ---------------------------------------- */

typedef struct gw_sync gw_sync;

/* What to do about NaN and infinity in gradients, in models that are exchanged, and in
 * sums of finite numbers. */
typedef enum gw_nonfinite {
    GW_NONFINITE_STOP = 0, /* fail with GW_ERR_NUMBER on every worker; a worker that is
                              late may see GW_ERR_PEER, as another one has ended */
    GW_NONFINITE_SKIP = 1, /* return GW_SKIPPED on every worker and count the step; a
                              model cannot be skipped and fails as with STOP */
    GW_NONFINITE_IGNORE = 2, /* do not check */
    GW_NONFINITE_END = 3     /* like STOP, for callers that end then: exact top-k saves
                                a pass over the gradient, but after a failure the sync
                                is unusable until gw_sync_load() */
} gw_nonfinite;

typedef struct gw_sync_options {
    size_t struct_size;     /* sizeof(gw_sync_options) */
    gw_nonfinite nonfinite; /* what to do about NaN and infinity */
    uint64_t seed;          /* for stochastic rounding; the same on every worker */
} gw_sync_options;

/* Makes a sync: the method that spec describes, for vectors of this layout, on comm.
 * The layout is copied. comm is borrowed, so free the sync first. opt may be NULL. All
 * workers of comm call it together, and it compares their specs, layouts and options.
 * On success the caller releases *out with gw_sync_free(); on failure *out is NULL.
 * Fails with GW_ERR_MISMATCH on all workers if they differ, with GW_ERR_SPEC, whose
 * message names the invalid word and what is expected, with GW_ERR_ARG or GW_ERR_NOMEM,
 * or as a collective does. */
GW_API gw_status gw_sync_new(gw_sync **out, const char *spec, const gw_layout *layout,
                             gw_comm *comm, const gw_sync_options *opt);

/* Releases sync but not its comm. sync may be NULL. */
GW_API void gw_sync_free(gw_sync *sync);

/* ---- steps -------------------------------------------------------------------- */

/* Makes the models equal before the first step: replaces params (as many floats as the
 * layout has) with those of worker 0. Methods that send changes of the model remember
 * them, and fail with GW_ERR_ARG at their first exchange if this call is missing. Other
 * methods do not need it if the models are equal at the start. It is a collective. It
 * also fails with GW_ERR_NUMBER if worker 0's parameters contain NaN or infinity and
 * the sync checks for them. */
GW_API gw_status gw_sync_start(gw_sync *sync, float *params);

/* Begins a step: replaces grad, this worker's gradient (as many floats as the layout
 * has), with what the optimizer should apply. For most methods that is the average over
 * the workers, or those entries of it that were sent. Methods that exchange models
 * leave grad alone.
 *
 * GW_SKIPPED means that a worker's gradient contained NaN or infinity. grad is
 * undefined: do not apply it, but continue with gw_sync_model(). A method that
 * exchanges gradients skips the step on every worker. Other methods do not communicate
 * here and skip it on that worker alone. Residuals of the other workers stay as they
 * are. Fails as collectives do, or with GW_ERR_NUMBER, which names worker, step and
 * tensor. */
GW_API gw_status gw_sync_gradient(gw_sync *sync, float *grad);

/* Feeds the gradient of one tensor while backward still computes those before it. The
 * last tensor of the layout comes first. grad points to the whole vector, in which this
 * tensor is now final. A thread of the sync exchanges what is complete. comm and sync
 * stay busy until gw_sync_gradient() with the same grad has returned, which waits for
 * that thread. The result has the same bits as gw_sync_gradient() alone. Fails with
 * GW_ERR_ARG if tensors come in another order, with GW_ERR_NOMEM or GW_ERR_SYSTEM. */
GW_API gw_status gw_sync_gradient_part(gw_sync *sync, float *grad, size_t tensor);

/* Does what gw_sync_gradient() does, for a gradient in several pieces of memory. One
 * after the other, the pieces form the vector of the layout. Sparse methods copy
 * nothing. Other methods copy into a vector of their own, which the first such step
 * allocates. The result has the same bits. Fails as gw_sync_gradient(), with
 * GW_ERR_NOMEM, or with GW_ERR_ARG if the pieces are not as long as the layout, or
 * tensors were fed with gw_sync_gradient_part(). */
typedef struct gw_piece {
    float *at;
    size_t floats;
} gw_piece;

GW_API gw_status gw_sync_gradient_pieces(gw_sync *sync, const gw_piece *pieces,
                                         size_t count);

/* Entries of a vector: value[i] belongs to place index[i]. */
typedef struct gw_entries {
    const uint32_t *index;
    const float *value;
    size_t count;
} gw_entries;

/* Returns 1 if gw_sync_entries() can make the steps of this sync, apart from those of a
 * warm-up, otherwise 0. */
GW_API int gw_sync_takes_entries(const gw_sync *sync);

/* Returns how many entries the next step takes from a caller that chooses them itself,
 * or 0 if that step needs the whole gradient. The answer is the same on every
 * worker. */
GW_API size_t gw_sync_entries_due(const gw_sync *sync);

/* Does what gw_sync_gradient() does, for a caller that keeps the residual itself, as on
 * a GPU, so that only entries cross to the host. topk, gtopk and oktopk can do it,
 * without momentum, tiles and small tensors; gw_sync_entries_due() tells. Before the
 * call, the caller adds the gradient to its residual and moves the largest entries from
 * there to `chosen`, as many as are due but no zeros: magnitudes are compared as bits
 * without the sign, NaN is the largest, and of equal ones the lowest index goes first.
 * Indices ascend. Afterwards it adds each entry of `kept` to its residual, in that
 * order, in which an index may occur again. `result` has the entries of the average,
 * with ascending indices; the rest of it is 0. Result and residual then have the same
 * bits as with gw_sync_gradient(). Both lists are valid until the next step. The sync's
 * own residual is not used: states and gw_sync_health() do not know of the caller's.
 *
 * A caller whose gradient contains NaN or infinity leaves its residual as it is and
 * passes the first such number as its only entry. Returns GW_SKIPPED as
 * gw_sync_gradient() does; `kept` must be added then, too. Fails as that, with
 * GW_ERR_NOMEM, or with GW_ERR_ARG if the entries are not as described; the step has
 * not begun then. */
GW_API gw_status gw_sync_entries(gw_sync *sync, const gw_entries *chosen,
                                 gw_entries *result, gw_entries *kept);

/* Returns 1 if tensors are exchanged as they are fed, or 0 if the method needs the
 * whole vector and waits for the last tensor. */
GW_API int gw_sync_overlaps(const gw_sync *sync);

/* Ends a step. Call it after the optimizer's step. Methods that exchange models replace
 * params with the model that this worker continues from; others return at once. Methods
 * that keep all models equal compare them every 1000 steps, or every N with "+check:N",
 * and fail with GW_ERR_DIFFER, which names the step and the workers that differ.
 * Otherwise it fails as collectives do, or with GW_ERR_NUMBER, which names worker, step
 * and tensor. */
GW_API gw_status gw_sync_model(gw_sync *sync, float *params);

/* Returns 1 if gw_sync_model() will use params in the current step, or 0 if it will
 * return at once. Call it between the two calls of a step: callers whose parameters are
 * not in one vector can save the copy. The answer is the same on every worker. */
GW_API int gw_sync_model_due(const gw_sync *sync);

/* Returns how many times gw_sync_model() of the current step applies the change of the
 * model: the scale of "update" once that exchanges changes, otherwise 1. With
 * scale=auto it is what was measured in the steps before. Call it between the two calls
 * of a step. The scale makes up for the noise of workers, which cancels in the average
 * of their changes. Weight decay has no noise, so an optimizer that applies it to the
 * weights directly, as AdamW does, must divide it by this number. The answer is the
 * same on every worker. */
GW_API double gw_sync_scale(const gw_sync *sync);

/* Returns the momentum that gw_sync_model() of the current step applies to the changes
 * of the model: that of "update+...+momentum:M" once changes are exchanged, otherwise
 * 0. Call it between the two calls of a step. An optimizer that keeps a running mean of
 * gradients, as Adam does with its beta1, must use beta1 less this number, at least 0.
 * The answer is the same on every worker. */
GW_API double gw_sync_momentum(const gw_sync *sync);

/* With delay=1 in the spec, gw_sync_gradient() begins an exchange and hands back the
 * result of the one before, in the first step zeros. A thread of the sync exchanges
 * while the caller computes. Every other call on the sync or its comm that needs the
 * result, or the comm, waits for that thread. A failure of the exchange is returned by
 * the first call that waits. gw_sync_stats() and gw_sync_health() count exchanges whose
 * results were handed back, and wait_seconds those that the caller waited. The result
 * under way is part of a saved state.
 *
 * gw_sync_pending() returns 1 if a result is under way. gw_sync_drain() waits for it
 * and puts it into grad, for one more step of the optimizer before gw_sync_finish(),
 * which drops what nobody has drained. It returns as gw_sync_gradient() does, or
 * GW_ERR_ARG if no result is under way. It is a collective. */
GW_API int gw_sync_pending(const gw_sync *sync);
GW_API gw_status gw_sync_drain(gw_sync *sync, float *grad);

/* Ends the training. Methods that let models differ between exchanges, or average only
 * at the end, replace params with the average over the workers; with average=polyak,
 * with the average of all models of all workers and steps. params stays as it is if the
 * last step has made the models equal, or if the method never averages them ("none",
 * "a2sgd"). Models that should be equal are compared, as in gw_sync_model(). It is a
 * collective. */
GW_API gw_status gw_sync_finish(gw_sync *sync, float *params);

/* Returns 1 if the models of all workers have the same bits after each step, provided
 * that they were equal at the start, or 0 if they may differ (local steps, "none"). */
GW_API int gw_sync_keeps_equal(const gw_sync *sync);

/* Returns the spec with all defaults written out. It is valid as long as sync. */
GW_API const char *gw_sync_spec(const gw_sync *sync);

/* This worker's totals over all steps so far. Seconds are wall time inside the two
 * calls of a step: encoding its own data, waiting for messages, decoding those of
 * others. Masses are sums of magnitudes. They are counted only where a rule loses some
 * of a gradient (putback=paper) and are 0 otherwise: lost_mass is what this worker's
 * merges lost for good; applied_mass is what was applied, summed over the workers, and
 * it is the same on all of them. */
typedef struct gw_stats {
    uint64_t steps, skipped;
    uint64_t bytes_sent, bytes_received;
    uint64_t messages_sent, messages_received;
    double encode_seconds, wait_seconds, decode_seconds;
    double lost_mass, applied_mass;
} gw_stats;

GW_API gw_stats gw_sync_stats(const gw_sync *sync);

/* Changes the momentum of a spec that has one (+momentum:0.9), for schedules of the
 * optimizer's momentum. Call it between steps, with the same value on all workers. A
 * saved state does not contain it. Fails with GW_ERR_ARG if the spec has no momentum,
 * or if the value is not between 0 and 1. */
GW_API gw_status gw_sync_set_momentum(gw_sync *sync, double momentum);

/* Sets the learning rate of the next step, the same on all workers. When the rate
 * changes, a spec with momentum of its own rescales its residual, so that what waits
 * there keeps its weight, and gw_sync_health() does not take a rising rate for trouble.
 * Other specs ignore the rate. It costs a pass over the residual each time the rate has
 * changed by 1 percent. Fails with GW_ERR_ARG if the rate is negative or not a finite
 * number. */
GW_API gw_status gw_sync_set_rate(gw_sync *sync, double rate);

/* Returns the Euclidean norm of this worker's residual (what it has not sent yet), or 0
 * without a residual. It reads the whole residual, so do not call it in every step. */
GW_API double gw_sync_residual_norm(const gw_sync *sync);

/* How a worker's residual is doing. It is measured after 1, 2, 4, ... 64 exchanges and
 * then after every 64th, which costs one to three hundredths of a selection per step. A
 * residual grows at the beginning and then keeps its size. If it goes on growing by
 * factors, training diverges. Norms are Euclidean. A saved state does not contain this:
 * a sync that has loaded one starts measuring anew. */
typedef struct gw_health {
    size_t struct_size;   /* sizeof(gw_health) */
    uint64_t step;        /* of the last measurement; 0: there was none */
    double residual_norm; /* after the exchange of that step */
    double vector_norm;   /* of what this worker brought to the exchange: the gradient,
                             with the spec's momentum, or the change of the model */
    double growth;        /* of the residual since step `since`, in units of the */
    uint64_t since;       /* largest rate so far; both are 0 as long as unknown */
    int runs_away;        /* 1 after it has grown by factors again and again */
    char warning[256];    /* one sentence that says what to do then; "" before */
} gw_health;

/* Fills in health. Fails with GW_ERR_ARG if struct_size is too small; see
 * gw_spec_describe(). */
GW_API gw_status gw_sync_health(const gw_sync *sync, gw_health *health);

/* A state is everything that a sync remembers between steps: residuals, the last common
 * model, counters and its place in the current period. A run that is stopped and
 * resumed has the same result as one that was not. The bytes are the same on every
 * machine. */

/* Returns the length of this worker's state in bytes, which never changes. */
GW_API size_t gw_sync_state_len(const gw_sync *sync);

/* Writes this worker's state to the cap bytes at state. Call it between steps. Fails
 * with GW_ERR_SPACE if cap is too small, or with GW_ERR_NUMBER if a gradient with NaN
 * or infinity stopped the run and has corrupted the state. */
GW_API gw_status gw_sync_save(const gw_sync *sync, void *state, size_t cap);

/* Loads the states that `count` workers saved after the same step, in the order of
 * their ranks, into a sync with the same spec and layout. Every worker passes all
 * states. If count is the number of workers, each continues with its own state.
 * Otherwise residuals are added up and divided among the workers, so that their sum is
 * preserved. Fails with GW_ERR_ARG, or with GW_ERR_DATA, which names the state that is
 * damaged or does not match; sync is then unchanged. */
GW_API gw_status gw_sync_load(gw_sync *sync, const void *const *states,
                              const size_t *lens, size_t count);

/* Does what gw_sync_load() does, but with one state per call, i = 0, 1, ... count - 1,
 * for callers that do not want to hold all states at once. If count is the number of
 * workers, each worker needs only its own state, i = rank; for the others the call
 * returns at once, and state may be NULL. After a failure sync contains only some of
 * the states: free it. */
GW_API gw_status gw_sync_load_one(gw_sync *sync, const void *state, size_t len,
                                  size_t i, size_t count);

/* Writes the checksum at the end of the len bytes at state, for callers that store the
 * fields of a state separately and put them together again. docs/format-files.md
 * describes every byte. Fails with GW_ERR_DATA if the bytes do not start like a
 * state. */
GW_API gw_status gw_state_seal(void *state, size_t len);

#ifdef __cplusplus
}
#endif

/* gw_spec_check(), gw_spec_describe() and the like. */
#include "gradwire_spec.h"
#include "gradwire_transport.h"

#endif /* GRADWIRE_H */
