#!/usr/bin/env bash
# Drafters at a size where the speed of memory rules: a base of 369 million parameters, its ReDrafter
# and its Medusa, trained on one GPU, and Perigee's own measurement of what they bring.
#
#   training/large/run.sh base FOLDER TEXTS...       the base, 7.5 minutes of training
#   training/large/run.sh drafters FOLDER TEXTS...   what the base writes, and both drafters on it
#   training/large/run.sh table FOLDER [ARGUMENTS]   tokens a second by batch and width
#
# Each command takes less than ten minutes and goes on from what the one before left in FOLDER; TEXTS
# are folders of Markdown, text and source files. From the repository's root, with a build.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "Use $0 base|drafters|table FOLDER [TEXTS or arguments]: the comment in it says more" >&2
  exit 1
fi
stage=$1 folder=$2
shift 2
model=$folder/model
python=${PYTHON:-python3}
seconds_base=${SECONDS_BASE:-450} seconds_drafter=${SECONDS_DRAFTER:-130}

if [ "$stage" = base ]; then
  mkdir -p "$folder"
  "$python" -m training.data.texts --texts "$@"
  "$python" -m training.pocket.train --config training/large/config.json --out "$folder/run" \
    --windows 32 --steps 6000 --lr 1.5e-3 --matrix-lr 4e-3 --deadline-s "$seconds_base"
  "$python" -m training.pocket.export --config training/large/config.json \
    --weights "$folder/run/pocket.pt" --out "$model"
elif [ "$stage" = drafters ]; then
  "$python" -m training.drafters.prompts --chats 14000 --pieces 6000 --seed large-1 --texts "$@" \
    --out "$folder/train.jsonl"
  "$python" -m training.drafters.prompts --chats 200 --pieces 100 --seed large-1 --split eval \
    --texts "$@" --out "$folder/eval.jsonl"
  for split in train eval; do
    node dist/cli/main.js generate "$model" --device cuda --dtype bfloat16 \
      --input "$folder/$split.jsonl" --output "$folder/$split-out.jsonl"
  done
  for kind in redrafter medusa; do
    "$python" -m "training.drafters.$kind" --model "$model" \
      --outputs "$folder/train-out.jsonl" --held-out "$folder/eval-out.jsonl" \
      --draft-vocabulary 2560 --positions 8192 --steps 8000 --measure-every 250 --lr 1e-3 \
      --dropout 0.1 --deadline-s "$seconds_drafter" --checkpoint "$folder/$kind.pt" \
      --out "$model/drafters/$kind"
  done
elif [ "$stage" = table ]; then
  node bench/gpu/drafter-table.mjs --model "$model" --prompts "$folder/eval.jsonl" "$@"
else
  echo "Unknown command '$stage': base, drafters or table" >&2
  exit 1
fi
