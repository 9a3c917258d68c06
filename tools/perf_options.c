/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_options.c: the command line of ucxx_rs_perftest.
 */
#define _GNU_SOURCE /* getopt_long */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "perf_names.h"
#include "perf_ways.h"
#include "stop.h"
#include "version.h"

static const char usage[] =
    "ucxx_rs_perftest: latency, bandwidth and rate of operations between two processes\n"
    "\n"
    "  ucxx_rs_perftest [options]          the server: waits for a client\n"
    "  ucxx_rs_perftest [options] HOST     the client: says what to measure, and prints the "
    "results\n"
    "  ucxx_rs_perftest --self [options]   both, on this machine\n"
    "  ucxx_rs_perftest --compare BEFORE.json AFTER.json ... [--plot FILE.svg]\n"
    "\n"
    "What to measure (client, or --self)\n"
    "  -t, --test NAME           tag_lat (default), am_bw, put_rate, ...; --list describes them\n"
    "  -s, --size LIST           bytes: 8, or 8,4k,1m, or 8:1m for every power of two times 8 up "
    "to 1m;\n"
    "                            8:1m:4 for every power of four\n"
    "  -n, --iterations N        messages of each size and thread (default: as many as suit the "
    "test and the size)\n"
    "  -w, --warmup N            messages before those that count (default: a tenth, at most "
    "1000)\n"
    "  -O, --window N            outstanding messages (_bw: 32, _rate: 256)\n"
    "  -T, --threads N           threads of each side, each with a worker of its own (default 1)\n"
    "  -E, --endpoints N         endpoints of each thread, used in turn (default 1)\n"
    "  -m, --memory A[,B]        buffers of the client, and of the server: host (default), cuda\n"
    "      --frames N            buffers of a message of multi_* (default 4)\n"
    "  -V, --verify              check every byte that arrives; costs time inside the measurement\n"
    "      --own-buffers         a buffer for each message in flight, not one for all; --verify "
    "implies it\n"
    "\n"
    "How (both sides; a server that is not told does as its client)\n"
    "  -P, --progress MODE       manual (default), or a progress thread: adaptive, polling, "
    "blocking\n"
    "  -k, --wait KIND           for a completion: poll (default), request, callback, notifier\n"
    "  -M, --thread-mode MODE    single (default with manual progress), serialized, multi (default "
    "with a thread)\n"
    "  -d, --delayed on|off      submit through the progress thread's queue, or directly\n"
    "      --spin-ns N           nanoseconds that a wait polls before it sleeps\n"
    "  -e, --error-handling peer|none     shall endpoints notice that the peer died (default: "
    "peer)\n"
    "  -c, --cpu A[,B]           pin the main thread to CPU A, the progress thread to B\n"
    "      --peer-cpu A[,B]      the same for the server half of --self\n"
    "  UCX_TLS in the environment chooses the transports: posix,cma,self for shared memory, "
    "tcp,self for TCP.\n"
    "\n"
    "Connection\n"
    "  -p, --port PORT           TCP port on which the sides find each other (default 13338; "
    "server: 0 for any free one)\n"
    "  -b, --bind ADDRESS        server: listen here only (default: every interface)\n"
    "  -4, -6                    IPv4 only, IPv6 only\n"
    "  -l, --loop                server: serve one client after another until Ctrl-C\n"
    "      --timeout SECONDS     give up when nothing completes for so long (default 60)\n"
    "      --max-memory BYTES    refuse tests that need more for buffers (default 4g)\n"
    "\n"
    "Output\n"
    "  -j, --json                one JSON document instead of the table\n"
    "  -v, --csv                 comma-separated values instead of the table\n"
    "      --plot FILE           draw the results as well, as SVG\n"
    "      --compare FILE...     compare results that --json wrote; the first file is 1\n"
    "      --list                describe the tests\n"
    "  -h, --help    --version\n";

enum {
  OWN_BUFFERS = 256,
  SPIN_NS,
  PEER_CPU,
  TIMEOUT,
  MAX_MEMORY,
  FRAMES,
  PLOT,
  COMPARE,
  LIST,
  VERSION,
  SELF
};

static const struct option long_options[] = {{"test", required_argument, NULL, 't'},
                                             {"size", required_argument, NULL, 's'},
                                             {"iterations", required_argument, NULL, 'n'},
                                             {"warmup", required_argument, NULL, 'w'},
                                             {"window", required_argument, NULL, 'O'},
                                             {"threads", required_argument, NULL, 'T'},
                                             {"endpoints", required_argument, NULL, 'E'},
                                             {"memory", required_argument, NULL, 'm'},
                                             {"frames", required_argument, NULL, FRAMES},
                                             {"verify", no_argument, NULL, 'V'},
                                             {"own-buffers", no_argument, NULL, OWN_BUFFERS},
                                             {"progress", required_argument, NULL, 'P'},
                                             {"wait", required_argument, NULL, 'k'},
                                             {"thread-mode", required_argument, NULL, 'M'},
                                             {"delayed", required_argument, NULL, 'd'},
                                             {"spin-ns", required_argument, NULL, SPIN_NS},
                                             {"error-handling", required_argument, NULL, 'e'},
                                             {"cpu", required_argument, NULL, 'c'},
                                             {"peer-cpu", required_argument, NULL, PEER_CPU},
                                             {"port", required_argument, NULL, 'p'},
                                             {"bind", required_argument, NULL, 'b'},
                                             {"loop", no_argument, NULL, 'l'},
                                             {"timeout", required_argument, NULL, TIMEOUT},
                                             {"max-memory", required_argument, NULL, MAX_MEMORY},
                                             {"json", no_argument, NULL, 'j'},
                                             {"csv", no_argument, NULL, 'v'},
                                             {"plot", required_argument, NULL, PLOT},
                                             {"compare", no_argument, NULL, COMPARE},
                                             {"list", no_argument, NULL, LIST},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, VERSION},
                                             {"self", no_argument, NULL, SELF},
                                             {NULL, 0, NULL, 0}};

/* Stands for --compare until its files are known. */
static char *no_files[] = {NULL};

/* Reads a number with an optional k, m or g (powers of 1024), and returns where it ends. */
static int number(const char *text, uint64_t *value, const char **end) {
  if (!isdigit((unsigned char)*text)) return -1;
  char *rest;
  errno = 0;
  *value = strtoull(text, &rest, 10);
  if (errno != 0) return -1;
  unsigned shift = 0;
  switch (tolower((unsigned char)*rest)) {
  case 'k': shift = 10; break;
  case 'm': shift = 20; break;
  case 'g': shift = 30; break;
  default: break;
  }
  if (shift != 0) rest++;
  if (*value > UINT64_MAX >> shift) return -1;
  *value <<= shift;
  *end = rest;
  return 0;
}

static int whole_number(const char *option, const char *text, uint64_t least, uint64_t most,
                        uint64_t *value, struct failure *failure) {
  const char *end;
  if (number(text, value, &end) == 0 && *end == '\0' && *value >= least && *value <= most) return 0;
  return fail(failure, "%s: '%s' is not a number from %llu to %llu", option, text,
              (unsigned long long)least, (unsigned long long)most);
}

static int add_size(struct plan *plan, uint64_t size, struct failure *failure) {
  if (plan->size_count == MAX_SIZES) return fail(failure, "--size: more than %u sizes", MAX_SIZES);
  plan->sizes[plan->size_count++] = size;
  return 0;
}

static int parse_sizes(struct plan *plan, const char *text, struct failure *failure) {
  const char *at = text;
  plan->size_count = 0;
  for (;;) {
    uint64_t first, last, factor = 2;
    if (number(at, &first, &at) != 0) break;
    last = first;
    if (*at == ':') {
      if (number(at + 1, &last, &at) != 0 || first == 0 || last < first) break;
      if (*at == ':' && (number(at + 1, &factor, &at) != 0 || factor < 2)) break;
    }
    for (uint64_t size = first;; size *= factor) {
      if (add_size(plan, size, failure) != 0) return -1;
      if (size == 0 || size > last / factor) break;
    }
    if (*at == '\0') return 0;
    if (*at++ != ',') break;
  }
  return fail(
      failure,
      "--size: '%s' is not a size (8, 4k, 1m), a list (8,4k) or a range (8:1m, 8:1m:4) with a "
      "first size above 0 and a factor above 1",
      text);
}

static int parse_cpus(const char *option, const char *text, int cpu[2], struct failure *failure) {
  const char *end;
  uint64_t first, second;
  if (number(text, &first, &end) == 0 && first < 4096) {
    cpu[0] = (int)first;
    if (*end == '\0') return 0;
    if (*end == ',' && number(end + 1, &second, &end) == 0 && *end == '\0' && second < 4096) {
      cpu[1] = (int)second;
      return 0;
    }
  }
  return fail(failure, "%s: '%s' is not a CPU, or two with a comma between", option, text);
}

static int parse_choice(const char *option, const struct choice *choices, const char *word,
                        int *value, struct failure *failure) {
  char known[128] = "";
  if (choose(choices, word, value) == 0) return 0;
  for (const struct choice *choice = choices; choice->word != NULL; choice++) {
    strncat(known, choice == choices ? "" : ", ", sizeof known - strlen(known) - 1);
    strncat(known, choice->word, sizeof known - strlen(known) - 1);
  }
  return fail(failure, "%s: '%s' is none of %s", option, word, known);
}

/* One for both sides, or one for each. */
static int parse_memory(const char *text, int memory[2], struct failure *failure) {
  char first[16];
  const char *comma = strchr(text, ',');
  snprintf(first, sizeof first, "%.*s", comma != NULL ? (int)(comma - text) : 15, text);
  if (parse_choice("--memory", memory_choices, first, &memory[0], failure) != 0) return -1;
  memory[1] = memory[0];
  if (comma == NULL) return 0;
  return parse_choice("--memory", memory_choices, comma + 1, &memory[1], failure);
}

static int parse_count(const char *option, const char *text, uint32_t most, uint32_t *count,
                       struct failure *failure) {
  uint64_t value = 0;
  if (whole_number(option, text, 1, most, &value, failure) != 0) return -1;
  *count = (uint32_t)value;
  return 0;
}

static int parse_option(struct config *config, int option, const char *argument,
                        struct failure *failure) {
  struct plan *plan = &config->plan;
  struct drive *drive = &config->drive;
  struct test test;
  uint64_t value = 0;
  switch (option) {
  case 't':
    if (!find_test(argument, &test))
      return fail(failure, "--test: there is no test '%s'; --list shows which there are", argument);
    snprintf(plan->test, sizeof plan->test, "%s", argument);
    return 0;
  case 's': return parse_sizes(plan, argument, failure);
  case 'n':
    return whole_number("--iterations", argument, 1, UINT64_C(1) << 40, &plan->iterations, failure);
  case 'w':
    plan->warmup_given = true;
    return whole_number("--warmup", argument, 0, UINT64_C(1) << 40, &plan->warmup, failure);
  case 'O': return parse_count("--window", argument, MAX_WINDOW, &plan->window, failure);
  case 'T': return parse_count("--threads", argument, MAX_THREADS, &plan->threads, failure);
  case 'E': return parse_count("--endpoints", argument, MAX_ENDPOINTS, &plan->endpoints, failure);
  case FRAMES: return parse_count("--frames", argument, MAX_FRAMES, &plan->frames, failure);
  case 'm': return parse_memory(argument, plan->memory, failure);
  case 'V': plan->verify = plan->own_buffers = true; return 0;
  case OWN_BUFFERS: plan->own_buffers = true; return 0;
  case 'P':
    return parse_choice("--progress", progress_choices, argument, &drive->progress, failure);
  case 'k': return parse_choice("--wait", wait_choices, argument, &drive->wait, failure);
  case 'M': return parse_choice("--thread-mode", thread_choices, argument, &drive->thread, failure);
  case 'd': return parse_choice("--delayed", delayed_choices, argument, &drive->delayed, failure);
  case SPIN_NS:
    if (whole_number("--spin-ns", argument, 0, 10 * NS_PER_SECOND, &value, failure) != 0) return -1;
    drive->spin_ns = (int64_t)value;
    return 0;
  case 'e':
    return parse_choice("--error-handling", error_choices, argument, &drive->error_handling,
                        failure);
  case 'c': return parse_cpus("--cpu", argument, config->cpu, failure);
  case PEER_CPU: return parse_cpus("--peer-cpu", argument, config->peer_cpu, failure);
  case 'p':
    if (whole_number("--port", argument, 0, 65535, &value, failure) != 0) return -1;
    config->port = (uint16_t)value;
    return 0;
  case 'b': config->bind = argument; return 0;
  case '4': config->family = AF_INET; return 0;
  case '6': config->family = AF_INET6; return 0;
  case 'l': config->loop = true; return 0;
  case TIMEOUT:
    if (whole_number("--timeout", argument, 1, 86400, &value, failure) != 0) return -1;
    config->timeout_ns = value * NS_PER_SECOND;
    return 0;
  case MAX_MEMORY:
    return whole_number("--max-memory", argument, 1, UINT64_MAX, &config->max_memory, failure);
  case 'j': config->output = OUTPUT_JSON; return 0;
  case 'v': config->output = OUTPUT_CSV; return 0;
  case PLOT: config->plot = argument; return 0;
  case COMPARE: config->compare = no_files; return 0;
  case SELF: config->self = true; return 0;
  default: return fail(failure, "see --help"); /* getopt has printed the error */
  }
}

static int check_client(struct config *config, struct failure *failure) {
  struct plan *plan = &config->plan;
  struct test test;
  find_test(plan->test, &test);
  if (plan->size_count == 0) plan->sizes[plan->size_count++] = default_size(&test);
  for (uint32_t i = 0; i < plan->size_count; i++)
    if (check_plan(&test, plan, plan->sizes[i], failure) != 0) return -1;
  if (plan->threads > 1 && (config->cpu[0] >= 0 || config->peer_cpu[0] >= 0))
    return fail(failure, "--cpu is for one thread: with --threads, start the program by `taskset "
                         "-c`");
  if (plan->window > 1 && test.pattern->bit == LATENCY)
    return fail(failure,
                "--window: %s has one operation at a time: leave it out, or choose a test "
                "with a window (--list)",
                test.name);
  return 0;
}

static int check_roles(struct config *config, struct failure *failure) {
  const struct plan *plan = &config->plan;
  bool is_server = config->host == NULL && !config->self;
  if (config->self && config->host != NULL)
    return fail(failure, "--self needs no host: it forks the other side on this machine");
  if (config->loop && !is_server)
    return fail(failure, "--loop is for the server, which is started without a host");
  if (config->bind != NULL && !is_server)
    return fail(failure, "--bind is for the server, which is started without a host");
  if (!is_server && config->port == 0)
    return fail(failure, "--port: the client needs the number that the server printed");
  if (is_server && (plan->test[0] != '\0' || plan->size_count > 0 || plan->iterations > 0 ||
                    plan->threads > 1 || plan->endpoints > 1 || config->plot != NULL))
    return fail(failure, "what to measure is said on the client's command line; name the server's "
                         "host to start a client, or --self for both");
  if (plan->test[0] == '\0') snprintf(config->plan.test, sizeof plan->test, "tag_lat");
  return is_server ? 0 : check_client(config, failure);
}

int config_parse(struct config *config, int argc, char **argv, struct failure *failure) {
  *config = (struct config){.port = DEFAULT_PORT,
                            .family = AF_UNSPEC,
                            .cpu = {-1, -1},
                            .peer_cpu = {-1, -1},
                            .timeout_ns = 60 * NS_PER_SECOND,
                            .max_memory = UINT64_C(4) << 30,
                            .plan = {.threads = 1,
                                     .endpoints = 1,
                                     .frames = 4,
                                     .memory = {UCXX_MEMORY_HOST, UCXX_MEMORY_HOST}},
                            .drive = {-1, -1, -1, -1, -1, -1}};
  int option;
  while ((option = getopt_long(argc, argv, "t:s:n:w:O:T:E:m:VP:k:M:d:e:c:p:b:46ljvh", long_options,
                               NULL)) != -1) {
    if (option == 'h') return fputs(usage, stdout), 1;
    if (option == LIST) return list_tests(stdout), 1;
    if (option == VERSION) return print_version("ucxx_rs_perftest"), 1;
    if (parse_option(config, option, optarg, failure) != 0) return -1;
  }
  if (config->compare != NULL) {
    config->compare = argv + optind;
    if (argc - optind >= 2) return 0;
    return fail(failure, "--compare needs two files or more that --json wrote");
  }
  if (optind < argc) config->host = argv[optind++];
  if (optind < argc) return fail(failure, "one host is enough: what is '%s'?", argv[optind]);
  return check_roles(config, failure);
}
