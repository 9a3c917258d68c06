/* UCX reads and prints numbers as the locale writes them. In a locale with a decimal comma the
 * library still reads and prints the configuration with a point, and leaves the locale
 * unchanged. */
#include "test_util.h"

#include <ftw.h>
#include <limits.h>
#include <locale.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[PATH_MAX];
static const char *name = "de_DE.UTF-8";

/* A locale that has a comma and otherwise equals POSIX. */
static const char SOURCE[] =
    "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n"
    "LC_CTYPE\ncopy \"POSIX\"\nEND LC_CTYPE\nLC_COLLATE\ncopy \"POSIX\"\nEND LC_COLLATE\n"
    "LC_MONETARY\ncopy \"POSIX\"\nEND LC_MONETARY\nLC_TIME\ncopy \"POSIX\"\nEND LC_TIME\n"
    "LC_MESSAGES\ncopy \"POSIX\"\nEND LC_MESSAGES\n";

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *at) {
  (void)status, (void)kind, (void)at;
  return remove(path);
}

/* In a temporary folder. */
static void make_locale(void) {
  char source[PATH_MAX + 32], path[PATH_MAX + 32];
  const char *place = getenv("TMPDIR");
  int status = -1;
  snprintf(folder, sizeof folder, "%s/decimal_comma_XXXXXX", place ? place : "/tmp");
  CHECK(mkdtemp(folder) != NULL);
  name = "comma";
  snprintf(source, sizeof source, "%s/source", folder);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(source, "w");
  CHECK(file && fputs(SOURCE, file) >= 0 && fclose(file) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
    execlp("localedef", "localedef", "--no-archive", "-c", "-i", source, "-f", "ANSI_X3.4-1968",
           path, (char *)NULL);
    _exit(127);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  setenv("LOCPATH", folder, 1);
}

/* Makes it the process's locale, and returns it as a locale for a thread. */
static locale_t choose_locale(void) {
  const char *found = setlocale(LC_NUMERIC, name);
  if (!found) {
    make_locale();
    found = setlocale(LC_NUMERIC, name);
  }
  const locale_t locale = found ? newlocale(LC_NUMERIC_MASK, name, (locale_t)0) : (locale_t)0;
  if (folder[0]) nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  if (!found) test_skip("there is no locale de_DE.UTF-8, and localedef makes none");
  CHECK(locale != (locale_t)0);
  return locale;
}

static void check_comma(void) {
  char text[16];
  snprintf(text, sizeof text, "%.1f", 1.5);
  CHECK(strcmp(text, "1,5") == 0);
}

typedef struct told {
  char text[1 << 16];
  size_t length;
} told_t;

static void visit(void *arg, const char *key, const char *value) {
  told_t *told = arg;
  told->length += (size_t)snprintf(told->text + told->length, sizeof told->text - told->length,
                                   "%s=%s\n", key, value);
  CHECK(told->length < sizeof told->text);
}

/* Creates a context on each side whose configuration has a number with a point, and sends a
 * message. */
static void use(told_t *told) {
  const ucxx_config_entry_t entries[] = {{"KEEPALIVE_INTERVAL", "1.5s"},
                                         {"BCOPY_BW", "5500.5MBps"}};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *request = NULL;
  uint64_t sent = 7, received = 0;
  params.config = entries;
  params.config_count = sizeof entries / sizeof *entries;
  CHECK_OK(ucxx_context_create(&params, &context));
  told->length = 0;
  CHECK_OK(ucxx_context_visit_config(context, visit, told));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  CHECK_OK(ucxx_worker_address(worker, &address));
  CHECK_OK(ucxx_endpoint_create(worker, address, NULL, &endpoint));
  ucxx_address_destroy(address);
  const ucxx_status_t receive =
      ucxx_tag_recv(worker, &received, sizeof received, 1, UINT64_MAX, NULL, &request);
  CHECK(ucxx_tag_send(endpoint, &sent, sizeof sent, 1, NULL, NULL) >= 0);
  CHECK_OK(finish(receive, &request));
  CHECK_EQ(received, sent);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
}

static void refuse_comma(void) {
  const ucxx_config_entry_t entry = {"KEEPALIVE_INTERVAL", "1,5s"};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  params.config = &entry;
  params.config_count = 1;
  CHECK_STATUS(ucxx_context_create(&params, &context), UCXX_ERR_INVALID_PARAM);
}

int main(void) {
  static told_t with_point, with_comma;
  test_begin("decimal_comma");
  setenv("UCX_RNDV_PERF_DIFF", "2.5", 1);
  use(&with_point);
  CHECK(strstr(with_point.text, "RNDV_PERF_DIFF=2.5") != NULL);
  refuse_comma();

  STEP("the process has the comma");
  const locale_t own = choose_locale();
  check_comma();
  use(&with_comma);
  CHECK(strcmp(with_point.text, with_comma.text) == 0);
  refuse_comma();
  check_comma();

  STEP("this thread has");
  CHECK(setlocale(LC_NUMERIC, "C") != NULL);
  uselocale(own);
  check_comma();
  use(&with_comma);
  CHECK(strcmp(with_point.text, with_comma.text) == 0);
  check_comma();
  CHECK(uselocale((locale_t)0) == own);
  uselocale(LC_GLOBAL_LOCALE);
  freelocale(own);
  return 0;
}
