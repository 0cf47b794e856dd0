#!/usr/bin/env bash
# Runs every fuzz target in turn. usage: fuzz.sh TIME (60s)
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

time=${1:-60s}
for file in $(git grep -lE '^func Fuzz[A-Z]' -- '*_test.go'); do
  pkg=./$(dirname "$file")
  for target in $(sed -n -E 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$file"); do
    say "$pkg $target for $time"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$pkg"
  done
done
