#!/usr/bin/env bash
# Installs Neovim of a Debian suite into a folder of its own and prints it.
# usage: neovim.sh trixie|sid     (0.10.x, the floor; and the newest)
# Run it as:  chroot FOLDER nvim ...   or through .ci/nvim-run.sh
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

suite=${1:?suite: trixie or sid}
debian debootstrap git ca-certificates

# The mirror is the one this machine already uses.
mirror() {
  local m
  m=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    sed -n -E 's/^URIs:[[:space:]]*([^[:space:]]+).*/\1/p; s/^deb(-src)?[[:space:]]+(\[[^]]*\][[:space:]]*)?([^[:space:]]+)[[:space:]].*/\3/p' |
    grep -E '/debian/?$' | head -n 1)
  [ -n "$m" ] || die "no Debian mirror in the apt sources"
  printf '%s\n' "$m"
}

bootstrap() {
  local dir=$1 log
  log="$AGENT_LS_DEV/debootstrap-$suite.log"
  say "installing Neovim from $suite (about a minute)"
  if ! as_root debootstrap --variant=minbase --include=neovim,git,ripgrep "$suite" "$dir" "$(mirror)" >"$log" 2>&1; then
    tail -20 "$log" >&2
    die "debootstrap $suite: see $log"
  fi
  rm -rf "$dir"/var/cache/apt/archives/*.deb
}

dir="$AGENT_LS_DEV/neovim-$suite"
mkdir -p "$AGENT_LS_DEV"
once "$dir" bootstrap >&2
printf '%s\n' "$dir"
