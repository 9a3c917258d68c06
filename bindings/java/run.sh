#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Builds and runs the Java examples against the library that is installed at PREFIX: by JNA, and by
# the foreign function interface.
#
#   run.sh PREFIX
#
#   JNA_JAR    where JNA is (the place of Debian or Fedora)
#   FFM_HOME   a JDK of 22 or later (the newest one in /usr/lib/jvm)
#
# Ends with status 77 if there is neither.
set -euo pipefail

prefix=${1:?usage: run.sh PREFIX}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
"$here/generate.py" --check
export LD_LIBRARY_PATH=$prefix/lib
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

release() { # JDK: prints its major version, or 0
  local version
  version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$1/release" 2>/dev/null || true)
  echo "${version:-0}"
}

newest_jdk() {
  local jdk
  for jdk in /usr/lib/jvm/*; do
    if [ -x "$jdk/bin/javac" ]; then echo "$(release "$jdk") $jdk"; fi
  done | sort -n | tail -n 1 | cut -d ' ' -f 2-
}

run() { # NAME JDK RELEASE CLASS_PATH OPTION...
  local name=$1 jdk=$2 release=$3 path=$scratch/$1${4:+:$4} program
  shift 4
  echo "java: by $name, on JDK $(release "$jdk")"
  "$jdk/bin/javac" -Xlint:all,-options,-path -Werror --release "$release" \
    -d "$scratch/$name" -cp "$path" \
    "$here"/src/ucxxrs/*.java "$here/$name"/ucxxrs/*.java "$here"/examples/*.java
  for program in PingPong Fetch Blocks; do
    "$here/../pair.sh" "$jdk/bin/java" "$@" -cp "$path" "$program"
  done
}

ran=0
jna=${JNA_JAR:-/usr/share/java/jna.jar}
[ -f "$jna" ] || jna=/usr/lib/java/jna.jar
if command -v javac >/dev/null && [ -f "$jna" ]; then
  jdk=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
  run jna "$jdk" 17 "$jna"
  ran=1
else
  echo "java: by JNA: not here, because there is no javac or no $jna"
fi
jdk=${FFM_HOME:-$(newest_jdk)}
if [ -n "$jdk" ] && [ "$(release "$jdk")" -ge 22 ]; then
  run ffm "$jdk" 22 '' --enable-native-access=ALL-UNNAMED
  ran=1
else
  echo "java: by the foreign function interface: not here, because there is no JDK of 22 or later"
fi
if [ "$ran" -eq 0 ]; then
  echo "neither a JDK with JNA nor a JDK of 22 or later is installed"
  exit 77
fi
