/* SPDX-License-Identifier: Apache-2.0
 *
 * etcd_table.c - what a job has stored in etcd. Every member reads the same table and
 * draws the same conclusions, so no one of them is in charge. */
#define _GNU_SOURCE
#include "etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls.h"

enum { MOST_WORKERS = 1024, CODE_LEN = 2 * GWG_MAC_LEN };

static const char *const wait_names[] = {"joined", "asks", "runs"};

/* ---- keys, and values with their codes ---------------------------------------------
 */

void gwg_table_prefix(const gwg_self *self, gwg_text *key)
{
    gwg_text_add(key, "/gradwire/%s/", self->job);
}

void gwg_table_member_key(const gwg_self *self, uint64_t token, gwg_text *key)
{
    gwg_text_add(key, "/gradwire/%s/member/%016" PRIx64, self->job, token);
}

void gwg_table_report_key(const gwg_self *self, uint64_t token, gwg_text *key)
{
    gwg_text_add(key, "/gradwire-report/%s/%016" PRIx64, self->job, token);
}

void gwg_table_view_key(const gwg_self *self, gwg_text *key)
{
    gwg_text_add(key, "/gradwire/%s/view", self->job);
}

/* The code is over the key, a zero, and the value. */
static gw_status make_code(const gwg_self *self, const char *key, const char *value,
                           char code[CODE_LEN + 1])
{
    unsigned char mac[GWG_MAC_LEN];
    gwg_text all = {0};
    gw_status st;

    gwg_text_bytes(&all, key, strlen(key) + 1);
    gwg_text_bytes(&all, value, strlen(value));
    st = all.failed ? gw_fail(GW_ERR_NOMEM, "not enough memory for a code")
                    : gwg_tls_mac(self->tls, "etcd", all.at, all.len, mac);
    gwg_text_free(&all);
    for (size_t i = 0; st == GW_OK && i < sizeof mac; i++)
        snprintf(code + 2 * i, 3, "%02x", mac[i]);
    return st;
}

gw_status gwg_table_seal(const gwg_self *self, const char *key, const char *value,
                         gwg_text *out)
{
    char code[CODE_LEN + 1];

    GWG_TRY(make_code(self, key, value, code));
    gwg_text_add(out, "%s ", code);
    gwg_text_bytes(out, value, strlen(value));
    return GW_OK;
}

/* Returns what follows the code, or NULL if it was made by somebody without the key. */
static char *unseal(const gwg_self *self, const char *key, char *value)
{
    char code[CODE_LEN + 1];

    if (strlen(value) <= CODE_LEN || value[CODE_LEN] != ' ' ||
        make_code(self, key, value + CODE_LEN + 1, code) != GW_OK ||
        !gwg_tls_same(code, value, CODE_LEN))
        return NULL;
    return value + CODE_LEN + 1;
}

/* ---- values
 * --------------------------------------------------------------------------
 */

void gwg_table_member(const gwg_row *r, gwg_text *value)
{
    gwg_text_add(value, "member 2 %d %d %d %d %d %s %s %s %" PRIu64 " %" PRIu64,
                 r->terms.min, r->terms.max, r->terms.plain, r->terms.streams, r->port,
                 r->host, r->name, wait_names[r->wait], r->view, r->senior);
}

static bool read_member(const char *value, gwg_row *r)
{
    char wait[8];
    int used = 0;

    if (sscanf(value,
               "member 2 %d %d %d %d %d %255s %63s %7s %" SCNu64 " %" SCNu64 "%n",
               &r->terms.min, &r->terms.max, &r->terms.plain, &r->terms.streams,
               &r->port, r->host, r->name, wait, &r->view, &r->senior, &used) != 10 ||
        value[used] != '\0' || r->terms.min < 1 || r->terms.max < r->terms.min ||
        r->terms.max > MOST_WORKERS || r->port < 0 || r->port > 65535)
        return false;
    for (int i = 0; i < 3; i++)
        if (strcmp(wait, wait_names[i]) == 0) {
            r->wait = (gwg_wait)i;
            return true;
        }
    return false;
}

void gwg_table_report(const gw_group_progress *p, gwg_text *value)
{
    gwg_text_add(value, "report %" PRIu64 " %" PRIu64 " %.6g %.6g %" PRIu64, p->step,
                 p->steps, p->loss, p->samples, p->bytes_sent);
}

static bool read_report(const char *value, gw_group_progress *p)
{
    *p = (gw_group_progress){.struct_size = sizeof *p};
    return sscanf(value, "report %" SCNu64 " %" SCNu64 " %lf %lf %" SCNu64, &p->step,
                  &p->steps, &p->loss, &p->samples, &p->bytes_sent) == 5;
}

/* The row that gets a seat after row i, which may be -1; the count of rows if none
 * does.
 */
static int next_that_asks(const gwg_table *t, int i)
{
    do
        i++;
    while (i < t->count && t->rows[i].wait != GWG_WAIT_ASKS);
    return i;
}

/* The first one that can be called, if the first `count` that ask cannot talk to each
 * other: it takes the place of the last of them. -1: nobody has to, or can. */
static int find_substitute(const gwg_table *t, int count)
{
    int i = -1, seated = 0;

    while ((i = next_that_asks(t, i)) < t->count) {
        if (t->rows[i].port > 0)
            return seated >= count && count > 1 ? i : -1;
        seated++;
    }
    return -1;
}

void gwg_table_next(const gwg_table *t, int count, gwg_text *value)
{
    int last = find_substitute(t, count), i = -1;
    uint64_t view = t->view;

    for (int k = 0; k < t->count; k++)
        view = t->rows[k].view > view ? t->rows[k].view : view;
    gwg_text_add(value, "view %" PRIu64 " %d", view + 1, count);
    for (int rank = 0; rank < count; rank++) {
        i = rank == count - 1 && last >= 0 ? last : next_that_asks(t, i);
        if (i >= t->count)
            return;
        const gwg_row *r = &t->rows[i];
        gwg_text_add(value, "\n%016" PRIx64 " %" PRIu64 " %s %d %s", r->token, r->id,
                     r->host, r->port, r->name);
    }
}

static bool read_seat(const char *line, gwg_row *r)
{
    return sscanf(line, "%" SCNx64 " %" SCNu64 " %255s %d %63s", &r->token, &r->id,
                  r->host, &r->port, r->name) == 5 &&
           r->port >= 0 && r->port <= 65535;
}

static gw_status read_view(gwg_table *t, char *value)
{
    uint64_t view;
    int count, seated = 0;
    char *line, *rest = value;

    line = strsep(&rest, "\n");
    if (sscanf(line, "view %" SCNu64 " %d", &view, &count) != 2 || count < 1 ||
        count > MOST_WORKERS || view == 0 || view > INT64_MAX)
        return GW_OK;
    gwg_row *seats = calloc((size_t)count, sizeof *seats);
    if (seats == NULL)
        return gw_fail(GW_ERR_NOMEM, "not enough memory for %d members", count);
    while (seated < count && (line = strsep(&rest, "\n")) != NULL &&
           read_seat(line, &seats[seated]))
        seated++;
    if (seated < count) {
        free(seats);
        return GW_OK;
    }
    free(t->seats);
    t->seats = seats;
    t->seat_count = count;
    t->view = view;
    return GW_OK;
}

/* ---- the table
 * ------------------------------------------------------------------------
 */

void gwg_table_free(gwg_table *t)
{
    free(t->rows);
    free(t->seats);
    *t = (gwg_table){0};
}

static gw_status add_row(gwg_table *t, const gwg_row *row)
{
    if (t->count == MOST_WORKERS)
        return GW_OK;
    if (t->count == t->cap) {
        int cap = t->cap > 0 ? 2 * t->cap : 8;
        gwg_row *more = realloc(t->rows, (size_t)cap * sizeof *more);
        if (more == NULL)
            return gw_fail(GW_ERR_NOMEM, "not enough memory for %d members", cap);
        t->rows = more;
        t->cap = cap;
    }
    t->rows[t->count++] = *row;
    return GW_OK;
}

/* The token at the end of a key. */
static bool ends_with_token(const char *key, uint64_t *token)
{
    const char *slash = strrchr(key, '/');
    int used = 0;

    return slash != NULL && strlen(slash + 1) == 16 &&
           sscanf(slash + 1, "%16" SCNx64 "%n", token, &used) == 1 && used == 16;
}

gw_status gwg_table_add(gwg_table *t, const gwg_self *self, const char *key,
                        char *value, uint64_t created, uint64_t changed)
{
    gwg_row row = {.id = created, .changed = changed};
    gw_group_progress progress;
    char *rest = unseal(self, key, value);

    if (rest == NULL)
        return GW_OK;
    if (strncmp(rest, "view ", 5) == 0)
        return read_view(t, rest);
    if (!ends_with_token(key, &row.token))
        return GW_OK;
    gwg_row *known = gwg_table_find(t, row.token);
    if (known != NULL && read_report(rest, &progress)) {
        known->progress = progress;
        known->reported = true;
    }
    return known == NULL && read_member(rest, &row) ? add_row(t, &row) : GW_OK;
}

static uint64_t senior_of(const gwg_row *r)
{
    return r->senior > 0 ? r->senior : r->id;
}

/* Those who have been in a view, then those who joined first. */
static int compare_rows(const void *left, const void *right)
{
    const gwg_row *a = left, *b = right;

    if ((a->view > 0) != (b->view > 0))
        return a->view > 0 ? -1 : 1;
    if (senior_of(a) != senior_of(b))
        return senior_of(a) < senior_of(b) ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

void gwg_table_sort(gwg_table *t)
{
    if (t->count > 0)
        qsort(t->rows, (size_t)t->count, sizeof *t->rows, compare_rows);
}

gwg_row *gwg_table_find(const gwg_table *t, uint64_t token)
{
    for (int i = 0; i < t->count; i++)
        if (t->rows[i].token == token)
            return &t->rows[i];
    return NULL;
}

int gwg_table_seat(const gwg_table *t, uint64_t token)
{
    for (int i = 0; i < t->seat_count; i++)
        if (t->seats[i].token == token)
            return i;
    return -1;
}

const gwg_row *gwg_table_oldest(const gwg_table *t)
{
    const gwg_row *oldest = NULL;

    for (int i = 0; i < t->count; i++)
        if (oldest == NULL || t->rows[i].id < oldest->id)
            oldest = &t->rows[i];
    return oldest;
}

/* ---- conclusions
 * ----------------------------------------------------------------------
 */

/* A member that has a seat in the last view and has not noticed yet still asks for
 * it, by its number. */
static bool has_unread_seat(const gwg_table *t, const gwg_row *r)
{
    return r->view < t->view && gwg_table_seat(t, r->token) >= 0;
}

int gwg_table_asks(const gwg_table *t, int *others)
{
    int asks = 0;

    for (int i = 0; i < t->count; i++)
        asks += t->rows[i].wait == GWG_WAIT_ASKS && !has_unread_seat(t, &t->rows[i]);
    *others = t->count - asks;
    return asks;
}

bool gwg_table_can_meet(const gwg_table *t, int count)
{
    int i = next_that_asks(t, -1);

    for (int seated = 0; count > 1 && seated < count; seated++) {
        if (i >= t->count || t->rows[i].port > 0)
            return true;
        i = next_that_asks(t, i);
    }
    return count < 2 || find_substitute(t, count) >= 0;
}

const gwg_row *gwg_table_hub(const gwg_table *t)
{
    const gwg_row *hub = NULL;
    int out_only = 0;

    for (int i = t->count - 1; i >= 0; i--)
        if (t->rows[i].wait == GWG_WAIT_RUNS) {
            out_only += t->rows[i].port == 0;
            hub = t->rows[i].port > 0 ? &t->rows[i] : hub;
        }
    return out_only > 1 ? hub : NULL;
}

static bool member_has_left(const gwg_table *t, uint64_t token)
{
    const gwg_row *r = gwg_table_find(t, token);

    return r == NULL || (r->wait != GWG_WAIT_RUNS && r->view >= t->view);
}

bool gwg_table_is_over(const gwg_table *t, uint64_t view, int max)
{
    if (view == 0 || t->view < view)
        return false;
    if (t->view > view)
        return true;
    for (int i = 0; i < t->seat_count; i++)
        if (member_has_left(t, t->seats[i].token))
            return true;
    /* Somebody new ends a view only if there is room in the next one. */
    for (int i = 0; i < t->count && t->count <= max; i++)
        if (t->rows[i].wait == GWG_WAIT_ASKS && gwg_table_seat(t, t->rows[i].token) < 0)
            return true;
    return false;
}
