/* SPDX-License-Identifier: Apache-2.0
 *
 * enter.c - enters a view with a training. */
#include "group.h"

int gw_group_lost(gw_status status)
{
    return status == GW_ERR_PEER || status == GW_ERR_TIMEOUT;
}

void gw_training_end(gw_training *t)
{
    gw_sync_free(t->sync);
    gw_comm_free(t->comm);
    t->sync = NULL;
    t->comm = NULL;
}

/* A sync that was made, and could not enter, goes on to the next view like others. */
static gw_status bring_together(gw_training *t)
{
    gw_enter_options opt = {
        .struct_size = sizeof opt, .leaves = t->leaves, .hand = t->hand, .arg = t->arg};

    t->entry.struct_size = sizeof t->entry;
    if (t->sync == NULL)
        GWG_TRY(gw_sync_new(&t->sync, t->spec, t->layout, t->comm, t->options));
    return gw_sync_enter(&t->sync, t->comm, t->params, &opt, &t->entry);
}

gw_status gw_group_enter(gw_group *g, gw_training *t)
{
    gw_status st;

    if (t->struct_size != sizeof *t)
        return gw_fail(GW_ERR_ARG, "invalid gw_training");
    do {
        gw_comm_free(t->comm);
        t->comm = NULL;
        GWG_TRY(gw_group_next(g, &t->comm));
        st = bring_together(t);
    } while (gw_group_lost(st) ||
             (st == GW_OK && t->entry.leavers > 0 && !t->entry.left));
    return st;
}
