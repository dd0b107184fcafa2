#!/usr/bin/env bash
# Fuzzes every parser for a while, one after the other. "go test" runs their corpora alone.
#
#   tools/fuzz.sh TIME [PACKAGE…]     such as tools/fuzz.sh 30s ./sccore/weights
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?want a time for each target, such as 30s}
shift
failed=0
for package in $(go list "${@:-./...}"); do
  for target in $(go test -list '^Fuzz' "$package" | grep '^Fuzz' || true); do
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" || failed=1
  done
done
exit "$failed"
