/* Version, status texts, initialisers and the log callback work as documented, and the library
 * prints nothing by itself. */
#include "test_util.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* UCX warns about an unused variable with its prefix: this message must arrive in the log. */
#define UNUSED_VARIABLE "UCX_NO_SUCH_VARIABLE"

static void version(void) {
  STEP("version");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  char text[64];
  snprintf(text, sizeof text, "%u.%u.%u", (unsigned)version.major, (unsigned)version.minor,
           (unsigned)version.patch);
  CHECK(version.major == UCXX_RS_VERSION_MAJOR && version.minor == UCXX_RS_VERSION_MINOR &&
        version.patch == UCXX_RS_VERSION_PATCH);
  CHECK(version.version_string != NULL && strstr(version.version_string, text) != NULL);
  CHECK(version.ucx_major > 1 || (version.ucx_major == 1 && version.ucx_minor >= 13));
  CHECK(version.ucx_library_path != NULL);
  CHECK(strstr(version.ucx_library_path, "libucp") != NULL);
  CHECK(access(version.ucx_library_path, R_OK) == 0);
  CHECK_EQ(version.ucx_copies, 1);
  printf("%s on UCX %u.%u.%u, %s\n", version.version_string, (unsigned)version.ucx_major,
         (unsigned)version.ucx_minor, (unsigned)version.ucx_patch, version.ucx_library_path);
}

static void statuses(void) {
  STEP("status names and texts");
  static const struct {
    ucxx_status_t status;
    const char *name;
  } known[] = {
      {UCXX_OK, "UCXX_OK"},
      {UCXX_INPROGRESS, "UCXX_INPROGRESS"},
      {UCXX_ERR_NO_MESSAGE, "UCXX_ERR_NO_MESSAGE"},
      {UCXX_ERR_NO_RESOURCE, "UCXX_ERR_NO_RESOURCE"},
      {UCXX_ERR_IO_ERROR, "UCXX_ERR_IO_ERROR"},
      {UCXX_ERR_NO_MEMORY, "UCXX_ERR_NO_MEMORY"},
      {UCXX_ERR_INVALID_PARAM, "UCXX_ERR_INVALID_PARAM"},
      {UCXX_ERR_UNREACHABLE, "UCXX_ERR_UNREACHABLE"},
      {UCXX_ERR_INVALID_ADDR, "UCXX_ERR_INVALID_ADDR"},
      {UCXX_ERR_NOT_IMPLEMENTED, "UCXX_ERR_NOT_IMPLEMENTED"},
      {UCXX_ERR_MESSAGE_TRUNCATED, "UCXX_ERR_MESSAGE_TRUNCATED"},
      {UCXX_ERR_BUFFER_TOO_SMALL, "UCXX_ERR_BUFFER_TOO_SMALL"},
      {UCXX_ERR_NO_ELEM, "UCXX_ERR_NO_ELEM"},
      {UCXX_ERR_NO_DEVICE, "UCXX_ERR_NO_DEVICE"},
      {UCXX_ERR_BUSY, "UCXX_ERR_BUSY"},
      {UCXX_ERR_CANCELED, "UCXX_ERR_CANCELED"},
      {UCXX_ERR_ALREADY_EXISTS, "UCXX_ERR_ALREADY_EXISTS"},
      {UCXX_ERR_OUT_OF_RANGE, "UCXX_ERR_OUT_OF_RANGE"},
      {UCXX_ERR_TIMED_OUT, "UCXX_ERR_TIMED_OUT"},
      {UCXX_ERR_EXCEEDS_LIMIT, "UCXX_ERR_EXCEEDS_LIMIT"},
      {UCXX_ERR_UNSUPPORTED, "UCXX_ERR_UNSUPPORTED"},
      {UCXX_ERR_REJECTED, "UCXX_ERR_REJECTED"},
      {UCXX_ERR_NOT_CONNECTED, "UCXX_ERR_NOT_CONNECTED"},
      {UCXX_ERR_CONNECTION_RESET, "UCXX_ERR_CONNECTION_RESET"},
      {UCXX_ERR_ENDPOINT_TIMEOUT, "UCXX_ERR_ENDPOINT_TIMEOUT"},
      {UCXX_ERR_RMA_SYNC, "UCXX_ERR_RMA_SYNC"},
      {UCXX_ERR_PEER_FAILED, "UCXX_ERR_PEER_FAILED"},
      {UCXX_ERR_RMA_ASSERT, "UCXX_ERR_RMA_ASSERT"},
      {UCXX_ERR_CLOSED, "UCXX_ERR_CLOSED"},
      {UCXX_ERR_STARVED, "UCXX_ERR_STARVED"},
      {UCXX_ERR_FORKED, "UCXX_ERR_FORKED"},
      {UCXX_ERR_PANIC, "UCXX_ERR_PANIC"},
      {UCXX_ERR_APPLICATION, "UCXX_ERR_APPLICATION"},
  };
  for (size_t at = 0; at < sizeof known / sizeof *known; at++) {
    CHECK(strcmp(ucxx_status_name(known[at].status), known[at].name) == 0);
    CHECK(strlen(ucxx_status_string(known[at].status)) > 0);
  }
  static const ucxx_status_t unknown[] = {2,    77,    -10,     -50,       -150,     -298,
                                          -500, -1001, -123456, INT32_MAX, INT32_MIN};
  for (size_t at = 0; at < sizeof unknown / sizeof *unknown; at++) {
    CHECK(ucxx_status_name(unknown[at]) != NULL && strlen(ucxx_status_name(unknown[at])) > 0);
    CHECK(ucxx_status_string(unknown[at]) != NULL && strlen(ucxx_status_string(unknown[at])) > 0);
  }
  CHECK(ucxx_last_error_message() != NULL);
}

/* The exported function for each initialiser macro gives the same result; a caller with a larger
 * struct gets all of it zeroed. */
#define CHECK_INIT(type, init, macro)                                              \
  do {                                                                             \
    struct {                                                                       \
      type value;                                                                  \
      uint8_t more[40], guard;                                                     \
    } place;                                                                       \
    static const type same = macro;                                                \
    memset(&place, 0xa5, sizeof place);                                            \
    init(&place.value, sizeof(type));                                              \
    CHECK(memcmp(&place.value, &same, sizeof(type)) == 0);                         \
    CHECK_EQ(place.value.struct_size, sizeof(type));                               \
    CHECK_EQ(place.more[0], 0xa5);                                                 \
    memset(&place, 0xa5, sizeof place);                                            \
    init(&place.value, sizeof(type) + sizeof place.more);                          \
    CHECK_EQ(place.value.struct_size, sizeof(type) + sizeof place.more);           \
    for (size_t at = 0; at < sizeof place.more; at++) CHECK_EQ(place.more[at], 0); \
    CHECK_EQ(place.guard, 0xa5);                                                   \
  } while (0)

static void initialisers(void) {
  STEP("initialisers");
  CHECK_INIT(ucxx_version_t, ucxx_version_init, UCXX_VERSION_INIT);
  CHECK_INIT(ucxx_context_params_t, ucxx_context_params_init, UCXX_CONTEXT_PARAMS_INIT);
  CHECK_INIT(ucxx_worker_params_t, ucxx_worker_params_init, UCXX_WORKER_PARAMS_INIT);
  CHECK_INIT(ucxx_worker_attr_t, ucxx_worker_attr_init, UCXX_WORKER_ATTR_INIT);
  CHECK_INIT(ucxx_worker_stats_t, ucxx_worker_stats_init, UCXX_WORKER_STATS_INIT);
  CHECK_INIT(ucxx_op_params_t, ucxx_op_params_init, UCXX_OP_PARAMS_INIT);
  CHECK_INIT(ucxx_endpoint_params_t, ucxx_endpoint_params_init, UCXX_ENDPOINT_PARAMS_INIT);
  CHECK_INIT(ucxx_endpoint_attr_t, ucxx_endpoint_attr_init, UCXX_ENDPOINT_ATTR_INIT);
}

typedef struct heard {
  int count;
  int unused_variable;
} heard_t;

static void listen(void *arg, int32_t level, const char *component, const char *message) {
  heard_t *heard = arg;
  CHECK(level >= UCXX_LOG_ERROR && level <= UCXX_LOG_TRACE);
  CHECK(component != NULL && message != NULL);
  __atomic_add_fetch(&heard->count, 1, __ATOMIC_RELAXED);
  if (strstr(message, UNUSED_VARIABLE) != NULL)
    __atomic_add_fetch(&heard->unused_variable, 1, __ATOMIC_RELAXED);
}

static void work(void) {
  duo_t duo;
  duo_open(&duo, NULL);
  duo_transfer(&duo, 1000, 1);
  duo_transfer(&duo, 1 << 20, 2);
  /* Errors are returned to the caller, not printed. */
  uint8_t nonsense[100] = {0};
  ucxx_address_t *address = NULL;
  CHECK(ucxx_address_from_bytes(nonsense, sizeof nonsense, &address) < 0);
  ucxx_config_entry_t entry = {"NO_SUCH_KEY", "1"};
  ucxx_context_params_t params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  params.config = &entry;
  params.config_count = 1;
  if (ucxx_context_create(&params, &context) == UCXX_OK) {
    CHECK(ucxx_worker_create(context, NULL, &worker) < 0);
    ucxx_context_destroy(context);
  }
  /* Left in flight deliberately: UCX often complains about such operations. */
  static uint64_t word;
  uint8_t *large = test_alloc(4 << 20);
  test_fill(large, 4 << 20, 3);
  CHECK_STATUS(ucxx_tag_recv(duo.right, &word, 8, 0x55, UINT64_MAX, NULL, NULL), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send(duo.to_right, large, 4 << 20, 0x56, NULL, NULL), UCXX_INPROGRESS);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_context_destroy(duo.context);
  free(large);
}

/* One child process with its output redirected to files, which must stay empty. */
static void quiet(char **argv, const char *log_level, int set_callback) {
  STEP("nothing on stdout or stderr, UCX_LOG_LEVEL=%s", log_level != NULL ? log_level : "(unset)");
  FILE *files[2] = {tmpfile(), tmpfile()};
  CHECK(files[0] != NULL && files[1] != NULL);
  fflush(NULL);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    dup2(fileno(files[0]), STDOUT_FILENO);
    dup2(fileno(files[1]), STDERR_FILENO);
    setenv(UNUSED_VARIABLE, "1", 1);
    if (log_level != NULL)
      setenv("UCX_LOG_LEVEL", log_level, 1);
    else
      unsetenv("UCX_LOG_LEVEL");
    execlp(argv[0], argv[0], set_callback ? "--quiet-log" : "--quiet", (char *)NULL);
    _exit(127);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  size_t printed = 0;
  for (int at = 0; at < 2; at++) {
    char text[4096];
    rewind(files[at]);
    size_t length = fread(text, 1, sizeof text, files[at]);
    if (length > 0)
      fprintf(stderr, "on %s:\n%.*s\n", at == 0 ? "stdout" : "stderr", (int)length, text);
    printed += length;
    fclose(files[at]);
  }
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_EQ(printed, 0);
}

static void log_callback(void) {
  heard_t heard = {0, 0};
  STEP("log callback");
  CHECK_OK(ucxx_log_set_callback(listen, &heard, UCXX_LOG_TRACE));
  work();
  CHECK(heard.count > 0);
  /* UCX's messages arrive here too. */
  CHECK(heard.unused_variable > 0);
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  int before = heard.count;
  work();
  CHECK_EQ(heard.count, before);
  CHECK_OK(ucxx_log_set_callback(listen, &heard, UCXX_LOG_OFF));
  work();
  CHECK_EQ(heard.count, before);
}

int main(int argc, char **argv) {
  test_begin("version_log");
  if (argc == 2 && strcmp(argv[1], "--quiet") == 0) {
    work();
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "--quiet-log") == 0) {
    log_callback();
    return 0;
  }
  version();
  statuses();
  initialisers();
  quiet(argv, NULL, 0);
  quiet(argv, "info", 0);
  quiet(argv, "info", 1);
  quiet(argv, NULL, 1);
  return 0;
}
