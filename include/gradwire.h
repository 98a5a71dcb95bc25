/* SPDX-License-Identifier: Apache-2.0
 *
 * gradwire.h - data-parallel SGD that is cheap on slow links.
 *
 * A training loop makes two calls per step, whatever the method:
 *
 *     compute grad;
 *     gw_sync_gradient(sync, grad);
 *     optimizer step on params with grad;
 *     gw_sync_model(sync, params);
 *
 * The method is a line of text, the spec ("dense", "gtopk:0.001+q:4"); each one
 * uses one of the two calls, and the other returns at once. A gw_comm connects
 * one worker to the others; a gw_sync is one method for one model on one comm.
 *
 * Threads: a gw_comm and the syncs made on it belong to one thread at a time.
 * Different comms may be used from different threads at the same time.
 *
 * Errors: every function that can fail returns a gw_status; the thread's last
 * failure is described, with the values in it, by gw_error_message(). */
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

/* One list gives the enum, the names and the texts: 0 is success, positive is
 * "not yet", negative is failure. Numbers are part of the ABI; append, never
 * renumber. */
#define GW_STATUS_MAP(X)                                                        \
    X(GW_OK, 0, "success")                                                      \
    X(GW_PENDING, 1, "not finished yet; call again")                            \
    X(GW_SKIPPED, 2, "the step was skipped on every worker; do not apply it")   \
    X(GW_ERR_ARG, -1, "invalid argument")                                       \
    X(GW_ERR_NOMEM, -2, "out of memory")                                        \
    X(GW_ERR_SPACE, -3, "output buffer too small")                              \
    X(GW_ERR_DATA, -4, "message or file is truncated or malformed")             \
    X(GW_ERR_SPEC, -5, "the spec is not one gradwire knows")                    \
    X(GW_ERR_PEER, -6, "another worker is gone")                                \
    X(GW_ERR_TIMEOUT, -7, "another worker does not answer")                     \
    X(GW_ERR_SYSTEM, -8, "the operating system refused")                        \
    X(GW_ERR_NUMBER, -9, "a gradient holds NaN or infinity")                    \
    X(GW_ERR_MISMATCH, -10, "the workers were started with different settings") \
    X(GW_ERR_ABSENT, -11, "this build lacks the part that was asked for")       \
    X(GW_ERR_STOPPED, -12, "stopped by the user")                               \
    X(GW_ERR_DIFFER, -13, "the workers' models differ that should be equal")

typedef enum gw_status {
#define GW_ENUM_(name, value, text) name = value,
    GW_STATUS_MAP(GW_ENUM_)
#undef GW_ENUM_
} gw_status;

/* The name ("GW_ERR_ARG") and the meaning of a status; static strings, never
 * NULL, "GW_UNKNOWN" and "unknown status" for a number not in the list. */
GW_API const char *gw_status_name(gw_status status);
GW_API const char *gw_status_text(gw_status status);

/* What the last failure on this thread was, in one sentence with the values in
 * it: one line of UTF-8 that can be printed, whatever names or other workers'
 * reasons are in it. Never NULL; valid until the next failure on this thread. A
 * success does not clear it. */
GW_API const char *gw_error_message(void);

/* Records a message for gw_error_message() and returns status, so that those
 * who write transports or bodies for gw_local_run() can fail in one statement.
 * Messages longer than 511 bytes are cut; every byte of a control character, and
 * every one that is no UTF-8, becomes a question mark. */
GW_API gw_status gw_fail(gw_status status, const char *format, ...) GW_PRINTF(2, 3);

/* "0.1.0", the version of the library that is running. */
GW_API const char *gw_version(void);

/* The vector instructions in use on this CPU: "avx512", "avx2", "neon" or "c".
 * The environment variable GW_CPU_OFF=avx512,avx2 removes some. */
GW_API const char *gw_isa(void);

/* ---- transports ------------------------------------------------------------
 *
 * A transport moves messages between the workers of one job: it posts sends and
 * receives and reports when they are done. gradwire builds everything else on
 * top. Messages from one worker to another arrive in the order in which they
 * were sent, the n-th sent matching the n-th receive posted for that worker;
 * there are no tags. */

/* Memory of gradwire's in which a transport keeps one posted operation: what it
 * holds is the transport's business. It is zeroed before each send or recv, and
 * neither moved nor reused before test() has answered OK or a failure. */
typedef struct gw_request {
    void *pointer[4];
    uint64_t word[4];
} gw_request;

/* The table by which a caller brings its own engine (MPI, a process group,
 * sockets). Functions are called by one thread at a time with the ctx given to
 * gw_comm_new(). None but wait() may block, and close() for a moment. A negative
 * status from any of them breaks the comm for good; the text given to gw_fail() is
 * kept. */
typedef struct gw_transport {
    size_t struct_size; /* sizeof(gw_transport); later versions add slots at the end
                         * and take tables that lack them */
    const char *name;   /* for reports; must outlive the comm */

    /* Begins to send len bytes to rank `to`. buf stays valid and unchanged until
     * test() says that the operation is over. len may be 0: a message all the
     * same. Returns GW_OK once posted. */
    gw_status (*send)(void *ctx, int to, const void *buf, size_t len, gw_request *req);

    /* Begins to receive the next message of rank `from` into buf, of at most cap
     * bytes; a longer one is GW_ERR_DATA from test(). Returns GW_OK once posted. */
    gw_status (*recv)(void *ctx, int from, void *buf, size_t cap, gw_request *req);

    /* Makes progress on req and says how it stands: GW_OK (over; *len is the
     * length of the message received, untouched for a send), GW_PENDING, or a
     * failure. gradwire tests everything it has posted, in that order, before it
     * sleeps. Not called again for req after OK or a failure. */
    gw_status (*test)(void *ctx, gw_request *req, size_t *len);

    /* Sleeps until something may have changed for a posted operation, but at most
     * `seconds`. GW_OK if posted operations made progress, GW_PENDING if not: it is
     * by GW_PENDING alone that the time limit runs. May return early. Optional: when
     * NULL, gradwire sleeps for short, growing times between tests. */
    gw_status (*wait)(void *ctx, double seconds);

    /* The rank of a worker known to be gone, or -1. Asked at most every 50 ms,
     * while waiting. Optional. */
    int (*lost)(void *ctx);

    /* Which worker is most likely the one everybody waits for, or -1 if the
     * transport cannot tell. Asked once, when the time limit is over. Optional:
     * when NULL, the peer of the oldest pending operation is named. */
    int (*suspect)(void *ctx);

    /* The host that rank runs on, for messages; NULL if not known. Optional. */
    const char *(*host)(void *ctx, int rank);

    /* Told when a step begins, so that the transport can say how far a worker
     * got. Optional. */
    void (*step)(void *ctx, uint64_t step);

    /* Called once if this worker fails, with the reason, so that the others can
     * be told without waiting for the time limit. Must not block. Optional. */
    void (*abort)(void *ctx, const char *reason);

    /* Called by gw_comm_free(). Operations may still be posted: their buffers
     * must not be touched after it returns. Optional. */
    void (*close)(void *ctx);

    /* Replaces x (n floats) by its sum over the workers, by means of the engine's
     * own; every worker calls it, with the same n and nothing posted. May block.
     * Optional: when NULL, gradwire sums by messages, which gives the same bits on
     * every transport; the engine's order of summation is its own business, so bits
     * may differ from those. */
    gw_status (*allreduce)(void *ctx, float *x, size_t n);

    /* Blocks until req is over, however long that takes, and answers as test() does,
     * but never GW_PENDING; other operations may stay as they are meanwhile. Optional:
     * when there, gradwire waits by it alone, and there is no time limit. For engines
     * that cannot fall silent and in which looking at many operations is dear. */
    gw_status (*finish)(void *ctx, gw_request *req, size_t *len);

    /* Tells the others that this worker is busy until `until`, in seconds of the
     * monotonic clock of the machine they share, with messages on an emulated link
     * (gw_comm_link()): so long their wait() answers GW_OK, as that is no silence.
     * Called with 0 when a link is laid; without a link, what others tell is not to be
     * believed. Must not block. Optional: when NULL, a worker that waits for one that
     * waits for a slow message may take it for silent. */
    void (*busy)(void *ctx, double until);
} gw_transport;

/* ---- comm: one worker's connection to the others --------------------------- */

typedef struct gw_comm gw_comm;

typedef struct gw_comm_options {
    size_t struct_size;     /* sizeof(gw_comm_options) */
    double timeout_seconds; /* without progress; 0 means the default of 60 */
} gw_comm_options;

/* Makes a comm of `workers` ranks, of which this one is `rank`, over a caller's
 * transport. table is copied, ctx is passed back to its functions; opt may be
 * NULL. On success the caller releases *out with gw_comm_free(); on failure *out
 * is NULL and close() was not called. GW_ERR_ARG, GW_ERR_NOMEM. */
GW_API gw_status gw_comm_new(gw_comm **out, const gw_transport *table, void *ctx,
                             int rank, int workers, const gw_comm_options *opt);

/* Makes a comm over stream sockets that the caller has connected (TCP between
 * machines, or socketpairs): fds[r] leads to worker r, whose comm has the other end;
 * fds[rank] is not looked at. hosts[r], copied, names worker r's host in messages;
 * hosts, its entries and opt may be NULL. On success the sockets belong to the comm,
 * which closes them in gw_comm_free(): what a worker has sent still arrives (over TCP
 * it waits for that as long as something leaves), and the others are told that it
 * ended in order. A worker that dies is noticed by all
 * others as soon as they wait for anything. So that all name the right one when a
 * worker hangs or is cut off, those who wait for longer than a quarter of a second,
 * or a 16th of the time limit, give signs of life to all others. Less than 1 KiB of
 * awaited messages per second of waiting is as good as silence. What others send is
 * not trusted: GW_ERR_DATA, from a collective, names who sends what is no frame. On
 * failure *out is NULL and the sockets stay the caller's. GW_ERR_ARG, GW_ERR_NOMEM. */
GW_API gw_status gw_comm_sockets(gw_comm **out, const int *fds,
                                 const char *const *hosts, int rank, int workers,
                                 const gw_comm_options *opt);

/* Makes this comm behave as if every worker were a host on a network like
 * "1gbit,50us": each has a full-duplex interface of that rate, shared by its
 * sends and, the other way, by its receives, and every message takes that long
 * to arrive. Rates in kbit, mbit, gbit; times in us, ms; the time may be left
 * out. Call it on every worker before anything is sent. The clocks of the workers
 * must agree (one machine). A message that is on its way is no silence, however long
 * it takes: the time limit begins when it should have arrived. GW_ERR_ARG, also where
 * the transport sums by itself; GW_ERR_NOMEM. */
GW_API gw_status gw_comm_link(gw_comm *comm, const char *link);

/* Reads a link as gw_comm_link() takes it, without any comm: how many bytes per second
 * an interface carries and how many seconds a message is under way. Either pointer may
 * be NULL; on failure neither is written. GW_ERR_ARG names the word that is wrong. */
GW_API gw_status gw_link_parse(const char *link, double *bytes_per_second,
                               double *latency_seconds);

/* Releases comm and closes its transport. NULL is fine. Free its syncs first. A comm
 * belongs to the process that made it: a process forked from that one may free its
 * copy, which tells the others nothing, and must not use it. The copies it has of
 * sockets are closed at the fork, so that connections end when its parent does. */
GW_API void gw_comm_free(gw_comm *comm);

GW_API int gw_comm_rank(const gw_comm *comm);
GW_API int gw_comm_workers(const gw_comm *comm);
/* The transport's name, "link(…)" around it where gw_comm_link() was called. */
GW_API const char *gw_comm_transport(const gw_comm *comm);

/* What crossed the transport for this worker: messages, gradwire's headers included
 * and, on sockets, the 8 bytes before each; gw_sync_stats() counts the same. What is no
 * part of a message is not counted, as it depends on time and not on the method: signs
 * of life on sockets (8 bytes each), goodbyes, reasons of failures; nor what MPI or the
 * network add. What all have sent is what all have received. */
typedef struct gw_traffic {
    uint64_t bytes_sent, bytes_received;
    uint64_t messages_sent, messages_received;
    double wait_seconds; /* spent waiting for messages to move */
} gw_traffic;

GW_API gw_traffic gw_comm_traffic(const gw_comm *comm);

/* The host that a worker runs on; NULL if the transport does not know. Valid as long
 * as comm. */
GW_API const char *gw_comm_host(const gw_comm *comm, int rank);

/* For a worker that fails between two collectives, so that the others do not wait
 * for it until the time limit: tells them the thread's last message, breaks the comm
 * as a failed collective does, and returns status. Nothing happens if it is broken
 * already. */
GW_API gw_status gw_comm_fail(gw_comm *comm, gw_status status);

/* Ends whatever comm waits for, now or later: the call that waits fails soon with
 * GW_ERR_STOPPED, nothing more is sent but the reason, which the other workers are
 * told, and comm is broken. The one function that may be called while another thread
 * uses comm, and from a signal handler; comm must not be freed meanwhile. An engine's
 * own all-reduce and transports that bring finish() are not woken. */
GW_API void gw_comm_interrupt(gw_comm *comm);

/* What a worker is doing, for timelines. */
typedef enum gw_activity {
    GW_ACTIVITY_ENCODE, /* own data into messages */
    GW_ACTIVITY_SEND,   /* a message was posted; begin and end are the same */
    GW_ACTIVITY_WAIT,   /* nothing to do before a message has come or gone */
    GW_ACTIVITY_DECODE  /* messages of others into data */
} gw_activity;

/* Told when something has ended: from begin to end in seconds of the monotonic clock;
 * of a send also the peer and the bytes, otherwise -1 and 0. Called in the thread that
 * exchanges, which waits for it. */
typedef void gw_trace(void *arg, gw_activity what, double begin, double end, int peer,
                      size_t bytes);

/* Has every activity of the syncs on this comm told; NULL ends it. Between steps. */
GW_API void gw_comm_trace(gw_comm *comm, gw_trace *tell, void *arg);

/* Collectives. Every worker of the comm makes the same calls in the same order
 * with lengths that fit together. The order of summation depends on n and the
 * number of workers alone, and the result has the same bits on every worker.
 * They fail with GW_ERR_PEER, GW_ERR_TIMEOUT (both naming rank, host and step),
 * GW_ERR_DATA (a peer sent something of another length, or it was damaged on its
 * way), or GW_ERR_NOMEM when scratch memory has to grow. After a failure the comm stays
 * failed and the contents of the buffers are undefined. Where the transport brings an
 * all-reduce of its own, sums are its work: their bits may differ from other
 * transports', and what is counted as traffic is the least that any all-reduce sends.
 */

/* Returns once every worker has called it. */
GW_API gw_status gw_barrier(gw_comm *comm);

/* Copies len bytes at buf from worker root to all. */
GW_API gw_status gw_broadcast(gw_comm *comm, void *buf, size_t len, int root);

/* Copies len bytes from `out` of worker `from` to `in` of worker `to`, for what only
 * two have to do with each other: the others need not call it, and return at once if
 * they do. out is looked at on `from` only, in on `to` only; both give the same len. */
GW_API gw_status gw_transfer(gw_comm *comm, int from, const void *out, int to, void *in,
                             size_t len);

/* Replaces x (n floats) by its sum over the workers. */
GW_API gw_status gw_allreduce(gw_comm *comm, float *x, size_t n);

/* Sums x (n floats) over the workers and leaves this worker its own part of the
 * sum in x[begin, end), as gw_part() gives it; the rest of x is undefined. */
GW_API gw_status gw_reduce_scatter(gw_comm *comm, float *x, size_t n);

/* The part of n items that worker `rank` of `workers` owns: as even as possible,
 * the first parts larger by one. */
GW_API void gw_part(size_t n, int workers, int rank, size_t *begin, size_t *end);

/* Gathers one message from each worker. Worker r's message is put at
 * all + r * cap and its length in lens[r]; this worker's own is copied too
 * (mine may already lie there). len differs between workers as they like, but
 * cap, at least the longest len, is the same on all. GW_ERR_ARG if len > cap. */
GW_API gw_status gw_allgather(gw_comm *comm, const void *mine, size_t len, void *all,
                              size_t cap, size_t *lens);

/* ---- local: the workers of one machine -------------------------------------
 *
 * Ranks are threads of this process or processes forked from it, over rings in
 * shared memory that has no name and so cannot be left behind. */

typedef enum gw_spawn { GW_SPAWN_PROCESSES = 0, GW_SPAWN_THREADS = 1 } gw_spawn;

typedef struct gw_local_options {
    size_t struct_size;     /* sizeof(gw_local_options) */
    int workers;            /* 1 to 1024 */
    gw_spawn spawn;         /* how gw_local_run() starts them */
    double timeout_seconds; /* without progress; 0 means the default of 60 */
    size_t ring_bytes;      /* per pair and direction; 0: 512 KiB, less if many */
    const char *link;       /* as in gw_comm_link(), or NULL */
} gw_local_options;

/* What a worker does: called once per rank with its own comm, which is freed
 * after it returns. Its status, and the message if it failed, become the rank's
 * result. */
typedef gw_status gw_body(gw_comm *comm, void *arg);

/* Runs body(comm, arg) on every rank and returns when all have ended: GW_OK if
 * all succeeded, otherwise the status and message of the failure that came
 * first, a worker killed by a signal being named before those who only noticed.
 * With processes: call it while the process has one thread; output buffers are
 * flushed before the fork; workers ignore SIGINT, do not return from body's
 * caller, and die with the calling process, however it ends. After a failure the
 * others are given two seconds to end by themselves and are then killed. */
GW_API gw_status gw_local_run(const gw_local_options *opt, gw_body *body, void *arg);

/* The same in parts, for callers who start the ranks themselves: make the group
 * first, then join it from each thread or forked process. All comms are freed
 * before the group. GW_ERR_ARG, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
typedef struct gw_local_group gw_local_group;

GW_API gw_status gw_local_group_new(gw_local_group **out, const gw_local_options *opt);
GW_API gw_status gw_local_join(gw_comm **out, gw_local_group *group, int rank);
GW_API void gw_local_group_free(gw_local_group *group);

/* ---- layout: which floats belong together ---------------------------------- */

/* One tensor of a model whose parameters lie in one flat vector: rows * cols
 * floats, row by row, from offset on. A vector has rows = 1. */
typedef struct gw_tensor {
    const char *name;
    size_t offset, rows, cols;
} gw_tensor;

typedef struct gw_layout gw_layout;

/* Makes a layout of count tensors in ascending order of offset, without gap or
 * overlap, beginning at 0. Names are copied, need not be unique, NULL is "". There
 * may be as many floats as memory can hold; a sync for more than 4,294,967,295 of
 * them selects, codes and exchanges in segments of at most that many, one after the
 * other. On success the caller releases *out with gw_layout_free(). GW_ERR_ARG names
 * the tensor that does not fit; GW_ERR_NOMEM. */
GW_API gw_status gw_layout_new(gw_layout **out, const gw_tensor *tensors, size_t count);
GW_API void gw_layout_free(gw_layout *layout);

/* How many floats and how many tensors it covers; tensor i (i < tensors), valid
 * as long as the layout. */
GW_API size_t gw_layout_floats(const gw_layout *layout);
GW_API size_t gw_layout_tensors(const gw_layout *layout);
GW_API const gw_tensor *gw_layout_tensor(const gw_layout *layout, size_t i);

/* ---- sync: one method for one model ---------------------------------------- */

typedef struct gw_sync gw_sync;

/* What to do about NaN and infinity, in gradients, in models that are exchanged, and in
 * sums of numbers that are finite. */
typedef enum gw_nonfinite {
    GW_NONFINITE_STOP = 0,   /* fail with GW_ERR_NUMBER on every worker, or, on one that
                                is late, with GW_ERR_PEER because another has ended */
    GW_NONFINITE_SKIP = 1,   /* return GW_SKIPPED on every worker, count it; in a model,
                                which cannot skip a step, as STOP */
    GW_NONFINITE_IGNORE = 2, /* do not look */
    GW_NONFINITE_END = 3     /* as STOP, for callers who end then: methods with exact
                                top-k save a pass over the gradient, and the sync is of
                                no more use before gw_sync_load() */
} gw_nonfinite;

typedef struct gw_sync_options {
    size_t struct_size;     /* sizeof(gw_sync_options) */
    gw_nonfinite nonfinite; /* what to do about NaN or infinity in a gradient */
    uint64_t seed;          /* of stochastic rounding; the same on every worker */
} gw_sync_options;

/* Makes the method that spec describes, for vectors of the layout (copied), on
 * comm (borrowed: free the sync first). opt may be NULL. Every worker of comm
 * calls it together: spec, layout and options are compared, and a difference is
 * GW_ERR_MISMATCH on all. Otherwise GW_ERR_SPEC (the message names the word that
 * is wrong and what would fit), GW_ERR_ABSENT, GW_ERR_ARG, GW_ERR_NOMEM, or the
 * failures of a collective. On failure *out is NULL. */
GW_API gw_status gw_sync_new(gw_sync **out, const char *spec, const gw_layout *layout,
                             gw_comm *comm, const gw_sync_options *opt);

/* Releases sync, not its comm. NULL is fine. */
GW_API void gw_sync_free(gw_sync *sync);

/* ---- steps -------------------------------------------------------------------- */

/* Makes the models equal before the first step: replaces params (as many floats as
 * the layout has) by worker 0's, which methods that send changes of the model also
 * remember. Those fail with GW_ERR_ARG at their first exchange without it; others
 * can do without if the models begin equal. GW_ERR_NUMBER if worker 0's has NaN or
 * infinity, and somebody looks for them. A collective: every worker calls it. */
GW_API gw_status gw_sync_start(gw_sync *sync, float *params);

/* Begins a step: replaces grad, this worker's gradient (as many floats as the
 * layout has), by what the optimizer should apply - for most methods the
 * average over the workers, or the part of it that was sent. Methods that
 * exchange models leave it alone. GW_SKIPPED: a worker's gradient held NaN or
 * infinity; do not apply it, grad is undefined, but go on with gw_sync_model(). The
 * step is skipped on every worker by methods that exchange gradients; with others,
 * which do not talk then, on that worker alone. What sound workers have gathered in
 * a residual stays there. Fails as collectives do, or with GW_ERR_NUMBER naming
 * worker, step and tensor. */
GW_API gw_status gw_sync_gradient(gw_sync *sync, float *grad);

/* Feeds the gradient of one tensor, the last of the layout first, while backward
 * still computes those before it: grad points to the whole vector, of which this
 * tensor is now final. A thread of the sync's own exchanges what is complete; comm
 * and sync are busy until gw_sync_gradient() with the same grad, which waits for it,
 * has returned. The result has the same bits as without parts. GW_ERR_ARG if the
 * order is another, GW_ERR_NOMEM, GW_ERR_SYSTEM. */
GW_API gw_status gw_sync_gradient_part(gw_sync *sync, float *grad, size_t tensor);

/* The same as gw_sync_gradient() for a gradient that does not lie in one vector: the
 * pieces, one after the other, are the vector of the layout. For sparse methods nothing
 * is copied; others copy into a vector of their own, which the first such step
 * allocates. The result has the same bits. GW_ERR_ARG if the pieces are not as long as
 * the layout or parts were fed, GW_ERR_NOMEM, and as gw_sync_gradient(). */
typedef struct gw_piece {
    float *at;
    size_t floats;
} gw_piece;

GW_API gw_status gw_sync_gradient_pieces(gw_sync *sync, const gw_piece *pieces,
                                         size_t count);

/* Whether parts are exchanged while later ones are still awaited (1), or the method
 * needs the whole vector and waits for the last part (0). */
GW_API int gw_sync_overlaps(const gw_sync *sync);

/* Ends a step: methods that exchange models replace params, after the local
 * optimizer's step, by what this worker continues from; others return at once. Every
 * 1000 steps, or as "+check:N" says, methods that leave all models equal compare them:
 * GW_ERR_DIFFER names the step and the workers that differ. Otherwise fails as
 * collectives do, or with GW_ERR_NUMBER naming worker, step and tensor. */
GW_API gw_status gw_sync_model(gw_sync *sync, float *params);

/* Whether gw_sync_model() of the current step would look at params at all (1) or
 * return at once (0): asked between the two calls, it saves those whose parameters do
 * not lie in one vector the trouble of gathering them. The same on every worker. */
GW_API int gw_sync_model_due(const gw_sync *sync);

/* How many times gw_sync_model() of the current step applies the average change of the
 * models: the scale of "update" once that exchanges changes, otherwise 1. It is asked
 * between the two calls. The scale makes up for short steps on a worker's own gradient.
 * Weight decay is not short, so an optimizer that takes it off the weights by itself,
 * as AdamW does, divides it by this. The same on every worker. */
GW_API double gw_sync_scale(const gw_sync *sync);

/* Ends the training: methods that let models differ between exchanges, or average
 * once at the end, replace params by the average over the workers; with
 * average=polyak, by the average of all models of all workers and steps. Others, and
 * those whose models never meet ("none", "a2sgd"), leave params alone, and so do all
 * where the last step has made the models equal. Models that should be equal by now are
 * compared, as by gw_sync_model(). A collective. */
GW_API gw_status gw_sync_finish(gw_sync *sync, float *params);

/* Whether every worker's model has the same bits after each step (1), provided
 * they began equal, or may differ (0: local steps, "none"). */
GW_API int gw_sync_keeps_equal(const gw_sync *sync);

/* The canonical spec; valid as long as sync. */
GW_API const char *gw_sync_spec(const gw_sync *sync);

/* Sums over all steps so far, for this worker. Seconds are wall time inside the
 * two calls: encoding own data, waiting for messages, decoding those of others.
 * Masses are sums of magnitudes, and counted where a rule loses some of a gradient
 * (putback=paper), 0 elsewhere: what is lost for good at this worker's merges, and
 * what was applied, summed over the workers and the same on all of them. */
typedef struct gw_stats {
    uint64_t steps, skipped;
    uint64_t bytes_sent, bytes_received;
    uint64_t messages_sent, messages_received;
    double encode_seconds, wait_seconds, decode_seconds;
    double lost_mass, applied_mass;
} gw_stats;

GW_API gw_stats gw_sync_stats(const gw_sync *sync);

/* Changes the momentum of a spec that has one (+momentum:0.9), between steps, to the
 * same value on all workers: for schedules of the optimizer's momentum. A saved state
 * does not hold it. GW_ERR_ARG if the spec has none, or it is not between 0 and 1. */
GW_API gw_status gw_sync_set_momentum(gw_sync *sync, double momentum);

/* Tells the learning rate of the step that comes, the same on all workers: a spec with
 * momentum of its own then keeps what waits in its residual worth what it was when the
 * rate changes. Others need not know, and ignore it. Costs a pass over the residual
 * whenever the rate has changed by 1 percent. GW_ERR_ARG if it is negative or no
 * number. */
GW_API gw_status gw_sync_set_rate(gw_sync *sync, double rate);

/* The Euclidean norm of what this worker remembers and has not sent; 0 without a
 * residual. Reads it once, so ask now and then and not in every step. */
GW_API double gw_sync_residual_norm(const gw_sync *sync);

/* State: everything a sync remembers between steps - residuals, the last common
 * model, counters, where it is in its periods - so that a run that is stopped and
 * resumed is the run that was not. The bytes are the same on every machine. */

/* The length of this worker's state; does not change. */
GW_API size_t gw_sync_state_len(const gw_sync *sync);

/* Writes it to state, of cap bytes; between steps. GW_ERR_SPACE; GW_ERR_NUMBER if a
 * gradient that stopped the run has spoiled it. */
GW_API gw_status gw_sync_save(const gw_sync *sync, void *state, size_t cap);

/* Takes over the states that `count` workers saved after the same step, in the order
 * of their ranks, into a sync made with the same spec and layout; every worker gives
 * all of them. If count is the number of workers, each goes on where it was. If not,
 * residuals are added up and handed out anew, so that their sum is preserved.
 * GW_ERR_DATA names the state that is damaged or does not fit; sync is then
 * unchanged. */
GW_API gw_status gw_sync_load(gw_sync *sync, const void *const *states,
                              const size_t *lens, size_t count);

/* The same with one state after the other, i = 0, 1, ... count - 1, for those who do
 * not want to hold all of them at once. If count is the number of workers, each needs
 * only its own, i = rank, and returns at once for the others, which may be NULL. After
 * a failure sync holds part of the states: free it. */
GW_API gw_status gw_sync_load_one(gw_sync *sync, const void *state, size_t len,
                                  size_t i, size_t count);

/* For those who keep the parts of a state under names of their own and put it
 * together again (docs/format.md has every byte): writes the check at the end of the
 * len bytes at state. GW_ERR_DATA if they do not begin as a state does. */
GW_API gw_status gw_state_seal(void *state, size_t len);

#ifdef __cplusplus
}
#endif

/* What specs mean, and what the library knows about each. */
#include "gradwire_spec.h"

#endif /* GRADWIRE_H */
