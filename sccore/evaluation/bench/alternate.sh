#!/bin/sh
# Features of a frozen ViT-S/16 at 224² against timm, in turn on the same cores: images per second of each, and the ratio of their medians.
# Needs PyTorch and timm:
#
#     bench/alternate.sh [turns]      PYTHON=/path/to/python, where they are not in python3
set -eu
cd "$(dirname "$0")/.."
turns=${1:-5}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
go test -c -o "$folder/bench" .
for turn in $(seq "$turns"); do
	"$folder/bench" -test.run '^$' -test.bench '^BenchmarkFrozenViTS16$' -test.benchtime 12x >"$folder/out"
	grep -q "backend: xla" "$folder/out" || { echo "alternate.sh: no XLA plugin: semcon lab --setup-only" >&2; exit 1; }
	awk '/images\/s/ { for (i = 2; i < NF; i++) if ($(i + 1) == "images/s") wall = $i; else if ($(i + 1) == "images/CPU-s") cpu = $i
			print wall, cpu }' "$folder/out" >>"$folder/ours"
	"${PYTHON:-python3}" bench/timm_features.py 8 --steps 12 >>"$folder/theirs"
	echo "turn $turn: ours $(tail -n 1 "$folder/ours"), timm $(tail -n 1 "$folder/theirs") images/s, images/CPU-s"
done
for column in 1 2; do
	sort -n -k "$column,$column" "$folder/ours" | awk -v c="$column" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }' >"$folder/a"
	sort -n -k "$column,$column" "$folder/theirs" | awk -v c="$column" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }' >"$folder/b"
	paste -d ' ' "$folder/a" "$folder/b" | awk -v c="$column" '{ printf "median %s: ours %s, timm %s, ratio %.2f\n",
		c == 1 ? "images/s" : "images/CPU-s", $1, $2, $1 / $2 }'
done
