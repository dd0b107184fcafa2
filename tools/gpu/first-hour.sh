#!/usr/bin/env bash
# Measures a machine with a GPU, part by part: what works there, numerics, speed. It needs the folder that build.sh makes and XLA's CUDA plugin, and neither Go
# nor a network. Each part has its own time limit, and none stops the others. It writes first-hour.json (parts with exit status, seconds and numbers) and
# first-hour.log into the folder OUT. The JSON is whole after each part, and a signal ends the part that runs before the script.
#
#   first-hour.sh PLUGIN OUT
#
# PLUGIN is a PJRT plugin (…/jax_plugins/xla_cuda13/xla_cuda_plugin.so, versions 0.10 and 0.11), or a folder to look for one in, such as site-packages. The CPU
# plugin can stand in for a trial. Variables:
#   SEMCON=FILE      the binary; by default semcon beside this script, as the tests, images and PyTorch's steps are
#   PARTS='bench-*'  patterns of the parts to run; by default all. Calls for some of them want a folder OUT each
#   LIMITS=100       percent of the parts' time limits, which come to 2.8 hours
#   BATCHES='64 128 256'  STEPS=10  PROFILE=full  of the benchmarks, and  TRAINED=30  the steps of the last training, of the full profile
#   PYTHON=python3   the interpreter that may have PyTorch
set -uo pipefail

self=$(realpath "$0")
kit=$(dirname "$self")
export LC_ALL=C # Numbers have points, and texts are bytes.
export SEMCON=${SEMCON:-$kit/semcon} PROFILE=${PROFILE:-full} STEPS=${STEPS:-10} TRAINED=${TRAINED:-30} PYTHON=${PYTHON:-python3}
PYTHON=$(realpath -s "$(command -v "$PYTHON")" 2>/dev/null) # Parts run in other folders.
batches=${BATCHES:-64 128 256}

# python runs without the libraries of XLA's plugin. PyTorch has others with the same names.
python() { LD_LIBRARY_PATH=$LIBRARIES "$PYTHON" "$@"; }

# same compares the files of two runs, prints what it found and a further number, and fails if there are no files or some differ.
same() {
  local files=0 different=0 file
  while read -r file; do
    files=$((files + 1))
    cmp -s "$1/$file" "$2/$file" || different=$((different + 1))
  done < <(cd "$1" && find . -name '*.safetensors' -o -name 'curve.jsonl')
  echo "{\"files\": $files, \"different\": $different${3-}}"
  [ "$files" -gt 0 ] && [ "$different" -eq 0 ]
}

# pretrain runs the smoke profile into a folder.
pretrain() { "$SEMCON" run pretrain --profile smoke --out "$@" >&2; }

determinism() {
  pretrain "$work/one" && pretrain "$work/two" && same "$work/one" "$work/two"
}

# kill_and_resume kills a training three times, each time after it went on and wrote a checkpoint.
kill_and_resume() {
  local steps=(--set second.steps=100)
  pretrain "$work/whole" "${steps[@]}" || return
  local kills=0 pid moment
  for moment in 1 2 3; do
    touch "$work/begun"
    "$SEMCON" run pretrain --profile smoke --out "$work/killed" --checkpoint-every 0s "${steps[@]}" >&2 &
    pid=$!
    until [ -n "$(find "$work/killed" -name 'step-*.safetensors' -newer "$work/begun" 2>/dev/null)" ] || ! kill -0 "$pid" 2>/dev/null; do
      sleep 0.1
    done
    sleep "0.$moment"
    kill -KILL "$pid" 2>/dev/null && kills=$((kills + 1))
    wait "$pid"
  done
  pretrain "$work/killed" "${steps[@]}" && same "$work/whole" "$work/killed" ", \"kills\": $kills" && [ "$kills" = 3 ]
}

# numerics runs tests of a package on the plugin. No test may be skipped for want of it.
numerics() {
  cd "$kit/tests/$1" && ./run -test.v -test.count=1 -test.run "$2" >"$work/numerics" 2>&1
  local rc=$? passed skipped
  cat "$work/numerics" >&2
  passed=$(grep -c -- '--- PASS: .*/xla' "$work/numerics")
  if [ "$1" = losses ] && grep -q -- '--- PASS: TestCoTAPManyPairs' "$work/numerics"; then
    passed=$((passed + 1))
  fi
  skipped=$(grep -c -- '--- SKIP: ' "$work/numerics")
  echo "{\"passed\": $passed, \"failed\": $(grep -c -- '--- FAIL: ' "$work/numerics"), \"skipped\": $skipped}"
  [ "$passed" -gt 0 ] && [ "$skipped" = 0 ] && return "$rc"
}

doctor() { "$SEMCON" version >&2 && "$SEMCON" doctor >&2; }

bench() { "$SEMCON" bench --profile "$PROFILE" --steps "$STEPS" --format json "$@"; }

torch() {
  local line
  line=$(cd "$kit" && python vit.py pretrain "$@" --steps "$STEPS") || return
  echo "{\"images_per_second\": ${line% *}, \"images_per_cpu_second\": ${line#* }}"
}

# kernels runs the step of the full profile without input, by JAX, and lists its kernels.
kernels() { python "$kit/kernels.py" "$kit/pretrain-256.mlir" 256; }

# train pretrains on drawn images from weights that a tiny training leaves. The full profile has no other start.
train() {
  local batch=$1
  shift
  "$SEMCON" train "$kit/data/coco" --profile smoke --set encoder=vit-s16 --set steps=2 --out "$work/start" >&2 || return
  "$SEMCON" run pretrain --profile full --data "$kit/data" --out "$work/full" --set init="$work/start/encoder.safetensors" --set without_control=true \
    --set second.steps="$TRAINED" --set second.warmup=1 --set second.batch="$batch" "$@" >&2 || return
  sed -n 's/.*"efficiency":\({[^}]*}\).*/\1/p' "$work/full/pretrain/runs.jsonl" | tail -n 1
}

if [ "${1-}" = --part ]; then # This script calls itself, so that timeout can stop a part.
  shift
  trap 'wait; exit 143' TERM # After what it has started, which may hold the GPU's memory.
  "$@"
  exit
fi

plugin=${1:?want a PJRT plugin or a folder that has one}
out=$(realpath -m "${2:?want a folder for the results}")
if [ -d "$plugin" ]; then
  plugin=$(find "$plugin" -path '*jax_plugins/xla_cuda*' -name 'xla_cuda_plugin.so' | sort -V | tail -n 1)
fi
if [ ! -f "$plugin" ] || [ ! -x "$SEMCON" ]; then
  echo "first-hour.sh: no plugin at ${1}, or no binary at $SEMCON" >&2
  exit 2
fi
plugin=$(realpath "$plugin")
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LIBRARIES=${LD_LIBRARY_PATH-} work kit SEMCON_XLA_CACHE=$work/xla XLA_FLAGS=${XLA_FLAGS-} GOPJRT_CUDA_CHECKS=0 SEMCON_DATA=

# NVIDIA's libraries and tools that were installed with the plugin, by pip.
site=$(dirname "$(dirname "$(dirname "$plugin")")")
for folder in "$site"/nvidia/*/lib "$site"/nvidia/*/bin; do
  case $folder in
  */lib) [ -d "$folder" ] && export LD_LIBRARY_PATH="$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ;;
  *) [ -d "$folder" ] && export PATH="$folder:$PATH" ;;
  esac
done
if [ -d "$site/nvidia/cu13/nvvm" ]; then
  export XLA_FLAGS="--xla_gpu_cuda_data_dir=$site/nvidia/cu13 $XLA_FLAGS"
fi
case $plugin in
*cuda*) tf32=xla:$plugin float32=xla:$plugin,tf32=false device=cuda ;;
*) tf32=xla:$plugin float32=xla:$plugin device=cpu ;;
esac

json=$out/first-hour.json log=$out/first-hour.log separator='' running='' stopped=''
: >"$log"
said() { tail -c 2000 | iconv -c -f utf-8 -t utf-8 | tr '\t\r' '  ' | tr -d '\000-\010\013-\037' | grep -v '^ *$' | tail -n 1 | sed 's/\\/\\\\/g; s/"/\\"/g'; }
printf -v report '{"plugin": "%s", "device": "%s", "began": "%s", "parts": [' "$(echo "$plugin" | said)" \
  "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | said)" "$(date -u +%FT%TZ)"
save() { printf '%s\n]}\n' "$report" >"$json.new" && mv "$json.new" "$json"; }
save
trap 'stopped=1; kill -TERM "$running" 2>/dev/null || exit 130' INT TERM HUP

# part NAME SECONDS BACKEND FUNCTION… runs a part on a backend. What it prints is its numbers, in JSON.
part() {
  local name=$1 limit=$2 backend=$3 began rc numbers pattern chosen=0
  shift 3
  for pattern in ${PARTS:-*}; do
    # shellcheck disable=SC2254 # It is a pattern.
    case $name in $pattern) chosen=1 ;; esac
  done
  [ "$chosen" = 1 ] || return 0
  echo "== $name" | tee -a "$log"
  began=$(date +%s.%N)
  GOMLX_BACKEND=$backend timeout -k 20 "$((limit * ${LIMITS:-100} / 100 + 1))" bash "$self" --part "$@" >"$work/out" 2>"$work/err" &
  running=$!
  wait "$running"
  rc=$?
  if [ -n "$stopped" ]; then # The signal has ended the waiting, and timeout passes it on to the part.
    wait "$running"
    rc=$?
  fi
  running=
  numbers=$(cat "$work/out")
  cat "$work/err" "$work/out" >>"$log"
  case $numbers in
  "{"*"}") ;;
  *) numbers=null ;;
  esac
  printf -v report '%s%s\n{"part": "%s", "rc": %d, "seconds": %.1f, "numbers": %s, "said": "%s"}' "$report" "$separator" "$name" "$rc" \
    "$(echo "$(date +%s.%N) $began" | awk '{ print $1 - $2 }')" "$numbers" "$(said <"$work/err")"
  separator=,
  save
  echo "   rc $rc, $(tail -n 1 "$work/err" | cut -c 1-150)"
  [ -z "$stopped" ] || exit 130
}

set -f # Patterns of PARTS are not those of files.
part doctor 120 "$tf32" doctor
part numerics-gradient 600 "$float32" numerics sccore '^TestGradientOfTheWholeStep$/^xla$'
part numerics-cotap 600 "$float32" numerics losses '^TestCoTAP(AgainstReference|OfAWideMargin|Gradients|ManyPairs)$/^xla$|^TestCoTAPManyPairs$'
part numerics-attention 600 "$float32" numerics sccore '^TestSwitchesOfTheStepKeepItsGradient$/^xla$'
part numerics-bfloat16 300 "$float32" numerics sccore/encoder '^TestBFloat16FollowsFloat32$/^xla$|^TestBackbonesAgreeWithPyTorch$/./^xla$'
part numerics-resume 300 "$float32" numerics sccore/train '^TestResumedRunEqualsOneThatNeverStopped$/./^xla$|^Test(PartsAreTheWholeBatch|ValuesStayGoodInPlace)$/^xla$'
part determinism 600 "$tf32" determinism
part kill-and-resume 600 "$tf32" kill_and_resume
for batch in $batches; do
  part "bench-bfloat16-$batch" 300 "$tf32" bench --step pretrain --batch "$batch" --bf16
  part "bench-tf32-$batch" 300 "$tf32" bench --step pretrain --batch "$batch"
  part "bench-float32-$batch" 300 "$float32" bench --step pretrain --batch "$batch"
  if python -c 'import torch' 2>>"$log"; then
    part "torch-bfloat16-$batch" 180 "" torch "$batch" --device "$device" --bf16
    part "torch-tf32-$batch" 180 "" torch "$batch" --device "$device" --tf32
    part "torch-float32-$batch" 180 "" torch "$batch" --device "$device"
  fi
done
if [ "$device" = cuda ] && python -c 'import jax' 2>>"$log"; then
  part kernels 400 "" kernels
fi
part bench-fine-tune 400 "$tf32" bench --step fine-tune --bf16
part bench-detection 600 "$tf32" bench --step detection --bf16
part train 900 "$tf32" train "${batches%% *}" --set second.bf16=true
echo "wrote $json and $log"
