/* SPDX-License-Identifier: Apache-2.0
 *
 * test_comm_table.c - what a comm makes of a caller's table: its own all-reduce,
 * tables of earlier versions, hosts, failing between collectives. */
#define _GNU_SOURCE
#include "support_ranks.h"

#include <string.h>

/* A transport that has nobody to talk to: two workers, of which this is one. */
typedef struct fake {
    size_t summed; /* floats given to allreduce */
    gw_status answer;
    int aborts;
    char reason[512];
} fake;

static gw_status fake_send(void *ctx, int to, const void *buf, size_t len,
                           gw_request *req)
{
    (void)ctx, (void)to, (void)buf, (void)len, (void)req;
    return gw_fail(GW_ERR_DATA, "nothing should be sent");
}

static gw_status fake_recv(void *ctx, int from, void *buf, size_t cap, gw_request *req)
{
    (void)ctx, (void)from, (void)buf, (void)cap, (void)req;
    return gw_fail(GW_ERR_DATA, "nothing should be received");
}

static gw_status fake_test(void *ctx, gw_request *req, size_t *len)
{
    (void)ctx, (void)req, (void)len;
    return GW_PENDING;
}

static const char *fake_host(void *ctx, int rank)
{
    (void)ctx;
    return rank == 0 ? "alpha" : "beta";
}

static void fake_abort(void *ctx, const char *reason)
{
    fake *f = ctx;

    f->aborts++;
    strncpy(f->reason, reason, sizeof f->reason - 1);
}

static gw_status fake_allreduce(void *ctx, float *x, size_t n)
{
    fake *f = ctx;

    f->summed += n;
    for (size_t i = 0; i < n; i++)
        x[i] *= 3;
    return f->answer == GW_OK ? GW_OK : gw_fail(f->answer, "the engine stalled");
}

static const gw_transport table = {.struct_size = sizeof table,
                                   .name = "fake",
                                   .send = fake_send,
                                   .recv = fake_recv,
                                   .test = fake_test,
                                   .host = fake_host,
                                   .abort = fake_abort,
                                   .allreduce = fake_allreduce};

static void test_own_allreduce(void **state)
{
    float x[10] = {1, 2, 3};
    fake f = {0};
    gw_comm *c;

    (void)state;
    assert_int_equal(gw_comm_new(&c, &table, &f, 0, 2, NULL), GW_OK);
    assert_int_equal(gw_allreduce(c, x, 10), GW_OK);
    assert_int_equal(f.summed, 10);
    assert_true(x[0] == 3 && x[1] == 6 && x[2] == 9);
    /* The least an all-reduce of two sends: half of the vector, twice. */
    assert_int_equal(gw_comm_traffic(c).bytes_sent, 10 * sizeof(float));
    assert_int_equal(gw_comm_link(c, "1gbit"), GW_ERR_ARG);
    f.answer = GW_ERR_SYSTEM;
    assert_int_equal(gw_allreduce(c, x, 10), GW_ERR_SYSTEM);
    assert_non_null(strstr(gw_error_message(), "the engine stalled"));
    assert_int_equal(f.aborts, 1);
    /* Broken is broken: the engine is not asked again. */
    assert_int_equal(gw_allreduce(c, x, 10), GW_ERR_SYSTEM);
    assert_int_equal(f.summed, 20);
    gw_comm_free(c);
}

static void test_one_worker_asks_nobody(void **state)
{
    float x[2] = {1, 2};
    fake f = {0};
    gw_comm *c;

    (void)state;
    assert_int_equal(gw_comm_new(&c, &table, &f, 0, 1, NULL), GW_OK);
    assert_int_equal(gw_allreduce(c, x, 2), GW_OK);
    assert_int_equal(f.summed, 0);
    assert_true(x[1] == 2);
    gw_comm_free(c);
}

/* A table that ends before the slot was added: what lies behind it is not read. */
static void test_earlier_table(void **state)
{
    gw_transport earlier = table;
    float x[2] = {1, 2};
    fake f = {0};
    gw_comm *c;

    (void)state;
    earlier.struct_size = offsetof(gw_transport, allreduce);
    assert_int_equal(gw_comm_new(&c, &earlier, &f, 0, 2, NULL), GW_OK);
    assert_int_equal(gw_allreduce(c, x, 2), GW_ERR_DATA);
    assert_int_equal(f.summed, 0);
    gw_comm_free(c);
    earlier.struct_size--;
    assert_int_equal(gw_comm_new(&c, &earlier, &f, 0, 2, NULL), GW_ERR_ARG);
    earlier.struct_size = sizeof earlier + 1;
    assert_int_equal(gw_comm_new(&c, &earlier, &f, 0, 2, NULL), GW_ERR_ARG);
}

static void test_failing_between(void **state)
{
    float x[2] = {1, 2};
    fake f = {0};
    gw_comm *c;

    (void)state;
    assert_int_equal(gw_comm_new(&c, &table, &f, 0, 2, NULL), GW_OK);
    (void)gw_fail(GW_ERR_NOMEM, "no memory for a batch");
    assert_int_equal(gw_comm_fail(c, GW_ERR_NOMEM), GW_ERR_NOMEM);
    assert_int_equal(f.aborts, 1);
    assert_string_equal(f.reason, "no memory for a batch");
    assert_int_equal(gw_comm_fail(c, GW_ERR_ARG), GW_ERR_ARG);
    assert_int_equal(f.aborts, 1);
    assert_int_equal(gw_allreduce(c, x, 2), GW_ERR_NOMEM);
    gw_comm_free(c);
}

static void test_hosts(void **state)
{
    fake f = {0};
    gw_comm *c;

    (void)state;
    assert_int_equal(gw_comm_new(&c, &table, &f, 0, 2, NULL), GW_OK);
    assert_string_equal(gw_comm_host(c, 1), "beta");
    assert_null(gw_comm_host(c, 2));
    assert_null(gw_comm_host(c, -1));
    gw_comm_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_allreduce),
        cmocka_unit_test(test_one_worker_asks_nobody),
        cmocka_unit_test(test_earlier_table),
        cmocka_unit_test(test_failing_between),
        cmocka_unit_test(test_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
