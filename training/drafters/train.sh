#!/usr/bin/env bash
# Trains a drafter for the bundled model with PyTorch alone: prompts, what the model writes behind
# them, and the distillation, which gets what the others leave of TOTAL_S seconds, but 40 at least.
# `train.sh KIND OUT TEXTS...` writes OUT/KIND and OUT/KIND.log; KIND is redrafter, draft-model, or
# medusa, whose heads share the model's output layer; TEXTS are folders of Markdown, text and source
# files.
# CHATS, PIECES, HELD_OUT and SEED change the texts, TRAIN has further flags of the trainer.
set -euo pipefail
case "${1:-}" in
  redrafter)
    trainer=(training.drafters.redrafter --draft-vocabulary 2560 --positions 8192 --lr 2e-3)
    trainer+=(--dropout 0.1)
    ;;
  draft-model) trainer=(training.drafters.draft_model) ;;
  medusa) trainer=(training.drafters.medusa --share-output --positions 8192 --lr 2e-3) ;;
  *)
    echo "train.sh KIND OUT TEXTS...: KIND must be redrafter, draft-model or medusa, it is '${1:-}'" >&2
    exit 2
    ;;
esac
kind=$1
out=$2
shift 2
held_out=${HELD_OUT:-480} seed=${SEED:-draft-model-1}
work=${WORK:-$(mktemp -d)}
mkdir -p "$out" "$work"
{
  python3 -m training.drafters.prompts --chats "${CHATS:-40000}" --pieces "${PIECES:-8000}" \
    --seed "$seed" --texts "$@" --out "$work/train.jsonl"
  # Another seed than the default, by which acceptance is measured.
  python3 -m training.drafters.prompts --chats "$held_out" --pieces "$((held_out / 6))" \
    --seed "$seed" --split eval --texts "$@" --out "$work/eval.jsonl"
  echo "prompts: $SECONDS s"
  python3 -m training.drafters.write --input "$work/eval.jsonl" --output "$work/eval-out.jsonl"
  python3 -m training.drafters.write --input "$work/train.jsonl" --output "$work/train-out.jsonl"
  echo "texts: $SECONDS s"
  left=$((${TOTAL_S:-225} - SECONDS))
  # shellcheck disable=SC2086
  python3 -m "${trainer[@]}" --outputs "$work/train-out.jsonl" \
    --held-out "$work/eval-out.jsonl" --out "$out/$kind" --steps 12000 \
    --measure-every 500 --deadline-s "$((left > 40 ? left : 40))" ${TRAIN:-}
  echo "all: $SECONDS s"
} 2>&1 | tee "$out/$kind.log"
