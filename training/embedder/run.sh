#!/usr/bin/env bash
# bash training/embedder/run.sh OUT [LIMIT_S] [options of training.embedder.train …]
#
# On a machine with a GPU, beside what prepare.sh made in .embedder: pairs, the teacher's vectors,
# the training, all within LIMIT_S seconds (570). Leaves student.safetensors (bf16), train.jsonl
# and run.json in OUT. Without network.
set -euo pipefail
cd "$(dirname "$0")/../.."
OUT=${1:?a folder for the results}
LIMIT_S=${2:-570}
shift $(($# < 2 ? $# : 2))
export PYTHONUNBUFFERED=1
PAIRS=$(mktemp -d)
python3 -m training.embedder.pairs --out "$PAIRS"
# What remains once PyTorch is loaded and the last measurement is taken.
python3 -m training.embedder.train --pairs "$PAIRS" --out "$OUT" \
  --deadline-s $((LIMIT_S - SECONDS - 25)) "$@"
rm -r "$PAIRS"
