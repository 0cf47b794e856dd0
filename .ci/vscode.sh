#!/usr/bin/env bash
# Installs a real VS Code (code-server) and Chromium for the extension's
# end-to-end tests, and prints the folder: FOLDER/node_modules/code-server.
# code-server's own install step downloads prebuilt parts, so scripts stay off
# and the native modules are built here.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/lib.sh

VERSION=4.100.3

have node || debian nodejs npm
debian chromium ripgrep g++ make python3 libkrb5-dev libx11-dev libxkbfile-dev libsecret-1-dev pkg-config

build() {
  local dir=$1 prefix vs log
  log="$AGENT_LS_DEV/code-server.log"
  prefix=$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")
  say "installing code-server $VERSION (about three minutes; log: $log)"
  (
    exec >"$log" 2>&1
    set -x
    cd "$dir"
    printf '{"private":true}\n' >package.json
    npm install "code-server@$VERSION" --ignore-scripts --no-audit --no-fund
    vs="$dir/node_modules/code-server/lib/vscode"
    (cd "$vs" && npm install --ignore-scripts --omit=dev --no-audit --no-fund)
    (cd "$vs/extensions" && npm install --ignore-scripts --omit=dev --no-audit --no-fund)
    ln -sfn node_modules "$vs/node_modules.asar"
    export npm_config_nodedir="$prefix"
    (cd "$vs" && npm rebuild @vscode/spdlog native-watchdog kerberos @parcel/watcher @vscode/deviceid)
    # Its post-install step fails after the addon was built: the addon counts.
    (cd "$vs/node_modules/node-pty" && npx --yes node-gyp@11 rebuild --nodedir="$prefix")
    (cd "$dir/node_modules/argon2" && npx --yes --package node-gyp@10 --package @mapbox/node-pre-gyp@1 node-pre-gyp install --build-from-source)
    mkdir -p "$vs/node_modules/@vscode/ripgrep/bin"
    ln -sfn "$(command -v rg)" "$vs/node_modules/@vscode/ripgrep/bin/rg"
  ) || { tail -30 "$log" >&2; die "code-server could not be built: see $log"; }
}

dir="$AGENT_LS_DEV/code-server-$VERSION-node$(node -p process.versions.modules)"
mkdir -p "$AGENT_LS_DEV"
once "$dir" build >&2
printf '%s\n' "$dir"
