#!/usr/bin/env python3
"""The fragments of C or C++ in a page of docs/ compile, with the usual variables declared.

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

PRELUDE_CPP = """
#include <cstdio>
#include <string_view>
#include <vector>
#include <ucxx_rs.hpp>
namespace ux = ucxx_rs;
extern ux::context context;
extern ux::worker worker;
extern ux::endpoint endpoint;
extern ux::group group;
extern std::vector<double> in, out, received;
"""

# Options of the compiler, what comes first, and how a fragment that defines functions begins.
LANGUAGES = {
    "c": (["cc", "-std=c99", "-D_DEFAULT_SOURCE", "-x", "c"], PRELUDE, r"static "),
    "cpp": (["c++", "-std=c++20", "-x", "c++"], PRELUDE_CPP, r"ux::task<"),
}


def main():
    prefix, page = sys.argv[1:]
    with open(page) as file:
        lines = file.read().split("\n")
    language = "cpp" if "```cpp" in lines else "c"
    command, prelude, definition = LANGUAGES[language]
    compiler = os.environ.get("CXX" if language == "cpp" else "CC", command[0])
    command = [compiler, *command[1:], "-Wall", "-Wextra", "-Werror", "-Wno-unused"]
    command += [f"-I{prefix}/include", "-fsyntax-only", "-"]
    source, number, fragments = [prelude], 0, 0
    while number < len(lines):
        if lines[number] != f"```{language}":
            number += 1
            continue
        start = number + 1
        end = lines.index("```", start)
        body = "\n".join(lines[start:end])
        where = f'#line {start + 1} "{page}"\n'
        number = end
        # What a page compares with is not ours.
        if "ucxx::" in body:
            continue
        fragments += 1
        if "int main(" in body:
            subprocess.run(command, input=where + body + "\n", text=True, check=True)
            continue
        # A fragment that defines functions is compiled without a function around it.
        if not re.match(definition, body):
            body = f"void fragment_{fragments}(void) {{\n{where}{body}\n}}"
        source.append(where + body)
    subprocess.run(command, input="\n".join(source) + "\n", text=True, check=True)
    print(f"fragments: {fragments} of {page} compile")
    if fragments == 0:
        sys.exit(1)


if __name__ == "__main__":
    main()
