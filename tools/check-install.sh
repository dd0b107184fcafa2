#!/bin/sh
# Installs the committed tree as "go install MODULE/cmd/semcon@VERSION" does, from a module proxy of files, and prints its version. Other modules come from Go's module
# cache, so it needs no network. What it puts into that cache is removed.
set -eu
cd "$(dirname "$0")/.."
module=github.com/semcon/semcon
# Go never reads a version of a module twice, so each commit has one.
version=$(sed -n 's/^const Version = "\(.*\)"/\1/p' sccore/backend/engine.go)
version=$version-check.g$(git rev-parse --short=12 HEAD)
cache=$(go env GOMODCACHE)
work=$(mktemp -d)
trap 'chmod -R u+w "$cache/$module@$version" "$work" 2>/dev/null || true; rm -rf "$cache/$module@$version" "$cache/cache/download/$module" "$work"' EXIT INT TERM
mkdir -p "$work/$module/@v"
echo "$version" > "$work/$module/@v/list"
echo "{\"Version\":\"$version\"}" > "$work/$module/@v/$version.info"
git show HEAD:go.mod > "$work/$module/@v/$version.mod"
# shellcheck disable=SC2046 # Each folder with a module of its own is a word.
git archive --format=zip --prefix="$module@$version/" -o "$work/$module/@v/$version.zip" HEAD . $(git ls-files '*/go.mod' | sed 's|/go.mod$||; s|^|:(exclude)|')
cd "$work"
GOPROXY="file://$work,file://$cache/cache/download" GOSUMDB=off GOFLAGS= GOBIN="$work/bin" go install "$module/cmd/semcon@$version"
"$work/bin/semcon" version
