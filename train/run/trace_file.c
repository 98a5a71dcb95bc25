/* SPDX-License-Identifier: Apache-2.0
 *
 * trace_file.c - the timeline of a run. */
#define _GNU_SOURCE
#include "run/trace_file.h"
#include "common.h"
#include "files/json.h"
#include "files/newfile.h"
#include "run/slow_work.h"

#include <pthread.h>

/* The most events kept per worker, 40 MB. Later ones are dropped, and their number is
 * written to the file. */
enum { EVENTS_MAX = 1000000 };

typedef struct event {
    double begin, end;
    int32_t what, peer; /* gw_activity, or COMPUTE */
    uint64_t bytes;
} event;

enum { COMPUTE = -1 };

struct gwt_trace {
    /* Held while events are added: with results that are used late, the sync's own
     * thread has some to tell, too. */
    pthread_mutex_t adding;
    const char *path;
    double timeout; /* of the comm */
    double zero;
    uint64_t steps_left;
    uint64_t count, dropped;
    event events[EVENTS_MAX];
};

/* ---- keeping ----------------------------------------------------------------------
 */

static void add(gwt_trace *t, int what, double begin, double end, int peer,
                size_t bytes)
{
    pthread_mutex_lock(&t->adding);
    if (t->count == EVENTS_MAX)
        t->dropped++;
    else
        t->events[t->count++] =
            (event){begin - t->zero, end - t->zero, what, peer, (uint64_t)bytes};
    pthread_mutex_unlock(&t->adding);
}

static void tell(void *arg, gw_activity what, double begin, double end, int peer,
                 size_t bytes)
{
    add(arg, (int)what, begin, end, peer, bytes);
}

void gwt_trace_compute(gwt_trace *trace, double begin, double end)
{
    if (trace != NULL && trace->steps_left > 0)
        add(trace, COMPUTE, begin, end, -1, 0);
}

gw_status gwt_trace_open(gwt_trace **out, const gwt_config *config, gw_comm *comm)
{
    gwt_trace *t;

    *out = NULL;
    if (config->trace == NULL)
        return GW_OK;
    t = gwt_calloc(1, sizeof *t, "a timeline");
    if (t == NULL)
        return GW_ERR_NOMEM;
    pthread_mutex_init(&t->adding, NULL);
    t->path = config->trace;
    t->timeout = config->timeout;
    t->steps_left = config->trace_steps;
    t->zero = gwt_now();
    *out = t;
    gw_comm_trace(comm, tell, t);
    return GW_OK;
}

void gwt_trace_free(gwt_trace *trace)
{
    if (trace != NULL)
        pthread_mutex_destroy(&trace->adding);
    gwt_free(trace);
}

/* ---- writing ----------------------------------------------------------------------
 */

static const char *name_of(int what)
{
    switch (what) {
    case GW_ACTIVITY_ENCODE:
        return "encode";
    case GW_ACTIVITY_SEND:
        return "send";
    case GW_ACTIVITY_WAIT:
        return "wait";
    case GW_ACTIVITY_DECODE:
        return "decode";
    default:
        return "compute";
    }
}

/* Times are in microseconds, exact to the nanosecond. A send is an instant ("i"),
 * everything else an interval ("X"). */
static void write_event(gwt_json *j, int rank, const event *e)
{
    int moment = e->what == GW_ACTIVITY_SEND;

    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "name", name_of(e->what));
    gwt_json_text(j, "ph", moment ? "i" : "X");
    gwt_json_fixed(j, "ts", 1e6 * e->begin);
    if (!moment)
        gwt_json_fixed(j, "dur", 1e6 * (e->end - e->begin));
    gwt_json_count(j, "pid", 0);
    gwt_json_count(j, "tid", (uint64_t)rank);
    if (moment) {
        gwt_json_text(j, "s", "t");
        gwt_json_open(j, "args", '{');
        gwt_json_count(j, "to", (uint64_t)e->peer);
        gwt_json_count(j, "bytes", e->bytes);
        gwt_json_close(j, '}');
    }
    gwt_json_close(j, '}');
}

static void write_name(gwt_json *j, int rank)
{
    char text[32];

    snprintf(text, sizeof text, "worker %d", rank);
    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "name", "thread_name");
    gwt_json_text(j, "ph", "M");
    gwt_json_count(j, "pid", 0);
    gwt_json_count(j, "tid", (uint64_t)rank);
    gwt_json_open(j, "args", '{');
    gwt_json_text(j, "name", text);
    gwt_json_close(j, '}');
    gwt_json_close(j, '}');
}

/* Sends one worker's events to rank 0, which stores them in theirs. */
static gw_status fetch(gwt_trace *mine, gwt_trace *theirs, gw_comm *comm, int from)
{
    uint64_t head[2] = {mine->count, mine->dropped};

    GWT_TRY(gw_transfer(comm, from, head, 0, &theirs->count, sizeof head[0]));
    GWT_TRY(gw_transfer(comm, from, head + 1, 0, &theirs->dropped, sizeof head[1]));
    uint64_t count = gw_comm_rank(comm) == 0 ? theirs->count : mine->count;
    if (count > EVENTS_MAX)
        return gw_fail(GW_ERR_DATA,
                       "worker %d sent a timeline of %llu events, which is too long",
                       from, (unsigned long long)count);
    return gw_transfer(comm, from, mine->events, 0, theirs->events,
                       (size_t)count * sizeof mine->events[0]);
}

static void write_worker(gwt_json *j, const gwt_trace *t, int rank)
{
    write_name(j, rank);
    for (uint64_t i = 0; i < t->count; i++)
        write_event(j, rank, &t->events[i]);
}

/* The file while rank 0 writes it: the beginning with the events of rank 0, then those
 * of one worker after another, then the end. */
typedef struct writing {
    const gwt_trace *mine;
    gwt_trace *theirs;
    int rank; /* whose they are */
    uint64_t dropped;
    gwt_newfile file;
    FILE *stream;
    gwt_json json;
} writing;

static gw_status write_begin(void *arg)
{
    writing *w = arg;
    gwt_json *j = &w->json;

    GWT_TRY(gwt_newfile_open(&w->file, w->mine->path, NULL));
    GWT_TRY(gwt_newfile_stream(&w->file, &w->stream));
    j->to = w->stream;
    gwt_json_open(j, NULL, '{');
    gwt_json_text(j, "displayTimeUnit", "ms");
    gwt_json_open(j, "traceEvents", '[');
    write_worker(j, w->mine, 0);
    w->dropped = w->mine->dropped;
    return GW_OK;
}

static gw_status write_theirs(void *arg)
{
    writing *w = arg;

    write_worker(&w->json, w->theirs, w->rank);
    w->dropped += w->theirs->dropped;
    return GW_OK;
}

static gw_status write_end(void *arg)
{
    writing *w = arg;
    FILE *stream = w->stream;

    gwt_json_close(&w->json, ']');
    gwt_json_count(&w->json, "dropped", w->dropped);
    gwt_json_close(&w->json, '}');
    putc('\n', stream);
    w->stream = NULL;
    GWT_TRY(gwt_newfile_stream_end(&w->file, stream));
    return gwt_newfile_commit(&w->file);
}

static gw_status write_parts(gwt_trace *t, gw_comm *comm, writing *w)
{
    GWT_TRY(gwt_slow_work(comm, t->timeout, write_begin, w));
    for (w->rank = 1; w->rank < gw_comm_workers(comm); w->rank++) {
        GWT_TRY(fetch(t, w->theirs, comm, w->rank));
        GWT_TRY(gwt_slow_work(comm, t->timeout, write_theirs, w));
    }
    return gwt_slow_work(comm, t->timeout, write_end, w);
}

static gw_status write_all(gwt_trace *t, gw_comm *comm, gwt_trace *theirs)
{
    writing w = {.mine = t, .theirs = theirs, .file.fd = -1};
    gw_status st = write_parts(t, comm, &w);

    if (st == GW_OK)
        return GW_OK;
    if (w.stream != NULL)
        fclose(w.stream);
    gwt_newfile_abandon(&w.file);
    return st;
}

gw_status gwt_trace_end(gwt_trace *trace, gw_comm *comm)
{
    gwt_trace *theirs;
    gw_status st;

    if (trace == NULL || trace->steps_left == 0)
        return GW_OK;
    trace->steps_left = 0;
    gw_comm_trace(comm, NULL, NULL);
    theirs = gwt_calloc(1, sizeof *theirs, "a timeline");
    if (theirs == NULL)
        return GW_ERR_NOMEM;
    st = write_all(trace, comm, theirs);
    gwt_free(theirs);
    return st;
}

gw_status gwt_trace_step(gwt_trace *trace, gw_comm *comm)
{
    if (trace == NULL || trace->steps_left == 0)
        return GW_OK;
    if (trace->steps_left == 1)
        return gwt_trace_end(trace, comm);
    trace->steps_left--;
    return GW_OK;
}
