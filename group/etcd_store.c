/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd_store.c - a member's lease, its row and its report, the rows of all, and views:
 * one request to etcd each. */
#define _GNU_SOURCE
#include "etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An endpoint that hangs costs three seconds of it. */
int gwg_lease_seconds = 9;
#define RENEW_SECONDS 2.0

/* ---- requests -------------------------------------------------------------------- */

/* Calls the endpoints one after the other until one answers. GW_ERR_PEER: none does;
 * *refused: there is nobody at any of them. */
static gw_status post(gwg_store *s, const char *path, const gwg_text *request,
                      char **answer, bool *refused)
{
    bool one;
    gw_status st = GW_ERR_PEER;

    *refused = true;
    for (int i = 0; i < s->self->meeting_count && st == GW_ERR_PEER; i++) {
        st = gwg_etcd_post(s->etcd, path, request, answer, &one);
        *refused = *refused && one;
    }
    return st;
}

/* One value of an answer. */
typedef struct wanted {
    const char *path;
    char *value;
    size_t cap;
} wanted;

static gw_status take_wanted(void *arg, const char *path, const char *value)
{
    wanted *want = arg;

    if (value != NULL && strcmp(path, want->path) == 0)
        snprintf(want->value, want->cap, "%s", value);
    return GW_OK;
}

/* Sends a request and takes one value of its answer: "" if it is not there. */
static gw_status ask(gwg_store *s, const char *path, gwg_text *request,
                     const char *what, char *value, size_t cap, bool *refused)
{
    wanted want = {what, value, cap};
    char *answer;
    gw_status st = post(s, path, request, &answer, refused);

    gwg_text_free(request);
    value[0] = '\0';
    return st == GW_OK ? gwg_json_walk(answer, take_wanted, &want) : st;
}

static void add_pair(gwg_text *request, const char *key, const gwg_text *value,
                     const char *lease)
{
    gwg_text_add(request, "{\"key\":\"");
    gwg_text_base64(request, key, strlen(key));
    gwg_text_add(request, "\",\"value\":\"");
    gwg_text_base64(request, value->at, value->len);
    gwg_text_add(request, "\"%s%s%s}", lease != NULL ? ",\"lease\":\"" : "",
                 lease != NULL ? lease : "", lease != NULL ? "\"" : "");
    request->failed = request->failed || value->failed;
}

static gw_status put(gwg_store *s, const char *key, const char *value, bool *refused)
{
    gwg_text sealed = {0}, request = {0};
    char revision[24];
    gw_status st = gwg_table_seal(s->self, key, value, &sealed);

    if (st == GW_OK) {
        add_pair(&request, key, &sealed, s->lease);
        st = ask(s, "/v3/kv/put", &request, "header.revision", revision,
                 sizeof revision, refused);
    }
    gwg_text_free(&sealed);
    return st;
}

/* ---- the lease ------------------------------------------------------------------- */

gw_status gwg_store_lease(gwg_store *s, bool *refused)
{
    gwg_text request = {0};
    char lease[sizeof s->lease];

    gwg_text_add(&request, "{\"TTL\":\"%d\"}", gwg_lease_seconds);
    GWG_TRY(ask(s, "/v3/lease/grant", &request, "ID", lease, sizeof lease, refused));
    if (lease[0] == '\0' || strspn(lease, "0123456789-") != strlen(lease))
        return gw_fail(GW_ERR_DATA, "etcd gives no lease");
    memcpy(s->lease, lease, sizeof lease);
    s->renewed = gwg_now();
    s->row.len = 0;
    return GW_OK;
}

/* A lease that has run out is taken anew, and the row is stored again. */
gw_status gwg_store_renew(gwg_store *s)
{
    gwg_text request = {0};
    char left[24];
    bool refused;

    if (s->lease[0] != '\0' && gwg_now() - s->renewed < RENEW_SECONDS)
        return GW_OK;
    if (s->lease[0] != '\0') {
        gwg_text_add(&request, "{\"ID\":\"%s\"}", s->lease);
        GWG_TRY(ask(s, "/v3/lease/keepalive", &request, "result.TTL", left, sizeof left,
                    &refused));
        s->renewed = gwg_now();
        if (atol(left) > 0)
            return GW_OK;
    }
    s->changed = true;
    return gwg_store_lease(s, &refused);
}

void gwg_store_leave(gwg_store *s)
{
    gwg_text request = {0};
    char none[2];
    bool refused;

    if (s->lease[0] == '\0')
        return;
    gwg_text_add(&request, "{\"ID\":\"%s\"}", s->lease);
    (void)ask(s, "/v3/lease/revoke", &request, "", none, sizeof none, &refused);
}

/* ---- the rows -------------------------------------------------------------------- */

/* What is known of the key that is being read. */
typedef struct reading {
    gwg_table *table;
    const gwg_self *self;
    gwg_text key, value;
    uint64_t created, changed;
} reading;

static gw_status end_pair(reading *r)
{
    gw_status st = GW_OK;

    if (r->key.len > 0 && r->value.len > 0 && !r->key.failed && !r->value.failed)
        st = gwg_table_add(r->table, r->self, r->key.at, r->value.at, r->created,
                           r->changed);
    r->key.len = r->value.len = 0;
    return st;
}

static void keep(gwg_text *t, const char *value)
{
    t->len = 0;
    gwg_text_bytes(t, value, strlen(value));
    long n = t->failed ? -1 : gwg_base64_decode(t->at);
    /* Our own values have no zeros. */
    t->len = n > 0 && strlen(t->at) == (size_t)n ? (size_t)n : 0;
}

static gw_status take_pair(void *arg, const char *path, const char *value)
{
    reading *r = arg;

    if (value == NULL)
        return strcmp(path, "kvs") == 0 ? end_pair(r) : GW_OK;
    if (strcmp(path, "header.revision") == 0)
        r->table->revision = strtoull(value, NULL, 10);
    else if (strcmp(path, "kvs.key") == 0)
        keep(&r->key, value);
    else if (strcmp(path, "kvs.value") == 0)
        keep(&r->value, value);
    else if (strcmp(path, "kvs.create_revision") == 0)
        r->created = strtoull(value, NULL, 10);
    else if (strcmp(path, "kvs.mod_revision") == 0)
        r->changed = strtoull(value, NULL, 10);
    return GW_OK;
}

/* Adds all that is stored under a prefix, which ends with '/'. */
static gw_status read_prefix(gwg_store *s, const gwg_text *prefix, bool *refused)
{
    reading r = {.table = &s->table, .self = s->self};
    gwg_text request = {0}, end = {0};
    char *answer;
    gw_status st;

    gwg_text_bytes(&end, prefix->at, prefix->len - 1);
    gwg_text_add(&end, "0"); /* follows '/' */
    gwg_text_add(&request, "{\"key\":\"");
    gwg_text_base64(&request, prefix->at, prefix->len);
    gwg_text_add(&request, "\",\"range_end\":\"");
    gwg_text_base64(&request, end.at, end.len);
    gwg_text_add(&request, "\"}");
    st = post(s, "/v3/kv/range", &request, &answer, refused);
    if (st == GW_OK)
        st = gwg_json_walk(answer, take_pair, &r);
    if (st == GW_OK)
        st = end_pair(&r);
    gwg_text_free(&request);
    gwg_text_free(&end);
    gwg_text_free(&r.key);
    gwg_text_free(&r.value);
    return st;
}

gw_status gwg_store_look(gwg_store *s, bool reports, bool *refused)
{
    gwg_table_free(&s->table);
    GWG_TRY(read_prefix(s, &s->prefix, refused));
    if (reports)
        GWG_TRY(read_prefix(s, &s->reports, refused));
    gwg_table_sort(&s->table);
    s->looked = gwg_now();
    return GW_OK;
}

/* ---- storing --------------------------------------------------------------------- */

gw_status gwg_store_row(gwg_store *s, const gwg_row *row, bool *refused)
{
    gwg_text value = {0};
    gw_status st = GW_OK;

    gwg_table_member(row, &value);
    if (value.failed)
        st = gw_fail(GW_ERR_NOMEM, "not enough memory for a row");
    if (st == GW_OK && (s->row.len == 0 || strcmp(value.at, s->row.at) != 0)) {
        st = put(s, s->key.at, value.at, refused);
        s->row.len = 0;
        if (st == GW_OK)
            gwg_text_bytes(&s->row, value.at, value.len);
    }
    gwg_text_free(&value);
    return st;
}

gw_status gwg_store_report(gwg_store *s, const gw_group_progress *progress)
{
    gwg_text value = {0};
    bool refused;

    gwg_table_report(progress, &value);
    gw_status st = value.failed ? gw_fail(GW_ERR_NOMEM, "not enough memory to report")
                                : put(s, s->report_key.at, value.at, &refused);
    gwg_text_free(&value);
    return st;
}

gw_status gwg_store_view(gwg_store *s, int count)
{
    gwg_text value = {0}, sealed = {0}, request = {0};
    char end[GWG_JOB_CAP + 16], done[8];
    bool refused;
    gw_status st;

    snprintf(end, sizeof end, "/gradwire/%s0", s->self->job);
    gwg_table_next(&s->table, count, &value);
    gwg_text_add(&request,
                 "{\"compare\":[{\"target\":\"MOD\",\"result\":\"LESS\","
                 "\"mod_revision\":\"%" PRIu64 "\",\"key\":\"",
                 s->table.revision + 1);
    gwg_text_base64(&request, s->prefix.at, s->prefix.len);
    gwg_text_add(&request, "\",\"range_end\":\"");
    gwg_text_base64(&request, end, strlen(end));
    gwg_text_add(&request, "\"}],\"success\":[{\"request_put\":");
    st = value.failed ? gw_fail(GW_ERR_NOMEM, "not enough memory for a view")
                      : gwg_table_seal(s->self, s->view_key.at, value.at, &sealed);
    if (st == GW_OK) {
        add_pair(&request, s->view_key.at, &sealed, NULL);
        gwg_text_add(&request, "}]}");
        st = ask(s, "/v3/kv/txn", &request, "succeeded", done, sizeof done, &refused);
    }
    gwg_text_free(&request);
    gwg_text_free(&value);
    gwg_text_free(&sealed);
    s->changed = true;
    return st;
}

gw_status gwg_store_drop(gwg_store *s, const gwg_row *row)
{
    gwg_text key = {0}, request = {0};
    char done[8];
    bool refused;

    gwg_table_member_key(s->self, row->token, &key);
    gwg_text_add(&request,
                 "{\"compare\":[{\"target\":\"MOD\",\"result\":\"EQUAL\","
                 "\"mod_revision\":\"%" PRIu64 "\",\"key\":\"",
                 row->changed);
    gwg_text_base64(&request, key.at, key.len);
    gwg_text_add(&request, "\"}],\"success\":[{\"request_delete_range\":{\"key\":\"");
    gwg_text_base64(&request, key.at, key.len);
    gwg_text_add(&request, "\"}}]}");
    gwg_text_free(&key);
    s->changed = true;
    return ask(s, "/v3/kv/txn", &request, "succeeded", done, sizeof done, &refused);
}

/* ---- opening and closing ------------------------------------------------------------
 */

gw_status gwg_store_open(gwg_store *s, const gwg_self *self)
{
    *s = (gwg_store){.self = self};
    gwg_table_prefix(self, &s->prefix);
    gwg_text_add(&s->reports, "/gradwire-report/%s/", self->job);
    gwg_table_member_key(self, self->token, &s->key);
    gwg_table_report_key(self, self->token, &s->report_key);
    gwg_table_view_key(self, &s->view_key);
    if (s->prefix.failed || s->reports.failed || s->key.failed ||
        s->report_key.failed || s->view_key.failed)
        return gw_fail(GW_ERR_NOMEM, "not enough memory to call etcd");
    return gwg_etcd_open(&s->etcd, self);
}

void gwg_store_forget(gwg_store *s)
{
    s->lease[0] = '\0';
    s->row.len = 0;
}

void gwg_store_close(gwg_store *s)
{
    gwg_etcd_close(s->etcd);
    gwg_table_free(&s->table);
    gwg_text_free(&s->prefix);
    gwg_text_free(&s->reports);
    gwg_text_free(&s->key);
    gwg_text_free(&s->report_key);
    gwg_text_free(&s->view_key);
    gwg_text_free(&s->row);
}
