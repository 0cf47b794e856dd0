#!/usr/bin/env bash
# Static checks: format, vet, staticcheck, and that other systems compile.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

tools=$(.ci/go-tools.sh)
say "gofmt and gofumpt"
files=$(git ls-files '*.go')
bad=$(printf '%s\n' "$files" | xargs gofmt -l; printf '%s\n' "$files" | xargs "$tools/gofumpt" -l)
[ -z "$bad" ] || die "not formatted (run gofumpt -w):
$bad"
say "go mod tidy"
go mod tidy -diff || die "go.mod or go.sum is not tidy"
say "go vet"
go vet ./...
for os in darwin windows; do
  say "go vet for $os"
  GOOS=$os go vet ./...
done
say "staticcheck"
"$tools/staticcheck" ./...
