# Shared by the scripts of this folder; sourced, not run.
# shellcheck shell=bash

# Everything that the tests install goes here, outside the checkout, keyed by
# version, so that a second run finds it and a clean checkout stays clean.
AGENT_LS_DEV="${AGENT_LS_DEV:-${XDG_CACHE_HOME:-$HOME/.cache}/agent-ls-dev}"

say() { printf '== %s\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# on_ci is true in continuous integration, where nothing may be skipped.
on_ci() { [ "${CI:-}" = true ]; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif have sudo; then sudo -n "$@"
  else die "need root to run: $*"
  fi
}

# debian PACKAGE...: installs the Debian packages that are missing.
debian() {
  local missing=() p
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  have apt-get || die "missing Debian packages: ${missing[*]} (install them by hand on this system)"
  say "installing ${missing[*]}"
  local log; log=$(mktemp)
  if ! { as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
         as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2; rm -f "$log"
    die "apt-get could not install ${missing[*]}"
  fi
  rm -f "$log"
}

# once DIR COMMAND...: runs COMMAND to fill DIR unless it was filled before.
# The work is done in DIR.part and moved, so that an interrupted install is
# not taken for a whole one.
once() {
  local dir=$1; shift
  [ -e "$dir/.complete" ] && return 0
  rm -rf "$dir.part"; mkdir -p "$dir.part" "$(dirname "$dir")"
  # Not in a condition: set -e must stop the command at its first failure.
  ( set -euo pipefail; "$@" "$dir.part" )
  touch "$dir.part/.complete"
  rm -rf "$dir"; mv "$dir.part" "$dir"
}
