/* SPDX-License-Identifier: Apache-2.0
 *
 * methods.h - the methods there are. */
#ifndef GWI_METHODS_H
#define GWI_METHODS_H

#include "sync/sync.h"

extern const gwi_method gwi_method_dense;
extern const gwi_method gwi_method_none;

#endif
