#!/usr/bin/env bash
# Makes a Python 3.12 environment with ai-dynamo-runtime, once, and prints the path of its python.
# Tests with Dynamo's own indexer and mocker use it; exits with 3 where there is no Python 3.12.
set -euo pipefail
version=1.6.1
folder="$(cd "$(dirname "$0")/../.." && pwd)/node_modules/.cache/dynamo-$version"
python="$folder/bin/python"
if [[ -x "$python" && -f "$folder/complete" ]]; then
  echo "$python"
  exit 0
fi
# pyenv's python3.12 answers where it is chosen; a system's one ignores the variable.
base=""
for candidate in python3.12 python3; do
  for pyenv in "${PYENV_VERSION:-}" 3.12.1 3.12; do
    if PYENV_VERSION="$pyenv" "$candidate" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
      base="$(PYENV_VERSION="$pyenv" "$candidate" -c 'import sys; print(sys.executable)')"
      break 2
    fi
  done
done
if [[ -z "$base" ]]; then
  echo "Python 3.12 is missing" >&2
  exit 3
fi
rm -rf "$folder"
"$base" -m venv "$folder" >&2
"$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 "ai-dynamo-runtime==$version" pyzmq msgpack >&2
touch "$folder/complete"
echo "$python"
