"""Checks whether a locked dependency needs a newer Rust than this package supports.

Reads the output of `cargo metadata` from standard input. Argument 1 is the oldest supported
Rust. It checks what an ordinary build compiles, not what only the tests use.
"""

import json
import sys


def version(text):
    parts = [int(part) for part in text.split(".")]
    return tuple(parts + [0] * (3 - len(parts)))


def main():
    oldest = sys.argv[1]
    metadata = json.load(sys.stdin)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}

    reached, waiting = set(), [metadata["resolve"]["root"]]
    while waiting:
        name = waiting.pop()
        if name in reached:
            continue
        reached.add(name)
        for dependency in nodes[name]["deps"]:
            if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])

    too_new = []
    for name in sorted(reached):
        package = packages[name]
        needs = package["rust_version"]
        print(f"  {package['name']} {package['version']}: {needs or 'not stated'}")
        if needs is not None and version(needs) > version(oldest):
            too_new.append(f"{package['name']} {package['version']} needs Rust {needs}")
    for line in too_new:
        print(f"msrv: {line}, newer than {oldest}", file=sys.stderr)
    sys.exit(1 if too_new else 0)


main()
