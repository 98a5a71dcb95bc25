/* SPDX-License-Identifier: Apache-2.0
 *
 * data_places.h - finds the files of data sets. */
#ifndef GWT_DATA_PLACES_H
#define GWT_DATA_PLACES_H

#include "data/data.h"

/* A data set that has a directory of its own. */
typedef struct gwt_place {
    const char *name;
    const char *mark;   /* the file by which its directory is recognised, or that
                           with .gz */
    const char *also;   /* another name of the directory, or NULL */
    const char *system; /* where a package puts it, or NULL */
} gwt_place;

extern const gwt_place gwt_place_fashion, gwt_place_mnist, gwt_place_cifar10;
extern const gwt_place gwt_place_ptb, gwt_place_multi30k;

/* Writes to base (GWT_PATH_CAP bytes) where data sets of the user are kept:
 * $GRADWIRE_DATA, or $XDG_DATA_HOME/gradwire, or ~/.local/share/gradwire. Empty if
 * there is no home. */
void gwt_data_base(char base[GWT_PATH_CAP]);

/* Finds the directory. If data_dir is given, searches it and the directories in it;
 * otherwise searches $GRADWIRE_DATA, the user's directory and the system's. The message
 * of GW_ERR_SYSTEM says where it was searched for, and ends with `get`, how to get
 * it. */
gw_status gwt_data_search(const gwt_place *place, const char *data_dir, const char *get,
                          char path[GWT_PATH_CAP]);

#endif
