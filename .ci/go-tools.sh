#!/usr/bin/env bash
# Installs the Go checkers at pinned versions and prints the folder they are in.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

GOFUMPT=v0.12.0
STATICCHECK=v0.8.2

install_tools() {
  local dir=$1
  say "installing gofumpt $GOFUMPT and staticcheck $STATICCHECK"
  GOBIN=$dir GOFLAGS=-modcacherw go install "mvdan.cc/gofumpt@$GOFUMPT"
  GOBIN=$dir GOFLAGS=-modcacherw go install "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK"
}

dir="$AGENT_LS_DEV/go-tools-$GOFUMPT-$STATICCHECK-$(go env GOVERSION)"
once "$dir" install_tools >&2
printf '%s\n' "$dir"
