#!/usr/bin/env bash
# python-venv.sh NAME PACKAGE...: makes a Python 3.12 environment with the packages, once, and prints
# the path of its folder. Exits with 3 where there is no Python 3.12, with 4 where the packages
# cannot be installed.
set -euo pipefail
name="$1"
shift
folder="$(cd "$(dirname "$0")/../.." && pwd)/node_modules/.cache/peers/$name"
if [[ -f "$folder/complete" && "$(cat "$folder/complete")" == "$*" ]]; then
  echo "$folder"
  exit 0
fi
base=""
for candidate in python3.12 python3; do
  # pyenv's python3.12 answers where it is chosen; a system's one ignores the variable.
  for pyenv in "${PYENV_VERSION:-}" 3.12.1 3.12; do
    if PYENV_VERSION="$pyenv" "$candidate" -c \
      'import sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
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
if ! "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" >&2; then
  echo "pip cannot install $*" >&2
  exit 4
fi
echo -n "$*" >"$folder/complete"
echo "$folder"
