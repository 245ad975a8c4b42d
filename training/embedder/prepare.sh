#!/usr/bin/env bash
# bash training/embedder/prepare.sh
#
# Makes .embedder/, all that a training run reads: texts.jsonl.xz, the teacher (fp16) with its
# tokenizer, and the student's tokenizer. Wants network, apt-get, npm, pip, and Python with numpy,
# safetensors and tokenizers; no GPU and no PyTorch.
set -euo pipefail
cd "$(dirname "$0")/../.."
python3 -m training.data.fetch
test -f .corpus/corpus.jsonl.xz || python3 -m training.data.corpus
python3 -m training.embedder.teacher
python3 -m training.embedder.texts
python3 -m training.embedder.vocabulary
ls -l .embedder
echo "next, on a machine with a GPU: bash training/embedder/run.sh OUT"
