/* Bad input: requests. See bad_input.h. */
#include "bad_input.h"

static ucxx_status_t try_wait_any(ucxx_request_t *const *requests, size_t count) {
  size_t index = 77;
  ucxx_status_t status = ucxx_request_wait_any(requests, count, FOR_EVER, &index);
  if (status < 0) CHECK_EQ(index, 77);
  return status;
}

/* With manual progress one call progresses one worker only. */
static ucxx_status_t wait_any_two_workers(fixture_t *f) {
  uint64_t word = 0;
  ucxx_request_t *requests[2] = {f->pending, NULL};
  CHECK_STATUS(
      ucxx_tag_recv(f->duo.right, &word, sizeof word, 0x7a7a, UINT64_MAX, NULL, &requests[1]),
      UCXX_INPROGRESS);
  ucxx_status_t status = try_wait_any(requests, 2);
  /* No send matched it, so it completes at once. Querying its status would replace the message to
   * be checked. */
  CHECK_OK(ucxx_request_cancel(requests[1]));
  ucxx_request_destroy(requests[1]);
  return status;
}

#define BAD_INPUT_ROWS "bad_input_request.inc"
#define BAD_INPUT_TABLE bad_input_request
#include "bad_input_table.h"
