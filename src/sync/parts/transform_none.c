/* SPDX-License-Identifier: Apache-2.0
 *
 * transform_none.c - coordinates are the parameters themselves. */
#include "sync/parts.h"

const gwi_transform gwi_transform_none = {.part = {.name = "none"}};
