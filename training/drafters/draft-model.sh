#!/usr/bin/env bash
# Trains a draft model for the bundled model with PyTorch alone: prompts, what the model writes
# behind them, and the distillation, which gets what the others leave of TOTAL_S seconds, but
# 40 at least. `draft-model.sh OUT TEXTS...` writes OUT/draft-model and OUT/draft-model.log; TEXTS
# are folders of Markdown, text and source files. CHATS, PIECES and HELD_OUT change the sizes, TRAIN
# has further flags of training.drafters.draft_model.
set -euo pipefail
out=$1
shift
held_out=${HELD_OUT:-480}
work=${WORK:-$(mktemp -d)}
mkdir -p "$out" "$work"
{
  python3 -m training.drafters.prompts --chats "${CHATS:-40000}" --pieces "${PIECES:-8000}" \
    --seed draft-model-1 --texts "$@" --out "$work/train.jsonl"
  # Another seed than the default, by which acceptance is measured.
  python3 -m training.drafters.prompts --chats "$held_out" --pieces "$((held_out / 6))" \
    --seed draft-model-1 --split eval --texts "$@" --out "$work/eval.jsonl"
  echo "prompts: $SECONDS s"
  python3 -m training.drafters.write --input "$work/eval.jsonl" --output "$work/eval-out.jsonl"
  python3 -m training.drafters.write --input "$work/train.jsonl" --output "$work/train-out.jsonl"
  echo "texts: $SECONDS s"
  left=$((${TOTAL_S:-225} - SECONDS))
  # shellcheck disable=SC2086
  python3 -m training.drafters.draft_model --outputs "$work/train-out.jsonl" \
    --held-out "$work/eval-out.jsonl" --out "$out/draft-model" --steps 12000 \
    --measure-every 500 --deadline-s "$((left > 40 ? left : 40))" ${TRAIN:-}
  echo "all: $SECONDS s"
} 2>&1 | tee "$out/draft-model.log"
