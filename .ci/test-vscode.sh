#!/usr/bin/env bash
# Checks the VS Code extension: types, lint, unit tests, then tests in a real
# VS Code in a real browser, with the real server. Arguments choose among the
# latter by parts of their files' names. Pictures stay in editors/vscode/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

have node || { have apt-get && debian nodejs npm; } || die "the VS Code extension needs Node.js 20 or newer"

say "VS Code extension: types, lint, unit tests"
cd editors/vscode
if ! cmp -s package-lock.json node_modules/.agent-ls-lock; then
  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  cp package-lock.json node_modules/.agent-ls-lock
fi
npm run --silent build
npm run --silent check
npm test --silent -- unit
cd ../..

# A contributor without a browser gets a skip that says so; CI never does.
find_browser() { for b in /usr/lib/chromium/chromium "$(command -v chromium || true)" "$(command -v google-chrome || true)"; do [ -x "$b" ] && { printf '%s\n' "$b"; return; }; done; return 1; }
if ! on_ci && ! find_browser >/dev/null && [ "$(id -u)" != 0 ]; then
  say "VS Code part skipped: no browser (install Chromium, or run as root on Debian)"
  exit 0
fi
folder=$(.ci/vscode.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 go build -trimpath -o "$work/agent-ls" ./cmd/agent-ls
say "VS Code extension: in a real VS Code"
rm -rf editors/vscode/artifacts
CHROMIUM=$(find_browser) CODE_SERVER=$folder AGENT_LS=$work/agent-ls npm test --silent --prefix editors/vscode -- e2e "$@"
