#!/usr/bin/env bash
# Tests and measures ucxx_rs on a machine with an NVIDIA GPU. It needs the driver, bash and
# coreutils, and writes only below the folder of results.
#
#   ./run.sh [--out FOLDER] [--minutes N] [--stand-in]
#
#   --out        the folder of results (default: results); report.json and logs are written there
#   --minutes    the most time that all takes (default: 8)
#   --stand-in   without a GPU: a stand-in for the driver, to test this script. UCX does not reach
#                it, so host memory takes the place of GPU memory, and the figures mean nothing
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

out=results minutes=8 stand_in=no
usage() {
  local line
  while IFS= read -r line; do
    case $line in '#!'*) ;; '#'*) line=${line#'#'} && echo "${line# }" ;; *) break ;; esac
  done < "${BASH_SOURCE[0]}"
}
while [ $# -gt 0 ]; do
  case $1 in
    --out | --minutes)
      [ $# -ge 2 ] || { usage >&2; exit 2; }
      if [ "$1" = --out ]; then out=$2; else minutes=$2; fi
      shift
      ;;
    --stand-in) stand_in=yes ;;
    --help) usage; exit ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
case $minutes in '' | *[!0-9]* | 0*) echo "run.sh: --minutes: '$minutes' is not a number" >&2; exit 2 ;; esac
mkdir -p "$out/logs" || exit 1
out=$(cd "$out" && pwd)
deadline=$((SECONDS + minutes * 60))

# The driver is where the linker looks, or in one of the folders that containers use.
export PLAIN_LIBRARY_PATH=${LD_LIBRARY_PATH-}
export LD_LIBRARY_PATH=$here/lib:$here/ucx/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ "$stand_in" = yes ]; then
  LD_LIBRARY_PATH=$here/stand-in:$LD_LIBRARY_PATH
  # UCX's CUDA modules need more of a driver than the stand-in has.
  export UCX_MODULES=^cuda
fi
if ! gpus=$("$here/bin/find_gpu" 2>&1); then
  for folder in /usr/local/nvidia/lib64 /usr/lib/x86_64-linux-gnu/nvidia /usr/lib64/nvidia \
    /usr/local/cuda/compat /run/opengl-driver/lib /usr/lib/wsl/lib; do
    [ -e "$folder/libcuda.so.1" ] || continue
    export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$folder
    PLAIN_LIBRARY_PATH=${PLAIN_LIBRARY_PATH:+$PLAIN_LIBRARY_PATH:}$folder
    gpus=$("$here/bin/find_gpu" 2>&1) && break
  done
fi
case $gpus in *gpu\ *) ;; *)
  echo "run.sh: there is no GPU with a CUDA driver (libcuda.so.1) here; --stand-in tries this script without one" >&2
  exit 1
  ;;
esac

# ------------------------------------------------------------------ the report

entries=() failures=0
quoted() { # TEXT: a string of JSON, on one line
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"} text=${text//$'\n'/\\n} text=${text//$'\t'/ }
  printf '"%s"' "${text//[$'\001'-$'\037']/}"
}
write_report() {
  local at
  {
    printf '{\n "format": 1,\n "date": %s,\n' "$(quoted "$(date -u +%Y-%m-%dT%H:%M:%SZ)")"
    printf ' "gpus": %s,\n "cpus": %s,\n' "$(quoted "$gpus")" "$(nproc)"
    printf ' "kernel": %s,\n "versions": %s,\n' "$(quoted "$(uname -r)")" "$(quoted "$versions")"
    printf ' "memory_reached": %s,\n "results": [\n' "$reached"
    for ((at = 0; at < ${#entries[@]}; at++)); do
      printf '  %s%s\n' "${entries[at]}" "$([ $((at + 1)) -eq ${#entries[@]} ] || printf ,)"
    done
    printf ' ]\n}\n'
  } > "$out/report.json"
}
entry() { # NAME KEY VALUE ...: a value that is a number stays one
  local text key value
  text="{\"name\": $(quoted "$1")"
  shift
  while [ $# -gt 0 ]; do
    key=$1 value=$2
    [[ $value =~ ^-?[0-9]+(\.[0-9]+)?$ ]] || value=$(quoted "$value")
    text+=", \"$key\": $value"
    shift 2
  done
  entries+=("$text}")
}

# ------------------------------------------------------------------ running

# Runs a program with a limit. Sets `status`, and `log`.
status=0 log=''
run() { # LIMIT LOG-NAME PROGRAM ARGUMENT ...
  local limit=$1 left=$((deadline - SECONDS))
  # Figures mean nothing then, and the machine may have other work.
  [ "$stand_in" = no ] || limit=$((limit * 5))
  log=$out/logs/$2.log
  : > "$log"
  [ "$left" -gt 5 ] || { status=late; return; }
  [ "$limit" -lt "$left" ] || limit=$left
  timeout -k 5 "$limit" "$here/bin/$3" "${@:4}" > "$log" 2>&1 </dev/null
  status=$?
}
said() { # the last line of the log that says something
  local line last=
  while IFS= read -r line; do [ -z "$line" ] || last=$line; done < "$log"
  printf '%s' "$last"
}
outcome() { # what `status` means
  case $status in
    0) echo passed ;;
    77) echo "skipped: $(said)" ;;
    late) echo "not run: no time left" ;;
    124 | 137) echo "failed: it took too long" ;;
    *) echo "failed with status $status: $(said)" ;;
  esac
}
judge() { # sets `result` to the outcome, and counts a failure
  result=$(outcome)
  case $result in failed*) failures=$((failures + 1)) ;; esac
}
check() { # NAME PROGRAM ARGUMENT ...
  local name=$1 began=$SECONDS result
  run 90 "$@"
  judge
  printf '%-22s %s (%s s)\n' "$name" "$result" "$((SECONDS - began))"
  entry "$name" kind test result "$result" seconds "$((SECONDS - began))"
}
text() { # KEY: of the log's lines KEY=TEXT, the text; nothing if there is no such line
  local key words
  while IFS='=' read -r key words; do
    if [ "$key" = "$1" ]; then
      printf '%s' "$words"
      return
    fi
  done < "$log"
}
value() { # KEY: the same for a number, without what follows the point
  local number
  number=$(text "$1")
  printf '%s' "${number%%.*}"
}
percent() { printf '%d.%02d' $(($1 / 100)) $(($1 % 100)); }

# ------------------------------------------------------------------ what there is

log=$out/logs/versions.log
"$here/bin/ucxx_rs_info" --versions > "$log" 2>&1 </dev/null
versions=$(< "$log")
printf '%s\n%s\n' "$gpus" "$versions"
# UCX may be unable to use the GPU although the driver is there.
run 60 reach cuda_transfer --only tag --size 65536 --iterations 4 --batches 1 --warmup 1
reached=false
case $(text memory) in cuda*) reached=true ;; esac
if [ "$reached" = false ]; then
  echo "UCX does not reach the GPU here: host memory takes the place of GPU memory"
  printf '%s\n' "$(< "$log")" | head -n 20
fi
write_report

printf '\nTests\n'
for name in cuda_hub cuda_frames cuda_faults cuda_memory cuda_killed cuda_stream cuda_pipeline; do
  check "$name" "$name"
done
write_report

# ------------------------------------------------------------------ measurements

# One row: the same program over plain UCP, and over this library.
row() { # NAME PROGRAM KEY better=less|more WHERE SIZE ARGUMENT ...
  local name=$1 program=$2 key=$3 better=$4 where=$5 size=$6 raw ours ratio used=$5
  [ "$reached" = true ] || used=host
  local arguments=(--size "$size" --where "$used" "${@:7}")
  run 30 "$name-$where-$size-raw" "${program}_raw" --error-handling none "${arguments[@]}"
  raw=$([ "$status" != 0 ] || value "$key")
  [ -n "$raw" ] || { row_failed "$name" "$where" "$size" "plain UCP: $(outcome)"; return; }
  run 30 "$name-$where-$size-ours" "${program}_ours" "${arguments[@]}"
  ours=$([ "$status" != 0 ] || value "$key")
  [ -n "$ours" ] || { row_failed "$name" "$where" "$size" "$(outcome)"; return; }
  ratio=$((ours * 100 / (raw > 0 ? raw : 1)))
  printf '%-10s %-12s %10s %14s %14s %8s  %s\n' "$name" "$where" "$size" "$raw" "$ours" \
    "$(percent $ratio)" "$(text transports)"
  entry "$name" kind "$better is better" where "$where" used "$used" size "$size" figure "$key" \
    plain_ucp "$raw" ucxx_rs "$ours" ratio "$(percent $ratio)" transports "$(text transports)"
}
row_failed() { # NAME WHERE SIZE RESULT
  case $4 in *failed*) failures=$((failures + 1)) ;; esac
  printf '%-10s %-12s %10s   %s\n' "$1" "$2" "$3" "$4"
  entry "$1" where "$2" size "$3" result "$4"
}
# Enough repetitions for a figure, and few enough for the time.
repeat() { # SIZE: sets `times` for latencies, `many` and `window` for rates
  case $1 in
    8) times=(--iterations 500 --batches 20 --warmup 500) window=32 many=6400 ;;
    65536) times=(--iterations 100 --batches 10 --warmup 100) window=16 many=640 ;;
    1048576) times=(--iterations 20 --batches 10 --warmup 20) window=8 many=160 ;;
    *) times=(--iterations 4 --batches 3 --warmup 2) window=1 many=6 ;;
  esac
  rates=(--window "$window" --iterations "$many" --batches 5 --warmup "$many")
}

large=268435456
[ "$stand_in" = no ] || large=16777216
printf '\nAgainst plain UCP in the same run. Latency (ns): at most 1.05; bandwidth (B/s): at least 0.98\n'
printf '%-10s %-12s %10s %14s %14s %8s\n' what where bytes "plain UCP" ucxx_rs ratio
measure() { # WHERE SIZE
  local where=$1 size=$2 times rates window many
  repeat "$size"
  row tag pingpong half_round_trip_ns less "$where" "$size" "${times[@]}"
  row tag-rate stream bytes_per_second more "$where" "$size" "${rates[@]}"
  row am am_pingpong half_round_trip_ns less "$where" "$size" "${times[@]}"
  row am-rate am_stream bytes_per_second more "$where" "$size" "${rates[@]}"
  row fetch fetch_window question_ns less "$where" "$size" "${times[@]}"
  row put rma_window operation_ns less "$where" "$size" --operation put --memory registered "${times[@]}"
  row get rma_window operation_ns less "$where" "$size" --operation get --memory registered "${times[@]}"
  write_report
}
for size in 8 65536 1048576 "$large"; do measure cuda,cuda "$size"; done
# Frames: a hundred of them, against one message of as many bytes. Streams are received on the host.
row frames multi_pingpong half_round_trip_ns less cuda,cuda 65536 --window 100 --iterations 20 --batches 5 --warmup 20
row stream byte_stream bytes_per_second more cuda,host 1048576 --window 8 --iterations 160 --batches 5 --warmup 160
for where in cuda,host host,cuda pinned,cuda cuda,pinned managed,managed; do measure "$where" 1048576; done

# With the machine's Python, PyTorch and CuPy. The figures of UCXX are those of its own UCX.
printf '\nPython\n'
memory=()
[ "$stand_in" = no ] || memory=(--cpu)
check python python.sh tensors "${memory[@]}"
while IFS= read -r line; do
  [[ $line =~ ^name=([^ ]+)\ result=(.+) ]] || continue
  printf '  %-42s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  entry "${BASH_REMATCH[1]}" kind python result "${BASH_REMATCH[2]}"
done < "$log"
for size in 8 1048576; do
  run 60 "ucxx-python-$size" python.sh ucxx "$size"
  judge
  printf '%-22s %s bytes: %s %s\n' "UCXX's benchmark" "$size" "$result" "$(text half_round_trip_ns)"
  entry ucxx-python kind python used "$(text memory)" size "$size" result "$result" \
    half_round_trip_ns "$(text half_round_trip_ns)"
done
write_report

printf '\nHubs: copies against those of the driver alone; overlap with work on the GPU\n'
for size in 1048576 16777216; do
  run 60 "hub-$size" hub_cuda --size "$size"
  result=$(outcome)
  printf '%s bytes: %s\n' "$size" "$result"
  case $result in failed*) failures=$((failures + 1)) ;; esac
  entry hub kind hub size "$size" result "$result" log "$(< "$log")"
  if [ "$status" = 0 ]; then printf '%s\n' "$(< "$log")"; fi
done
write_report

# What two processors cannot show. There are no targets yet.
printf '\nThreads and processes on %s processors\n' "$(nproc)"
for ((count = 1; count <= 16 && count <= $(nproc); count *= 2)); do
  run 30 "producers-$count" delayed --producers "$count" --progress adaptive --completion wait \
    --iterations 25600 --warmup 25600 --batches 5 --cpus none
  printf '%-28s %3s  %s operations/s\n' "producers, one progress thread" "$count" "$(value operations_per_second)"
  entry producers kind scaling count "$count" result "$(outcome)" operations_per_second "$(value operations_per_second)"
done
for ((count = 2; count <= 16 && count <= $(nproc); count *= 2)); do
  run 30 "locks-$count" window_contention --processes "$count" --only exclusive,mixed --seconds 1 --cpus none
  printf '%-28s %3s  %s exclusive, %s mixed locks/s\n' "processes that lock" "$count" \
    "$(value exclusive_locks_per_second)" "$(value mixed_locks_per_second)"
  entry locks kind scaling count "$count" result "$(outcome)" \
    exclusive_locks_per_second "$(value exclusive_locks_per_second)" \
    mixed_locks_per_second "$(value mixed_locks_per_second)"
done
run 60 hub_overlap hub_overlap --iterations 1000 --batches 3 --cpus none
printf '%-28s      %s\n' "a hub of three stages" "$(text efficiency) of the longest stage"
entry hub_overlap kind scaling result "$(outcome)" efficiency "$(text efficiency)"

write_report
printf '\n%s: %s entries, %s failed, in %s s\n' "$out/report.json" "${#entries[@]}" "$failures" "$SECONDS"
[ "$failures" -eq 0 ]
