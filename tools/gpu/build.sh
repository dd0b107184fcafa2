#!/usr/bin/env bash
# Makes the folder that first-hour.sh needs on a machine with a GPU, which then needs neither Go nor a network: semcon, tests of numerics as binaries with what
# they read, drawn images, PyTorch's steps, the pretraining step as XLA's program, and first-hour.sh itself. Writing that program takes the CPU plugin of
# "semcon lab --setup-only". The binaries need this machine's glibc or a newer one, so build on an old system.
#
#   tools/gpu/build.sh FOLDER
set -euo pipefail
kit=$(realpath -m "${1:?want a folder}")
cd "$(dirname "$0")/../.."
mkdir -p "$kit"
go build -trimpath -ldflags='-s -w' -o "$kit/semcon" ./cmd/semcon
for package in losses sccore sccore/encoder sccore/train; do
  mkdir -p "$kit/tests/$package"
  go test -c -trimpath -ldflags='-s -w' -o "$kit/tests/$package/run" "./$package"
  if [ -d "$package/testdata" ]; then
    cp -r "$package/testdata" "$kit/tests/$package/"
  fi
done
cp sccore/encoder/bench/vit.py sccore/encoder/bench/step.py tools/gpu/kernels.py tools/gpu/first-hour.sh "$kit/"
go run ./internal/aot --dump "$kit/pretrain-256.mlir" # In bfloat16.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/draw.go" <<'GO'
// Draw writes images where "semcon run pretrain" looks for ImageNet and COCO.
package main

import (
	"os"
	"path/filepath"

	"github.com/semcon/semcon/sccore/datasets/synthetic"
)

func main() {
	for folder, images := range map[string]*synthetic.Set{"imagenet/train": synthetic.Objects(32, 320, 1), "coco/train2017": synthetic.Scenes(32, 320, 2)} {
		if err := synthetic.WriteFolder(filepath.Join(os.Args[1], folder), images.Images); err != nil {
			panic(err)
		}
	}
}
GO
go run "$work/draw.go" "$kit/data"
du -sh "$kit"
