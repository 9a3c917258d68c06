/* The log: what UCXX_RS_LOG lets through, lines on stderr and to a callback, what each of them
 * names, mistakes in the variable, and lines that repeat. Each case is a child process. */
#include "test_util.h"

#include <sys/wait.h>
#include <unistd.h>

enum { BURST = 500, MOST_TEXT = 1 << 20, KNOWN = 7, UNKNOWN = 8, MOST_KEPT = 1000 };

typedef struct kept {
  ucxx_am_message_t *messages[MOST_KEPT];
  int count;
} kept_t;

/* ------------------------------------------------------------------ what the children do */

static void await_unhandled(const duo_t *duo, uint64_t count) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  do {
    duo_progress(duo);
    CHECK_OK(ucxx_worker_query_stats(duo->right, &stats));
  } while (stats.am_unhandled < count);
}

/* A connection, and so many messages without a handler, each of which is a line of level INFO. */
static void work(int messages) {
  duo_t duo;
  duo_open(&duo, NULL);
  duo_transfer(&duo, 1000, 1);
  for (int at = 0; at < messages; at++) {
    ucxx_request_t *request = NULL;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    ucxx_status_t status =
        ucxx_am_send(duo.to_right, UNKNOWN, NULL, 0, "data", 4, &params, &request);
    CHECK_OK(duo_finish(&duo, status, &request));
  }
  await_unhandled(&duo, (uint64_t)messages);
  duo_close(&duo);
}

/* A receiver keeps all messages until there is no credit left, and one send waits. */
static void keep(void *arg, ucxx_am_message_t *message) {
  kept_t *kept = arg;
  CHECK(kept->count < MOST_KEPT);
  kept->messages[kept->count++] = message;
}

static void exhaust(void) {
  static kept_t kept;
  duo_t duo;
  ucxx_request_t *waits = NULL;
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, KNOWN, keep, &kept, NULL));
  while (waits == NULL) {
    CHECK(ucxx_am_send(duo.to_right, KNOWN, NULL, 0, "data", 4, NULL, &waits) >= 0);
    for (int pass = 0; pass < 10; pass++) duo_progress(&duo);
    if (waits != NULL && ucxx_request_status(waits) == UCXX_OK) {
      ucxx_request_destroy(waits);
      waits = NULL;
    }
  }
  for (int at = 0; at < kept.count; at++) ucxx_am_message_destroy(kept.messages[at]);
  kept.count = 0;
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &waits));
  for (int at = 0; at < kept.count; at++) ucxx_am_message_destroy(kept.messages[at]);
  duo_close(&duo);
}

/* Prints what the callback gets, in the order of the lines on stderr. */
static void print(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg;
  printf("%d %s %s\n", (int)level, component, message);
}

static int child(const char *way) {
  if (way[0] == 'c') CHECK_OK(ucxx_log_set_callback(print, NULL, UCXX_LOG_ERROR));
  if (way[1] == 'X')
    exhaust();
  else
    work(way[1] == '1' ? 1 : BURST);
  /* The callback has gone: the environment decides again. */
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  if (way[0] == 'c') work(1);
  return 0;
}

/* ------------------------------------------------------------------ what the parent looks at */

typedef struct output {
  char *out, *err;
  pid_t pid;
} output_t;

static char *text_of(FILE *file) {
  char *text = test_alloc(MOST_TEXT);
  rewind(file);
  size_t length = fread(text, 1, MOST_TEXT - 1, file);
  CHECK(length < MOST_TEXT - 1);
  text[length] = '\0';
  fclose(file);
  return text;
}

/* Runs a child with the variable `name`. `way`: e for stderr or c for a callback, and 1, B
 * or X for one message, a burst, or messages until a send waits for credit. */
static output_t run(char **argv, const char *way, const char *name, const char *value) {
  STEP("%s %s=%s", way, name, value);
  FILE *files[2] = {tmpfile(), tmpfile()};
  output_t output;
  int status = 0;
  CHECK(files[0] != NULL && files[1] != NULL);
  fflush(NULL);
  output.pid = fork();
  CHECK(output.pid >= 0);
  if (output.pid == 0) {
    dup2(fileno(files[0]), STDOUT_FILENO);
    dup2(fileno(files[1]), STDERR_FILENO);
    unsetenv("UCXX_TEST_STEPS");
    unsetenv("UCXX_RS_LOG");
    unsetenv("UCXX_RS_LOG_LEVEL");
    if (name[0] != '\0') setenv(name, value, 1);
    execlp(argv[0], argv[0], way, (char *)NULL);
    _exit(127);
  }
  CHECK(waitpid(output.pid, &status, 0) == output.pid);
  output.out = text_of(files[0]);
  output.err = text_of(files[1]);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fprintf(stderr, "stdout:\n%sstderr:\n%s", output.out, output.err);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return output;
}

static void end(output_t *output) {
  free(output->out);
  free(output->err);
}

/* How often `part` is in the text. */
static int count(const char *text, const char *part) {
  int found = 0;
  for (; (text = strstr(text, part)) != NULL; text += strlen(part)) found++;
  return found;
}

static void check_empty(const char *text) {
  if (text[0] != '\0') fprintf(stderr, "printed:\n%s", text);
  CHECK_EQ(text[0], '\0');
}

/* Every line is complete: time, process, level, component, text. */
static void check_lines(const output_t *output) {
  char pid[32];
  snprintf(pid, sizeof pid, "%ld", (long)output->pid);
  for (const char *line = output->err; line[0] != '\0'; line = strchr(line, '\n') + 1) {
    int year, month, day, hour, minute, second, end = 0;
    char process[32], level[8], component[16];
    CHECK(strchr(line, '\n') != NULL);
    int found = sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%*6dZ %31s %7s %15s %n", &year, &month, &day,
                       &hour, &minute, &second, process, level, component, &end);
    CHECK_EQ(found, 9);
    CHECK(end > 0 && line[end] != '\n');
    CHECK(year >= 2024 && month >= 1 && month <= 12 && day >= 1 && day <= 31 && hour < 24);
    CHECK(strcmp(process, pid) == 0);
    CHECK(strstr("error warn info debug trace", level) != NULL);
  }
}

/* Lines that begin with this, after the time. */
static int count_lines(const char *text, const char *level, const char *component) {
  int lines = 0;
  for (const char *line = text; line[0] != '\0'; line = strchr(line, '\n') + 1) {
    char is_level[8], is_component[16];
    CHECK_EQ(sscanf(line, "%*s %*s %7s %15s", is_level, is_component), 2);
    lines += (level == NULL || strcmp(level, is_level) == 0) &&
             (component == NULL || strcmp(component, is_component) == 0);
  }
  return lines;
}

/* The sum of what "repeated N times" lines say. */
static int repeated(const char *text) {
  int sum = 0;
  while ((text = strstr(text, "repeated ")) != NULL) {
    text += strlen("repeated ");
    sum += atoi(text);
  }
  return sum;
}

/* ------------------------------------------------------------------ cases */

static void silence(char **argv) {
  static const char *const cases[][2] = {
      {"", ""}, {"UCXX_RS_LOG", ""}, {"UCXX_RS_LOG_LEVEL", "trace"}, {"UCXX_RS_LOG_LEVEL", "x"}};
  for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
    output_t output = run(argv, "e1", cases[at][0], cases[at][1]);
    check_empty(output.out);
    check_empty(output.err);
    end(&output);
  }
}

static void on_stderr(char **argv) {
  output_t output = run(argv, "e1", "UCXX_RS_LOG", "debug");
  char peer[64];
  check_empty(output.out);
  check_lines(&output);
  snprintf(peer, sizeof peer, "peer process %ld on this host (worker ", (long)output.pid);
  CHECK(count(output.err, "[worker 1] created") == 1 && count(output.err, "[worker 2]") > 0);
  CHECK(count(output.err, "[worker 1, endpoint 1, peer ") >= 2);
  CHECK(count(output.err, peer) > 0);
  CHECK(count(output.err, "] connected over ") > 0);
  CHECK(count(output.err, "] closed\n") > 0);
  CHECK_EQ(count(output.err, "no handler: id 8\n"), 1);
  CHECK(count(output.err, "] destroyed\n") >= 2);
  end(&output);
}

static void filter(char **argv) {
  output_t output = run(argv, "e1", "UCXX_RS_LOG", "error,am=info");
  check_lines(&output);
  CHECK_EQ(count_lines(output.err, NULL, NULL), 1);
  CHECK_EQ(count_lines(output.err, "info", "am"), 1);
  CHECK(count(output.err, "[worker 2, endpoint 1, peer process ") == 1);
  end(&output);
  output = run(argv, "e1", "UCXX_RS_LOG", "debug,am=off,endpoint=off");
  CHECK(count_lines(output.err, NULL, "worker") > 0);
  CHECK_EQ(count_lines(output.err, NULL, "am") + count_lines(output.err, NULL, "endpoint"), 0);
  end(&output);
  output = run(argv, "e1", "UCXX_RS_LOG", "off");
  check_empty(output.err);
  end(&output);
  /* Nothing is said of the other components: warnings. */
  output = run(argv, "e1", "UCXX_RS_LOG", "worker=debug");
  CHECK(count_lines(output.err, "debug", "worker") > 0);
  CHECK_EQ(count_lines(output.err, NULL, "am") + count_lines(output.err, NULL, "endpoint"), 0);
  end(&output);
}

static void mistakes(char **argv) {
  output_t output = run(argv, "e1", "UCXX_RS_LOG", "error,verbose,ma=debug,am=loud");
  check_lines(&output);
  CHECK_EQ(count_lines(output.err, "warn", "log"), 3);
  CHECK_EQ(count_lines(output.err, NULL, NULL), 3);
  CHECK(count(output.err, "\"verbose\" is ignored: the levels are off, error,") == 1);
  CHECK(count(output.err, "\"ma=debug\" is ignored: the components are worker,") == 1);
  end(&output);
  /* To the callback where there is one; once, although it is set twice. */
  output = run(argv, "c1", "UCXX_RS_LOG_LEVEL", "am=info,verbose");
  check_empty(output.err);
  CHECK_EQ(count(output.out, "2 log UCXX_RS_LOG_LEVEL: \"verbose\" is ignored"), 1);
  CHECK_EQ(count(output.out, "3 am ["), 1);
  end(&output);
}

static void to_callback(char **argv) {
  output_t output = run(argv, "c1", "UCXX_RS_LOG", "debug");
  /* What is on stderr was written after the callback had gone. */
  check_lines(&output);
  CHECK_EQ(count(output.out, "no handler: id 8\n"), 1);
  CHECK_EQ(count(output.out, "3 am [worker 2, endpoint 1, peer process "), 1);
  CHECK(count(output.out, "4 worker [worker 1] created") == 1);
  CHECK_EQ(count(output.out, "[worker 3]"), 0);
  CHECK(count(output.err, "[worker 3] created") == 1);
  CHECK_EQ(count(output.err, "[worker 1]"), 0);
  end(&output);
  /* As the program says. */
  output = run(argv, "c1", "", "");
  check_empty(output.err);
  CHECK_EQ(count(output.out, "no handler"), 0);
  end(&output);
}

static void credit(char **argv) {
  output_t output = run(argv, "eX", "UCXX_RS_LOG", "endpoint=debug,am=trace");
  check_lines(&output);
  CHECK_EQ(count(output.err, "[worker 1, endpoint 1, peer process "),
           count(output.err, "[worker 1, "));
  CHECK_EQ(count(output.err, "] sends wait: no credit, the peer keeps"), 1);
  CHECK_EQ(count(output.err, "] active message of 4 bytes waits\n"), 1);
  end(&output);
}

static void repeats(char **argv) {
  output_t output = run(argv, "eB", "UCXX_RS_LOG", "info,repeats=1");
  int lines = count(output.err, "no handler: id 8\n");
  int reports = count(output.err, "repeated "), held = repeated(output.err);
  check_lines(&output);
  CHECK(held > 0);
  CHECK(count(output.err, " times: [worker 2, endpoint 1, peer process ") == reports);
  /* A report quotes the line. */
  CHECK_EQ(lines - reports + held, BURST);
  end(&output);
  output = run(argv, "eB", "UCXX_RS_LOG", "info,repeats=all");
  CHECK_EQ(count(output.err, "no handler: id 8\n"), BURST);
  CHECK_EQ(count(output.err, "repeated "), 0);
  end(&output);
}

int main(int argc, char **argv) {
  test_begin("log_lines");
  if (argc == 2) return child(argv[1]);
  silence(argv);
  on_stderr(argv);
  filter(argv);
  mistakes(argv);
  to_callback(argv);
  credit(argv);
  repeats(argv);
  return 0;
}
