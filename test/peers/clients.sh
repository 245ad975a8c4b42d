#!/usr/bin/env bash
# clients.sh: installs the clients that test/clients tests beside openai, and the package with real
# chat templates, once, into node_modules/.cache/clients; prints the folder. They are hundreds of
# packages: too many for the dependencies of a checkout. Exits with 4 where they cannot be installed.
set -euo pipefail
folder="$(cd "$(dirname "$0")/../.." && pwd)/node_modules/.cache/clients"
packages=(
  @langchain/core@1.4.0
  @langchain/openai@1.5.8
  @modelcontextprotocol/sdk@1.32.2
  @mastra/core@0.24.9
  node-llama-cpp@3.22.1
  zod@4.6.7
)
if [[ -f "$folder/complete" && "$(cat "$folder/complete")" == "${packages[*]}" ]]; then
  echo "$folder"
  exit 0
fi
mkdir -p "$folder"
echo '{ "private": true, "type": "module" }' >"$folder/package.json"
options=(--no-save --omit=optional --ignore-scripts --no-audit --no-fund)
if ! npm install --prefix "$folder" "${options[@]}" "${packages[@]}" >&2; then
  echo "npm cannot install ${packages[*]}" >&2
  exit 4
fi
echo -n "${packages[*]}" >"$folder/complete"
echo "$folder"
