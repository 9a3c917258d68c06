#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# Runs send_files in cases in which something fails. In each case both processes must end with an
# error that gives the reason, and no incomplete file may have its final name.
#
#   fault_cases.sh BIN_DIR [CASE...]     CASE: a function below, such as missing_file; default: all
set -euo pipefail

all_cases=(missing_file unreadable_file full_disk size_limit name_taken receiver_killed sender_killed receiver_interrupted)
if (($# < 1)); then
  echo "usage: $0 BIN_DIR [CASE...], where CASE is one of ${all_cases[*]}" >&2
  exit 2
fi
program=$(realpath "$1/send_files")
limit=${EXAMPLE_TIMEOUT:-120}
scratch=$(mktemp -d)
running=()
clean_up() {
  local pid
  for pid in "${running[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
  chmod -R u+rwx "$scratch" 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT

failed=0
bad() {
  echo "FAILED: $case_name: $*" >&2
  sed 's/^/  sender: /' "$place/sender.log" >&2 || true
  sed 's/^/  receiver: /' "$place/receiver.log" >&2 || true
  failed=1
}

# start_case NAME: makes an empty folder for the case, with a directory to send that has two good
# files.
start_case() {
  case_name=$1
  place=$scratch/${1// /_}
  mkdir -p "$place/tree"
  chmod 755 "$scratch" "$place" "$place/tree"
  head -c 3000000 /dev/urandom >"$place/tree/good"
  echo 'hello' >"$place/tree/small"
  : >"$place/sender.log"
  : >"$place/receiver.log"
  echo "case: $case_name"
}

# run_both SENDER_PREFIX... -- RECEIVER_PREFIX... -- PATH...: runs both processes, each with its
# prefix before the command, and sets sender_status and receiver_status.
run_both() {
  local -a sender=() receiver=()
  while [[ $1 != -- ]]; do sender+=("$1"); shift; done
  shift
  while [[ $1 != -- ]]; do receiver+=("$1"); shift; done
  shift
  sender_status=0
  receiver_status=0
  "${receiver[@]}" timeout --kill-after=5 "$limit" "$program" receive "$place/socket" "$place/received" >"$place/receiver.log" 2>&1 &
  running=($!)
  "${sender[@]}" timeout --kill-after=5 "$limit" "$program" send "$place/socket" "$@" >"$place/sender.log" 2>&1 || sender_status=$?
  wait "${running[0]}" || receiver_status=$?
  running=()
}

# 1 is the program's own exit status for an error. 124 and above are time limits, signals and
# crashes.
expect_failure() {
  [[ $sender_status == 1 ]] || bad "the sender ended with status $sender_status"
  [[ $receiver_status == 1 ]] || bad "the receiver ended with status $receiver_status"
}

# expect_message sender|receiver PATTERN
expect_message() {
  grep -q -E -- "^send_files: .*$2" "$place/$1.log" || bad "no message of the $1 matches '$2'"
}

# Every file in the destination must equal one that was sent. No temporary file may be left.
expect_no_halves() {
  local file
  [[ -d $place/received ]] || return 0
  while IFS= read -r -d '' file; do
    cmp -s "$place/received/$file" "$place/$file" || bad "received/$file is not what was sent"
  done < <(find "$place/received" -type f -printf '%P\0')
}

missing_file() {
  start_case "a missing file"
  run_both -- -- "$place/tree" "$place/missing"
  expect_failure
  expect_message sender "missing: No such file or directory"
  expect_message receiver "the sender gave up: .*missing: No such file or directory"
  expect_no_halves
  [[ -z $(find "$place/received" -type f) ]] || bad "files were sent although the list was wrong"
}

unreadable_file() {
  start_case "an unreadable file"
  chmod 000 "$place/tree/good"
  local -a as_nobody=()
  if ((EUID == 0)); then
    # root can read every file, so both processes run as another user.
    as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    local status=0
    "${as_nobody[@]}" "$program" >/dev/null 2>&1 || status=$?
    if ((status != 2)); then # 2: it ran, and printed its usage
      echo "  skipped: root can read everything, and another user cannot run $program"
      return
    fi
    chmod 777 "$place"
  fi
  run_both "${as_nobody[@]}" -- "${as_nobody[@]}" -- "$place/tree"
  expect_failure
  expect_message sender "good: Permission denied"
  expect_message receiver "the sender gave up: .*good: Permission denied"
  chmod 644 "$place/tree/good"
  expect_no_halves
}

full_disk() {
  start_case "a full disk"
  # A file system of 4 MiB, mounted in a mount namespace. It disappears with the process, so its
  # contents are copied out first.
  local -a inside=(unshare --mount bash -c '
    set -eu
    place=$1; shift
    mkdir "$place/received"
    mount -t tmpfs -o size=4m none "$place/received"
    result=0
    "$@" || result=$?
    mkdir "$place/seen"
    cp -r "$place/received/." "$place/seen"
    exit "$result"' bash "$place")
  if ((EUID != 0)) || ! unshare --mount mount -t tmpfs -o size=4m none "$place/tree" 2>/dev/null; then
    echo "  skipped: no file system can be mounted here; the limit on file sizes below stands for it"
    return
  fi
  head -c 8000000 /dev/urandom >"$place/tree/large"
  run_both -- "${inside[@]}" -- "$place/tree"
  expect_failure
  expect_message receiver "large: No space left on device"
  expect_message sender "the receiver gave up: .*No space left on device"
  rmdir "$place/received"
  mv "$place/seen" "$place/received"
  [[ ! -e $place/received/tree/large ]] || bad "the large file has its name"
  expect_no_halves
}

size_limit() {
  start_case "a limit on the size of files"
  truncate -s 96M "$place/tree/large"
  # Only for the receiver. UCX's own shared memory stays well below the limit.
  run_both -- limited -- "$place/tree"
  expect_failure
  expect_message receiver "large: File too large"
  expect_message sender "the receiver gave up: .*File too large"
  [[ ! -e $place/received/tree/large ]] || bad "the large file has its name"
  expect_no_halves
}
limited() {
  ulimit -f $((64 * 1024)) # KiB
  "$@"
}

name_taken() {
  start_case "a directory in the place of a file"
  mkdir -p "$place/received/tree/good"
  run_both -- -- "$place/tree"
  expect_failure
  expect_message receiver "good: Is a directory"
  expect_message sender "the receiver gave up: .*Is a directory"
  expect_no_halves
}

# until_progress FD: returns when the program at the other end of FD reports that some data has
# arrived.
until_progress() {
  local line
  while IFS= read -r -u "$1" line; do
    if [[ $line == *%* ]]; then return 0; fi
  done
  return 1
}

# kill_one sender|receiver SIGNAL: signals one process in the middle of a transfer, and sets both
# statuses. The file is sparse and so large that the transfer takes seconds.
kill_one() {
  local victim=$1 signal=$2
  truncate -s 2G "$place/tree/large"
  mkfifo "$place/progress"
  # Only the other process has the time limit: timeout(1) would receive the signal instead of the
  # program behind it.
  local -a limited_receiver=("$program") limited_sender=("$program")
  if [[ $victim == receiver ]]; then
    limited_sender=(timeout --kill-after=5 "$limit" "$program")
  else
    limited_receiver=(timeout --kill-after=5 "$limit" "$program")
  fi
  "${limited_receiver[@]}" receive "$place/socket" "$place/received" >"$place/progress" 2>"$place/receiver.log" &
  local receiver=$!
  "${limited_sender[@]}" send "$place/socket" "$place/tree" >"$place/sender.log" 2>&1 &
  local sender=$!
  running=("$receiver" "$sender")
  local lines
  exec {lines}<"$place/progress"
  until_progress "$lines" || bad "no progress was reported"
  sender_status=0
  receiver_status=0
  { # bash reports killed processes on stderr, and here that is expected
    if [[ $victim == receiver ]]; then kill "-$signal" "$receiver"; else kill "-$signal" "$sender"; fi
    cat <&"$lines" >/dev/null
    wait "$sender" || sender_status=$?
    wait "$receiver" || receiver_status=$?
  } 2>/dev/null
  exec {lines}<&-
  running=()
}

receiver_killed() {
  start_case "a receiver that is killed"
  kill_one receiver KILL
  [[ $receiver_status == 137 ]] || bad "the receiver was not killed"
  [[ $sender_status == 1 ]] || bad "the sender ended with status $sender_status"
  expect_message sender "the receiver is gone"
  # After SIGKILL the temporary file is left. Its name shows what it is.
  find "$place/received" -name '.send_files-*.part' -delete
  [[ ! -e $place/received/tree/large ]] || bad "the large file has its name"
  expect_no_halves
}

sender_killed() {
  start_case "a sender that is killed"
  kill_one sender KILL
  [[ $sender_status == 137 ]] || bad "the sender was not killed"
  [[ $receiver_status == 1 ]] || bad "the receiver ended with status $receiver_status"
  expect_message receiver "the sender is gone"
  [[ ! -e $place/received/tree/large ]] || bad "the large file has its name"
  expect_no_halves
}

receiver_interrupted() {
  start_case "a receiver that is interrupted"
  kill_one receiver TERM
  expect_failure
  expect_message receiver "interrupted by signal"
  expect_message sender "the receiver gave up: interrupted"
  [[ ! -e $place/received/tree/large ]] || bad "the large file has its name"
  expect_no_halves
}

shift
if (($# == 0)); then set -- "${all_cases[@]}"; fi
for one in "$@"; do
  if [[ " ${all_cases[*]} " != *" $one "* ]]; then
    echo "$0: no such case: $one" >&2
    exit 2
  fi
  "$one"
done
if ((failed == 0)); then echo "every failure was reported, and nothing half-written was left"; fi
exit "$failed"
