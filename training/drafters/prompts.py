"""Prompts for the texts that drafters train on, as rows of `perigee generate --input`.

Chats come from the generators of training.data that need no corpus, openings of prose and code from
files. Nothing of the held-out split is used for training: names are split by hash, files by path.
"""

import argparse
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

from training.data.mixture import Sources, encode_pieces, make_pieces
from training.data.names import Names
from training.data.texts import kind_of, text_files

CHAT_SHARES = {"qa": 0.3, "json": 0.25, "tool": 0.2, "small-talk": 0.2, "completion": 0.05}
TEMPERATURES = (0.0, 0.8)
PROMPT_TOKENS_MAX = 1200


def chat_prompts(
    count: int, split: str, tokenizer: Tokenizer, seed: str
) -> list[tuple[str, list[int]]]:
    """(task, ids) of chats up to where the model answers."""
    names = Names(random.Random(f"{seed}:{split}:drafters"), split)
    tasks, weights = list(CHAT_SHARES), list(CHAT_SHARES.values())
    prompts: list[tuple[str, list[int]]] = []
    while len(prompts) < count:
        task = names.rng.choices(tasks, weights)[0]
        pieces = make_pieces(task, Sources([], []), names)
        if task == "completion":
            pieces = [(pieces[0][0][: len(pieces[0][0]) // 3], False)]
        else:
            answers = [place for place, (_, own) in enumerate(pieces) if own]
            pieces = pieces[: names.rng.choice(answers)]
        ids = encode_pieces(tokenizer, pieces)[0]
        if len(ids) <= PROMPT_TOKENS_MAX:
            prompts.append((task, ids))
    return prompts


def file_prompts(
    count: int, split: str, tokenizer: Tokenizer, folders: list[Path], seed: str
) -> list[tuple[str, list[int]]]:
    """(kind, ids) of pieces of files: 24 to 160 tokens from the beginning of a paragraph."""
    rng = random.Random(f"{seed}:{split}:files")
    paths = text_files(folders, split)
    prompts: list[tuple[str, list[int]]] = []
    while len(prompts) < count and paths:
        path = rng.choice(paths)
        paragraphs = path.read_text(errors="ignore").split("\n\n")
        first = rng.randrange(len(paragraphs))
        ids = tokenizer.encode("\n\n".join(paragraphs[first:])[:2_000], add_special_tokens=False).ids
        if len(ids) >= 24:
            prompts.append((kind_of(path), ids[: rng.randrange(24, 160)]))
    return prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, default=Path("models/pocket/tokenizer.json"))
    parser.add_argument("--chats", type=int, default=900)
    parser.add_argument("--pieces", type=int, default=500, help="openings from files")
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="folders of files")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--split", choices=("train", "eval"), default="train")
    parser.add_argument("--seed", default="drafters-1")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    prompts = chat_prompts(arguments.chats, arguments.split, tokenizer, arguments.seed)
    prompts += file_prompts(
        arguments.pieces, arguments.split, tokenizer, arguments.texts, arguments.seed
    )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w") as file:
        for place, (_, ids) in enumerate(prompts):
            row = {
                "prompt_token_ids": ids,
                "max_tokens": arguments.max_tokens,
                "temperature": TEMPERATURES[place % 2] if arguments.split == "train" else 0.0,
                "seed": place,
            }
            file.write(json.dumps(row) + "\n")
    kinds = Path(f"{arguments.out}.kinds.json")
    kinds.write_text(json.dumps([kind for kind, _ in prompts]))
    print(f"{len(prompts)} prompts, {sum(len(ids) for _, ids in prompts):,} tokens")


if __name__ == "__main__":
    main()
