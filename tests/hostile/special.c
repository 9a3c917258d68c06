/* Obligations of the caller that types do not express. */
#include "hostile.h"

void polled(const ucxx_completion_t *completions, size_t count) {
  for (size_t at = 0; at < count; at++) {
    CHECK(completions[at].status != UCXX_INPROGRESS);
    CHECK((completions[at].handle != NULL) == (completions[at].kind != UCXX_EVENT_COMPLETION &&
                                               completions[at].kind != UCXX_EVENT_ENDPOINT_CLOSED));
    if (completions[at].kind == UCXX_EVENT_COMPLETION) {
      CHECK(completions[at].user_data != NULL);
      tell(completions[at].user_data);
    }
    if (completions[at].kind == UCXX_EVENT_CONN_REQUEST)
      ucxx_conn_request_destroy(completions[at].handle);
    if (completions[at].kind == UCXX_EVENT_AM_MESSAGE)
      ucxx_am_message_destroy(completions[at].handle);
    if (completions[at].kind == UCXX_EVENT_FETCH) ucxx_fetch_destroy(completions[at].handle);
  }
}

/*
 * In a group of one member start and wait concern the member itself. Without its post or complete
 * they would wait without end.
 */
enum { POSTED = 1, STARTED = 2, COMPLETED = 4 };

int may_start(slot_t *window, size_t count) {
  return count == 0 || window->exposure == POSTED || window->exposure & STARTED;
}

int may_wait(slot_t *window) { return window->exposure == 0 || window->exposure & COMPLETED; }

void exposure_changed(slot_t *window, const char *function, ucxx_status_t status, size_t count,
                      int32_t done) {
  if (window == NULL || status != UCXX_OK) return;
  if (strcmp(function, "post") == 0 && count > 0) window->exposure = POSTED;
  if (strcmp(function, "start") == 0 && count > 0) window->exposure |= STARTED;
  if (strcmp(function, "complete") == 0 && window->exposure & STARTED) window->exposure = COMPLETED;
  if (strcmp(function, "wait") == 0 || done) window->exposure = 0;
}
