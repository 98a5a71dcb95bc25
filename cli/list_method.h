/* SPDX-License-Identifier: Apache-2.0
 *
 * list_method.h - describes one method with what the library says about it, and prints
 * the sections of "gradwire list" for commands that explain themselves. */
#ifndef GWC_LIST_METHOD_H
#define GWC_LIST_METHOD_H

#include "gradwire.h"

/* Describes a recipe or stage, by its name, or a whole spec, on standard output as text
 * or as JSON. GW_ERR_SPEC: there is no such method; the message suggests a similar
 * name. */
gw_status gwc_list_method(const char *text, int json);

/* Prints a section of "gradwire list" by its key in the JSON, such as "optimizers". */
void gwc_list_section(const char *key);

#endif
