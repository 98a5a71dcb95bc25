/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd.h - a meeting in an etcd cluster, without any server of our own.
 *
 *     etcd_json.c   reads the JSON that etcd answers with; texts that grow
 *     etcd_http.c   requests to any of several endpoints, and a watch
 *     etcd_table.c  what the job has stored: members and the view; who is next
 *     etcd_store.c  stores and reads that
 *     way_etcd.c    a member's thread: keeps its lease, asks, makes views
 *
 * Keys, where JOB is the job's name and TOKEN a member's random number:
 *
 *     /gradwire/JOB/member/TOKEN   who it is and what it waits for; bound to its lease
 *     /gradwire/JOB/view           the current view: number and members
 *     /gradwire-report/JOB/TOKEN   how far it is; bound to its lease
 *
 * Every value begins with a code that only those who know the job's key can make, over
 * its own key and the rest of the value. Values without it are not read. */
#ifndef GWG_ETCD_H
#define GWG_ETCD_H

#include "way.h"

/* ---- etcd_json.c --------------------------------------------------------------------
 */

/* A text that grows up to GWG_TEXT_MOST. It is never without a zero behind it. */
enum { GWG_TEXT_MOST = 1 << 22 };

typedef struct gwg_text {
    char *at;
    size_t len, cap;
    bool failed; /* it did not fit; nothing was added from then on */
} gwg_text;

void gwg_text_bytes(gwg_text *t, const void *bytes, size_t len);
void gwg_text_add(gwg_text *t, const char *format, ...) GW_PRINTF(2, 3);
void gwg_text_base64(gwg_text *t, const char *bytes, size_t len);
void gwg_text_free(gwg_text *t);

/* Called for each value with the names that lead to it, joined by dots, such as
 * "kvs.key"; elements of arrays have the array's name. The text of a value ends with a
 * zero and is valid during the call. For each object it is called with NULL first. */
typedef gw_status gwg_json_visit(void *arg, const char *path, const char *value);

/* Reads one value and changes the text. Whatever follows is left alone. GW_ERR_DATA, or
 * what visit returned. */
gw_status gwg_json_walk(char *text, gwg_json_visit *visit, void *arg);

/* Decodes base64 in place and puts a zero behind it. Returns the length, or -1. */
long gwg_base64_decode(char *text);

/* ---- etcd_http.c ------------------------------------------------------------------
 */

/* Reads an answer from all that has come so far. GW_PENDING: it is not whole yet.
 * GW_ERR_DATA: it is none. */
gw_status gwg_http_read(gwg_text *all, int *status, gwg_text *body);

typedef struct gwg_etcd gwg_etcd;

/* GW_ERR_NOMEM. */
gw_status gwg_etcd_open(gwg_etcd **out, const gwg_self *self);
void gwg_etcd_close(gwg_etcd *e);

/* Sends a request to one of the endpoints and waits for the answer, which is valid
 * until the next call. After a failure the next request goes to the next endpoint.
 * GW_ERR_PEER: nobody there, *refused says whether for sure. GW_ERR_DATA: etcd refuses
 * the request. */
gw_status gwg_etcd_post(gwg_etcd *e, const char *path, const gwg_text *request,
                        char **answer, bool *refused);

/* Watches all keys that begin with prefix, from a revision on, unless a watch is
 * there. */
void gwg_etcd_watch(gwg_etcd *e, const char *prefix, uint64_t revision);

/* Sleeps until something has changed, fd is readable or `seconds` have passed. Returns
 * whether something may have changed, which is also so if the watch has ended. */
bool gwg_etcd_sleep(gwg_etcd *e, int fd, double seconds);

/* The address from which the last request left. */
const char *gwg_etcd_local(const gwg_etcd *e);

/* ---- etcd_table.c -----------------------------------------------------------------
 */

typedef enum gwg_wait { GWG_WAIT_JOINED, GWG_WAIT_ASKS, GWG_WAIT_RUNS } gwg_wait;

typedef struct gwg_row {
    uint64_t token, id, changed; /* id: the revision that made it */
    uint64_t senior;             /* the first id that it got; 0: this one */
    uint64_t view;               /* the last that it was in */
    gwg_wait wait;
    gwg_terms terms;
    int port; /* 0: it only calls out */
    char host[GWG_HOST_CAP], name[GWG_MEMBER_NAME_CAP];
    bool reported;
    gw_group_progress progress;
} gwg_row;

typedef struct gwg_table {
    uint64_t revision; /* of etcd, as of which all this holds */
    gwg_row *rows;     /* in the order of ranks */
    int count, cap;
    uint64_t view;  /* the number of the last view; 0: none */
    gwg_row *seats; /* its members by rank: token, id, host, port, name */
    int seat_count;
} gwg_table;

void gwg_table_free(gwg_table *t);

/* Adds what is stored under a key: value is changed. Whatever is not ours is left out.
 * GW_ERR_NOMEM. */
gw_status gwg_table_add(gwg_table *t, const gwg_self *self, const char *key,
                        char *value, uint64_t created, uint64_t changed);

/* Brings the members into the order of ranks, once all are there. */
void gwg_table_sort(gwg_table *t);

gwg_row *gwg_table_find(const gwg_table *t, uint64_t token);

/* Returns whether `view`, which is the last one of the member with this token, is over
 * for it. */
bool gwg_table_is_over(const gwg_table *t, uint64_t view, int max);

/* Returns how many members ask, and 0 in *others only if all do. */
int gwg_table_asks(const gwg_table *t, int *others);

/* Returns whether so many of the members that ask can all talk to each other: two of
 * them that only call out need one that can be called. */
bool gwg_table_can_meet(const gwg_table *t, int count);

/* The member through which those talk that only call out; NULL: none is needed. */
const gwg_row *gwg_table_hub(const gwg_table *t);

/* Returns the rank of a member in the last view, or -1. */
int gwg_table_seat(const gwg_table *t, uint64_t token);

/* The oldest of all members; NULL: there is none. */
const gwg_row *gwg_table_oldest(const gwg_table *t);

/* Write keys, and values with their codes. */
void gwg_table_prefix(const gwg_self *self, gwg_text *key);
void gwg_table_member_key(const gwg_self *self, uint64_t token, gwg_text *key);
void gwg_table_report_key(const gwg_self *self, uint64_t token, gwg_text *key);
void gwg_table_view_key(const gwg_self *self, gwg_text *key);
gw_status gwg_table_seal(const gwg_self *self, const char *key, const char *value,
                         gwg_text *out);
void gwg_table_member(const gwg_row *row, gwg_text *value);
void gwg_table_report(const gw_group_progress *p, gwg_text *value);

/* The next view: the first `count` members that ask. If all of these only call out, the
 * first one that can be called takes the place of the last. */
void gwg_table_next(const gwg_table *t, int count, gwg_text *value);

/* ---- etcd_store.c
 * -------------------------------------------------------------------- */

typedef struct gwg_store {
    const gwg_self *self;
    gwg_etcd *etcd;
    gwg_table table; /* as it was looked at last */
    double looked;   /* when that was */
    bool changed;    /* it must be looked at again */
    gwg_text prefix, reports, key, report_key, view_key;
    gwg_text row;   /* the member's own, as etcd has it; empty: it has none */
    char lease[24]; /* "": none */
    double renewed;
} gwg_store;

/* A member that is not heard of for so long is gone. Only tests change it. */
extern int gwg_lease_seconds;

/* After a failure, close it all the same. GW_ERR_NOMEM. */
gw_status gwg_store_open(gwg_store *s, const gwg_self *self);
void gwg_store_close(gwg_store *s);

/* All of these call the endpoints one after the other until one answers. GW_ERR_PEER:
 * none does, and *refused says whether nobody is there at all. GW_ERR_DATA: etcd
 * refuses the request, or its answer cannot be used. GW_ERR_NOMEM. */

/* Takes a lease. */
gw_status gwg_store_lease(gwg_store *s, bool *refused);

/* Keeps the lease alive if it is time, or takes a new one if it has run out. */
gw_status gwg_store_renew(gwg_store *s);

/* Gives the lease back: all that is bound to it goes. */
void gwg_store_leave(gwg_store *s);

/* Takes a new lease and stores the row again next time. */
void gwg_store_forget(gwg_store *s);

/* Reads what all have stored, and their reports if that is wanted. */
gw_status gwg_store_look(gwg_store *s, bool reports, bool *refused);

/* Stores the member's row if it is not what etcd has. */
gw_status gwg_store_row(gwg_store *s, const gwg_row *row, bool *refused);
gw_status gwg_store_report(gwg_store *s, const gw_group_progress *progress);

/* Stores the next view, of the first `count` members that ask, unless any row has
 * changed since they were looked at. */
gw_status gwg_store_view(gwg_store *s, int count);

/* Takes away the row of a member, unless it has changed since it was looked at. */
gw_status gwg_store_drop(gwg_store *s, const gwg_row *row);

#endif
