#!/usr/bin/env python3
"""The C fragments in a page of docs/ compile, with the usual variables declared.

tests/fragments.py PREFIX PAGE
"""

import os
import re
import subprocess
import sys

PRELUDE = """
#define UCXX_NODISCARD
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucxx_rs.h>
extern ucxx_context_t *context;
extern ucxx_worker_t *worker;
extern ucxx_listener_t *listener;
extern ucxx_address_t *address;
extern ucxx_endpoint_t *endpoint;
extern ucxx_request_t *request, *other_request;
extern ucxx_notifier_t *notifier;
extern ucxx_rkey_t *rkey;
extern ucxx_group_t *group;
extern ucxx_link_t *consume_link, *produce_link;
extern void *data, *device_data, *key;
extern size_t length, key_length;
extern char header[16];
extern const char *host;
extern uint16_t port;
extern int fd;
void on_connect(void *arg, ucxx_conn_request_t *request);
void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);
"""


def main():
    prefix, page = sys.argv[1:]
    with open(page) as file:
        lines = file.read().split("\n")
    source, number, fragments = [PRELUDE], 0, 0
    while number < len(lines):
        if lines[number] != "```c":
            number += 1
            continue
        start = number + 1
        end = lines.index("```", start)
        body = "\n".join(lines[start:end])
        where = f'#line {start + 1} "{page}"\n'
        # A fragment that defines functions is compiled without a function around it.
        if not re.match(r"static ", body):
            body = f"void fragment_{fragments}(void) {{\n{where}{body}\n}}"
        source.append(where + body)
        fragments += 1
        number = end
    command = [os.environ.get("CC", "cc"), "-std=c99", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra"]
    command += ["-Werror", "-Wno-unused", f"-I{prefix}/include", "-fsyntax-only", "-x", "c", "-"]
    subprocess.run(command, input="\n".join(source) + "\n", text=True, check=True)
    print(f"fragments: {fragments} of {page} compile")
    if fragments == 0:
        sys.exit(1)


if __name__ == "__main__":
    main()
