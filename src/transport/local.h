/* SPDX-License-Identifier: Apache-2.0
 *
 * local.h - the shared memory of a group of workers on one machine, as its
 * transport (local.c) and its supervisor (local_run.c) see it. */
#ifndef GWI_LOCAL_H
#define GWI_LOCAL_H

#include <stdatomic.h>
#include <sys/types.h>

#include "base.h"
#include "comm.h"
#include "transport/doorbell.h"
#include "transport/ring.h"

typedef enum gwi_presence {
    GWI_ABSENT = 0, /* has not joined yet */
    GWI_PRESENT,
    GWI_LEFT, /* freed its comm; what it sent can still be read */
    GWI_DEAD  /* its process ended, or it failed */
} gwi_presence;

/* What the others know about one worker. */
typedef struct gwi_slot {
    _Alignas(64) gwi_doorbell bell;
    _Atomic int presence;  /* a gwi_presence */
    _Atomic int pid;       /* 0 for a thread of the process that made the group */
    _Atomic uint64_t beat; /* nanoseconds, when it last looked for messages */
    _Atomic uint64_t busy; /* nanoseconds, until when with an emulated link */
    _Atomic uint64_t step;
    /* How its body ended; written by the worker, read after it is gone. */
    _Atomic int finished;
    int status;
    double finished_at;
    char message[512];
} gwi_slot;

struct gw_local_group {
    gw_local_options opt;
    char link[64];
    char host[64];
    void *mapping; /* slots[P], rings[P][P], gates[P], data[P][P][ring_bytes],
                    * areas[P] */
    size_t mapping_len;
    gwi_slot *slots;
    gwi_ring *rings; /* [from * P + to] */
    gwi_gate *gates;
    uint8_t *data;
    gwi_shared shared;
};

/* Marks a worker as dead and wakes all, so that nobody waits for it. */
void gwi_local_mark_dead(gw_local_group *group, int rank);

/* An open descriptor that becomes readable when the process ends, or -1. */
int gwi_pidfd(pid_t pid);

#endif
