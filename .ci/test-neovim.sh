#!/usr/bin/env bash
# Runs editors/neovim/test.lua in real Neovim 0.10 and the newest one, with the
# real server. Needs root, for the folders that hold these Neovims.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

passed=0 failed=0
for suite in trixie sid; do
  root=$(.ci/neovim.sh "$suite")
  work=$(mktemp -d "$root/tmp/agent-ls-XXXXXX")
  dir=$work/ws/.PseudoClaude/sessions/20260828-142030-a1b2
  mkdir -p "$dir" "$work/home"
  printf '%s\n' '{"type":"message","role":"user","content":"hello from the agent","ts":1787926830}' >"$dir/conversation.jsonl"
  CGO_ENABLED=0 go build -o "$work/agent-ls" ./cmd/agent-ls
  cp -r editors/neovim "$work/plugin"
  in=/tmp/$(basename "$work")
  if HOME=$in/home XDG_STATE_HOME=$in/home/state as_root timeout 120 chroot "$root" nvim --headless -u NONE -l "$in/plugin/test.lua" \
    "$in/agent-ls" "$in/ws" "$in/ws/.PseudoClaude/sessions/20260828-142030-a1b2/conversation.jsonl"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  rm -rf "$work"
done
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
