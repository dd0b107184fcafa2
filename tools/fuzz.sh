#!/usr/bin/env bash
# Fuzzes every parser for a while, one after the other. "go test" runs their corpora alone.
#
#   tools/fuzz.sh TIME [PACKAGE…]     such as tools/fuzz.sh 30s ./sccore/weights
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:?want a time for each target, such as 30s}
shift
failed=0
packages=$(go list "${@:-./...}")
for package in $packages; do
  tests=$(go test -list '^Fuzz' "$package")
  for target in $(grep '^Fuzz' <<< "$tests" || true); do
    echo "== $package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" || failed=1
  done
done
exit "$failed"
