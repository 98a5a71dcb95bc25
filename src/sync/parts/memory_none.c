/* SPDX-License-Identifier: Apache-2.0
 *
 * memory_none.c - what is not sent is forgotten. */
#include "sync/parts.h"

const gwi_memory gwi_memory_none = {.part = {.name = "none"}};
