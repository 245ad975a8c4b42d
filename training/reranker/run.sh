#!/usr/bin/env bash
# bash training/reranker/run.sh OUT [LIMIT_S] [options of training.reranker.train …]
#
# On a machine with a GPU, beside .embedder/texts.jsonl.xz (which training/embedder/prepare.sh made)
# and models/embedder: pairs, the negatives, the training, the export, all within LIMIT_S seconds
# (420). Leaves the model in OUT/model, and reranker.safetensors (bf16), train.jsonl and run.json in
# OUT. Without network. PAIRS names a folder where pairs are kept, or were by an earlier run;
# DOCUMENTS_MAX reads no more documents than that, for trials.
set -euo pipefail
cd "$(dirname "$0")/../.."
OUT=${1:?a folder for the results}
LIMIT_S=${2:-420}
shift $(($# < 2 ? $# : 2))
export PYTHONUNBUFFERED=1
FOLDER=${PAIRS:-$(mktemp -d)}
if [ ! -f "$FOLDER/sizes.json" ]; then
  python3 -m training.embedder.pairs --out "$FOLDER" --sides student \
    --tokenizer models/embedder/tokenizer.json --documents-max "${DOCUMENTS_MAX:-1000000000}"
fi
# What remains once PyTorch is loaded, the last measurement is taken and the folder is written.
python3 -m training.reranker.train --pairs "$FOLDER" --out "$OUT" \
  --deadline-s $((LIMIT_S - SECONDS - 30)) "$@"
python3 -m training.reranker.export --weights "$OUT/reranker.safetensors" --out "$OUT/model" --check
if [ -z "${PAIRS:-}" ]; then
  rm -r "$FOLDER"
fi
