#!/bin/sh
# Training steps of this package against PyTorch eager, in turn on the same cores: images per second of each, and the ratio of their
# medians. The first line names the processor, its vector instructions, PyTorch and its threads: the ratio is that machine's. Needs PyTorch:
#
#     bench/alternate.sh [resnet18|conv4|vit-s16|vit-s16-forward] [turns]      PYTHON=/path/to/python, where PyTorch is not in python3
#     COMPILE=--compile bench/alternate.sh vit-s16                             against torch.compile
set -eu
cd "$(dirname "$0")/.."
network=${1:-resnet18}
turns=${2:-5}
case $network in
resnet18) benchmark=BenchmarkResNet18Step batch=64 steps=8 ;;
conv4) benchmark=BenchmarkConv4Step batch=512 steps=20 ;;
vit-s16) benchmark=BenchmarkViTS16Step batch=8 steps=6 ;;
vit-s16-forward) benchmark=BenchmarkViTS16Forward batch=8 steps=12 ;;
*) echo "alternate.sh: no benchmark of $network: there are resnet18, conv4, vit-s16 and vit-s16-forward" >&2; exit 2 ;;
esac
case $network in vit*) script=bench/vit.py ;; *) script=bench/step.py ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" bench/machine.py
go test -c -o "$folder/bench" .
for turn in $(seq "$turns"); do
	"$folder/bench" -test.run '^$' -test.bench "^$benchmark\$" -test.benchtime "${steps}x" >"$folder/out"
	grep -q "backend: xla" "$folder/out" || { echo "alternate.sh: no XLA plugin: semcon lab --setup-only" >&2; exit 1; }
	awk '/images\/s/ { for (i = 2; i < NF; i++) if ($(i + 1) == "images/s") wall = $i; else if ($(i + 1) == "images/CPU-s") cpu = $i
			print wall, cpu }' "$folder/out" >>"$folder/ours"
	"${PYTHON:-python3}" "$script" "$network" "$batch" --steps "$steps" ${COMPILE:-} >>"$folder/theirs"
	echo "turn $turn: ours $(tail -n 1 "$folder/ours"), PyTorch $(tail -n 1 "$folder/theirs") images/s, images/CPU-s"
done
for column in 1 2; do
	sort -n -k "$column" "$folder/ours" | awk -v c="$column" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }' >"$folder/a"
	sort -n -k "$column" "$folder/theirs" | awk -v c="$column" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }' >"$folder/b"
	paste -d ' ' "$folder/a" "$folder/b" | awk -v c="$column" '{ printf "median %s: ours %s, PyTorch %s, ratio %.2f\n",
		c == 1 ? "images/s" : "images/CPU-s", $1, $2, $1 / $2 }'
done
