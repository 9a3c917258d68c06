# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) the ucxx_rs developers
#
# send_tree.sh: shared by the scripts that run send_files. Sourced, never run.
# shellcheck shell=bash

# send_tree BIN_DIR SCRATCH PATH...: sends the paths into SCRATCH/received. The sender writes to
# stdout, the receiver to SCRATCH/receiver.log. Fails if either fails.
send_tree() {
  local program=$1/send_files scratch=$2 receiver status=0 receiver_status=0
  local -a wrapper
  shift 2
  read -ra wrapper <<<"${EXAMPLE_WRAPPER:-}"
  timeout --kill-after=5 "${EXAMPLE_TIMEOUT:-600}" "${wrapper[@]}" "$program" receive "$scratch/socket" "$scratch/received" \
    >"$scratch/receiver.log" 2>&1 &
  receiver=$!
  # In the foreground, so that it receives an interrupt from the terminal.
  timeout --foreground --kill-after=5 "${EXAMPLE_TIMEOUT:-600}" "${wrapper[@]}" "$program" send "$scratch/socket" "$@" || status=$?
  wait "$receiver" || receiver_status=$?
  if ((receiver_status != 0)); then
    sed 's/^/receiver: /' "$scratch/receiver.log" >&2
  fi
  if ((status != 0 || receiver_status != 0)); then
    echo "send_files: the sender ended with status $status, the receiver with $receiver_status" >&2
    return 1
  fi
}

# same_tree SCRATCH PATH...: compares what was received with what was sent: names, contents and
# permissions.
same_tree() {
  local scratch=$1 path copy
  shift
  for path in "$@"; do
    copy=$scratch/received/$(basename "$(realpath --no-symlinks "$path")")
    # The names that send_files leaves out: links to directories, links without a target, and
    # special files.
    local -a left_out=()
    local name
    while IFS= read -r -d '' name; do left_out+=("--exclude=$name"); done < <(
      find -H "$path" -mindepth 1 \( -type l ! -xtype f -o ! -type l ! -type f ! -type d \) -printf '%f\0'
    )
    diff -r "${left_out[@]}" "$path" "$copy" || return 1
    diff <(modes "$path") <(modes "$copy") || return 1
  done
}

# The permissions of everything that is sent. For a link they are its target's.
modes() {
  if [[ ! -d $1 ]]; then
    stat -L -c '%a' "$1"
    return
  fi
  (cd "$1" && find . \( -xtype f -o -type d \) -exec stat -L -c '%a %n' {} + | LC_ALL=C sort)
}
