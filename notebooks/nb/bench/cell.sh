#!/bin/bash
# Where the CPU time of a notebook's cell goes, from pressing the key to the end of its process: what the Go kernel runs for a cell that shows two views of
# scenes. Needs the set-up of "semcon lab --setup-only", whose goimports and flags it takes. $SEMCON_PROFILE is the profile.
#
#     notebooks/nb/bench/cell.sh [turns]
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
export GOFLAGS="-ldflags=-w -buildvcs=false" GOPROXY=off PATH="$root/.semcon/bin:$PATH"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
printf 'module cell\n\ngo 1.26\n' >go.mod
go work init
go work use . "$root"
TIMEFORMAT='%U s user, %S s system, %R s in all'
measure() {
	printf '%-28s' "$1"
	shift
	time "$@" >/dev/null 2>&1
}
for turn in $(seq "${1:-3}"); do
	cat >main.go <<EOF
package main

import (
	"github.com/janpfeifer/must"
	"github.com/semcon/semcon/notebooks/nb"
	"github.com/semcon/semcon/sccore/experiments/pretrain"
)

// Turn $turn, process $$.
func main() { nb.Show(must.M1(pretrain.NewViewer(nb.Backend(), nb.Profile(), nb.Data(), 3)).Views(1)) }
EOF
	[ "$turn" -gt 1 ] || go build -o cell . # Fills Go's cache.
	echo "// again" >>main.go
	measure "goimports" goimports -w main.go
	measure "go get" go get
	measure "go build, compiles and links" go build -o cell .
	measure "go build, nothing changed" go build -o cell .
	[ "$turn" -gt 1 ] || ./cell >/dev/null # Fills the cache of programs.
	measure "the cell's process" ./cell
done
