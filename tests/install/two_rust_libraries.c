/* Two Rust static libraries in one program: each has its own Rust runtime, and neither uses the
 * other's symbols. */
#include <stdint.h>
#include <stdio.h>
#include <ucxx_rs.h>

int32_t other_answer(void);

int main(void) {
  ucxx_version_t version = UCXX_VERSION_INIT;
  if (ucxx_version_query(&version) != UCXX_OK || other_answer() != 42) return 1;
  /* An error uses the library's formatting and its thread-local storage. */
  if (ucxx_version_query(NULL) != UCXX_ERR_INVALID_PARAM || ucxx_last_error_message()[0] == '\0')
    return 1;
  printf("two Rust libraries: ok\n");
  return 0;
}
