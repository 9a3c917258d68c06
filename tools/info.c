/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * info.c: ucxx_rs_info. It prints what is installed, how it is configured, which transports
 * endpoints use, and why.
 */
#define _GNU_SOURCE /* getopt_long */
#include "info.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "info_print.h"
#include "stop.h"
#include "version.h"

#define DEFAULT_PORT 13339
#define CONNECT_NS (5 * NS_PER_SECOND) /* time for a server to start */
#define FOR_EVER UINT64_MAX

enum { EXIT_USAGE = 2, EXIT_NO_SHARED_MEMORY = 3, EXIT_INTERRUPTED = 130 };
enum { VERSIONS = 1, BUILD = 2, ENVIRONMENT = 4, TRANSPORTS = 8, LANES = 16, CONFIGURATION = 32 };

static const char usage[] =
    "ucxx_rs_info: what is installed, how it is configured, which transports endpoints get, and "
    "why\n"
    "\n"
    "  ucxx_rs_info [options]          about this machine\n"
    "  ucxx_rs_info [options] HOST     about the way to another one, or to another container,\n"
    "  ucxx_rs_info --listen           where this is running\n"
    "  ucxx_rs_info --attach PID       what a running process does, and what it waits for\n"
    "\n"
    "Sections (default: all but --config)\n"
    "  -v, --versions       library, header, UCX, and whether UCX is loaded twice\n"
    "  -b, --build          what this build offers, progress modes\n"
    "  -e, --environment    the variables that the library reads, and their values\n"
    "  -t, --transports     transports and devices that UCX finds\n"
    "  -l, --lanes          makes endpoints, tells what they use, and why not shared memory\n"
    "      --config         every variable of UCX with its value\n"
    "\n"
    "  -j, --json           the same as one JSON document\n"
    "  -r, --require-shared-memory   exit with 3 if processes of this machine, or HOST's, get "
    "none\n"
    "  -L, --listen         answer clients until Ctrl-C\n"
    "      --attach PID     describe this process, which was started with UCXX_RS_DEBUG_SOCKET;\n"
    "                       or a PATH, that of its socket\n"
    "  -p, --port PORT      TCP port of --listen (default 13339; 0 for any free one)\n"
    "      --bind ADDRESS   listen here only (default: every interface)\n"
    "  -4, -6               IPv4 only, IPv6 only\n"
    "  -h, --help    --version\n";

enum { BIND = 256, CONFIG, VERSION, ANSWER_ON, ATTACH };
static const struct option long_options[] = {
    {"versions", no_argument, NULL, 'v'},
    {"build", no_argument, NULL, 'b'},
    {"environment", no_argument, NULL, 'e'},
    {"transports", no_argument, NULL, 't'},
    {"lanes", no_argument, NULL, 'l'},
    {"config", no_argument, NULL, CONFIG},
    {"json", no_argument, NULL, 'j'},
    {"require-shared-memory", no_argument, NULL, 'r'},
    {"listen", no_argument, NULL, 'L'},
    {"port", required_argument, NULL, 'p'},
    {"attach", required_argument, NULL, ATTACH},
    {"bind", required_argument, NULL, BIND},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, VERSION},
    {"answer-on", required_argument, NULL, ANSWER_ON}, /* internal: see info_lanes.c */
    {NULL, 0, NULL, 0}};

struct options {
  unsigned sections;
  bool json, require_shared_memory, listen;
  uint16_t port;
  int family, answer_on;
  const char *bind, *host, *attach;
};

static int parse_number(const char *text, unsigned long most, unsigned long *value) {
  char *end;
  *value = strtoul(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *value <= most ? 0 : -1;
}

/* Returns 0 to continue, 1 if answered, and -1 on failure. */
static int parse(struct options *options, int argc, char **argv, struct failure *failure) {
  int option;
  unsigned long number;
  *options = (struct options){.port = DEFAULT_PORT, .family = AF_UNSPEC, .answer_on = -1};
  while ((option = getopt_long(argc, argv, "vbetljrLp:46h", long_options, NULL)) != -1) {
    switch (option) {
    case 'v': options->sections |= VERSIONS; break;
    case 'b': options->sections |= BUILD; break;
    case 'e': options->sections |= ENVIRONMENT; break;
    case 't': options->sections |= TRANSPORTS; break;
    case 'l': options->sections |= LANES; break;
    case CONFIG: options->sections |= CONFIGURATION; break;
    case 'j': options->json = true; break;
    case 'r': options->require_shared_memory = true; break;
    case 'L': options->listen = true; break;
    case ATTACH: options->attach = optarg; break;
    case BIND: options->bind = optarg; break;
    case '4': options->family = AF_INET; break;
    case '6': options->family = AF_INET6; break;
    case 'p':
      if (parse_number(optarg, 65535, &number) != 0)
        return fail(failure, "--port: '%s' is not a port", optarg);
      options->port = (uint16_t)number;
      break;
    case ANSWER_ON:
      if (parse_number(optarg, 1u << 20, &number) != 0)
        return fail(failure, "--answer-on is for the tool itself");
      options->answer_on = (int)number;
      break;
    case VERSION: return print_version("ucxx_rs_info"), 1;
    case 'h': return fputs(usage, stdout), 1;
    default: return fail(failure, "see --help");
    }
  }
  if (optind < argc) options->host = argv[optind++];
  if (optind < argc) return fail(failure, "one host is enough: what is '%s'?", argv[optind]);
  if (options->listen && options->host != NULL)
    return fail(failure, "--listen is for the side that is started without a host");
  if (options->attach != NULL && (options->host != NULL || options->listen))
    return fail(failure, "--attach is for one process of this machine");
  if (options->json && (options->listen || options->attach != NULL))
    return fail(failure, "--json is for sections, and neither for --listen nor for --attach");
  if (options->sections == 0)
    options->sections =
        options->host != NULL ? LANES : VERSIONS | BUILD | ENVIRONMENT | TRANSPORTS | LANES;
  if (options->require_shared_memory) options->sections |= LANES;
  return 0;
}

static int listen_for_clients(const struct options *options, struct failure *failure) {
  uint16_t port = options->port;
  int listener;
  if (oob_listen(options->bind, options->family, &port, &listener, failure) != 0) return -1;
  printf("listening on port %u\n", (unsigned)port);
  fflush(stdout);
  while (!stopped()) {
    struct oob oob;
    struct failure ours = {""};
    if (oob_accept(listener, FOR_EVER, &oob, &ours) != 0) continue;
    if (answer_lanes(&oob, &ours) != 0)
      fprintf(stderr, "ucxx_rs_info: client %s: %s\n", oob.peer, ours.text);
    oob_close(&oob);
  }
  close(listener);
  return 0;
}

static int lanes_to_host(const struct options *options, unsigned *without_shared_memory,
                         struct failure *failure) {
  int result = 0;
  print_text("Endpoints to %s\n", options->host);
  print_string("host", options->host, NULL);
  print_list("to_host");
  for (size_t kind = 0; kind < 2 && !stopped(); kind++) {
    struct oob oob;
    if (oob_connect(options->host, options->family, options->port, CONNECT_NS, &oob, failure) !=
        0) {
      result = -1;
      break;
    }
    if (print_lanes_to_peer(&oob, kind, without_shared_memory) != 0) result = -1;
    oob_close(&oob);
  }
  print_close();
  return result;
}

static const char *section_key(unsigned section) {
  switch (section) {
  case VERSIONS: return "versions";
  case BUILD: return "build";
  case ENVIRONMENT: return "environment";
  case TRANSPORTS: return "transports";
  case LANES: return "lanes";
  default: return "config";
  }
}

static int print_sections(const struct options *options, unsigned *without_shared_memory,
                          struct failure *failure) {
  int result = 0;
  unsigned printed = 0;
  for (unsigned section = VERSIONS; section <= CONFIGURATION && !stopped(); section <<= 1) {
    if ((options->sections & section) == 0) continue;
    if (printed++ > 0) print_text("\n");
    print_object(section_key(section));
    switch (section) {
    case VERSIONS: result |= print_versions(); break;
    case BUILD: result |= print_build(); break;
    case ENVIRONMENT: result |= print_environment(); break;
    case TRANSPORTS: result |= print_transports(); break;
    case CONFIGURATION: result |= print_configuration(); break;
    case LANES:
      if (options->host != NULL) {
        result |= lanes_to_host(options, without_shared_memory, failure);
      } else {
        result |= print_lanes_within();
        print_text("\n");
        result |= print_lanes_to_child(without_shared_memory);
      }
      break;
    default: break;
    }
    print_close();
    fflush(stdout);
  }
  return result;
}

static int answer_parent(int fd) {
  struct failure failure = {""};
  struct oob oob = {.fd = fd};
  snprintf(oob.peer, sizeof oob.peer, "the process that started this one");
  return answer_lanes(&oob, &failure) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
  struct options options;
  struct failure failure = {""};
  unsigned without_shared_memory = 0;
  int parsed = parse(&options, argc, argv, &failure);
  if (parsed > 0) return EXIT_SUCCESS;
  if (parsed < 0) {
    fprintf(stderr, "ucxx_rs_info: %s\n", failure.text);
    return EXIT_USAGE;
  }
  stop_on_signals();
  if (options.answer_on >= 0) return answer_parent(options.answer_on);
  print_begin(options.json);
  int result = options.attach != NULL ? attach(options.attach, &failure)
               : options.listen       ? listen_for_clients(&options, &failure)
                                      : print_sections(&options, &without_shared_memory, &failure);
  if (stopped() && !options.listen) fail(&failure, "interrupted");
  print_end(failure.text);
  if (failed(&failure)) fprintf(stderr, "ucxx_rs_info: %s\n", failure.text);
  if (stopped() && !options.listen) return EXIT_INTERRUPTED;
  if (result == 0 && options.require_shared_memory && without_shared_memory > 0) {
    fprintf(stderr,
            "ucxx_rs_info: there are endpoints without shared memory, which was required\n");
    return EXIT_NO_SHARED_MEMORY;
  }
  return result == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
