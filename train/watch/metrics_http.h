/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics_http.h - answers one HTTP request for the text of metrics. */
#ifndef GWT_METRICS_HTTP_H
#define GWT_METRICS_HTTP_H

#include <stddef.h>

/* Reads a request from a connection that does not block, answers it and says goodbye.
 * It ends after two seconds at the latest, and at once when `wake` can be read. Nothing
 * that the other side does is an error. */
void gwt_http_answer(int connection, int wake, const char *text, size_t len);

#endif
