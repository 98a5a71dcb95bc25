/* SPDX-License-Identifier: Apache-2.0
 *
 * list_method.h - all that the library tells about one method, and the sections of
 * "gradwire list" for commands that explain themselves. */
#ifndef GWC_LIST_METHOD_H
#define GWC_LIST_METHOD_H

#include "gradwire.h"

/* Prints to standard output what is known of a recipe or stage, by its name, or of a
 * whole spec, as text or as JSON. GW_ERR_SPEC: there is none; the message says which
 * was probably meant. */
gw_status gwc_list_method(const char *text, int json);

/* Prints a section of "gradwire list" by its key in the JSON, such as "optimizers". */
void gwc_list_section(const char *key);

#endif
