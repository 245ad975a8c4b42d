#!/usr/bin/env bash
# Makes a Python 3.12 environment with ai-dynamo-runtime, once, and prints the path of its python.
# Tests with Dynamo's own indexer use it; exits with 3 where there is no Python 3.12, with 4 where
# the packages cannot be installed.
set -euo pipefail
folder="$("$(dirname "$0")/python-venv.sh" dynamo-indexer ai-dynamo-runtime==1.6.1 pyzmq msgpack)"
echo "$folder/bin/python"
