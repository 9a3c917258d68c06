/* For a test that ends its process in several ways. Each way is a child process, which must exit
 * with 0 and print nothing. */
#ifndef QUIET_CHILD_H
#define QUIET_CHILD_H

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <ucxx_rs.h>
#include <unistd.h>

/* Prints what is wrong and exits, unless `so`. */
static inline void require(bool so, const char *what) {
  if (so) return;
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
               ucxx_last_error_message());
  std::_Exit(1);
}

static inline void done(ucxx_status_t status, const char *what) { require(status >= 0, what); }

/* Runs the program with the way's number as its argument. */
static bool try_way(const char *program, int way) {
  char number[16], said[4096];
  std::snprintf(number, sizeof number, "%d", way);
  std::FILE *output = std::tmpfile();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(output), STDOUT_FILENO);
    dup2(fileno(output), STDERR_FILENO);
    execlp(program, program, number, static_cast<char *>(nullptr));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::rewind(output);
  const size_t length = std::fread(said, 1, sizeof said, output);
  std::fclose(output);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && length == 0) return true;
  std::fprintf(stderr, "way %d ended with %s %d and printed: %.*s\n", way,
               WIFEXITED(status) ? "status" : "signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), static_cast<int>(length),
               said);
  return false;
}

#endif
