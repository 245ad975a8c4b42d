"""Makes the pairs that training reads: a short text and a passage that belongs to it.

    python3 -m training.embedder.pairs --out PAIRS

reads .embedder and writes .npy files: of all texts the token ids of teacher and student, and rows
of pairs [anchor, passage, kind, cut]. Pairs of one document stand together, so that a batch made of
runs of pairs has passages that are hard to tell apart. Passages of one cut do not overlap.
"""

import argparse
import json
import os
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from training.embedder.passages import pairs_of
from training.embedder.texts import TEXTS, read_texts

EMBEDDER = Path(".embedder")
ANCHOR_TOKENS, PASSAGE_TOKENS = 48, 512
TOKENIZERS = {
    "teacher": EMBEDDER / "teacher-tokenizer.json",
    "student": EMBEDDER / "tokenizer.json",
}
loaded: dict[str, Tokenizer] = {}
"""Of each side that is made, in a worker process."""


def load_tokenizers(paths: dict[str, Path]) -> None:
    """In each worker process."""
    for side, path in paths.items():
        loaded[side] = Tokenizer.from_file(str(path))


def encode(side: str, texts: list[str], tokens_max: int) -> list[np.ndarray]:
    """Ids of each text, cut off at `tokens_max` but with the last special token."""
    rows = []
    for encoding in loaded[side].encode_batch_fast(texts):
        ids = encoding.ids
        if len(ids) > tokens_max:
            ids = ids[: tokens_max - 1] + ids[-1:]
        rows.append(np.array(ids, dtype=np.uint16))
    return rows


def work(documents: list[dict]) -> dict:
    """Texts of some documents, each once, and pairs of places in them."""
    found = [pair for document in documents for pair in pairs_of(document)]
    result: dict = {}
    places: dict[str, dict[str, int]] = {"anchor": {}, "passage": {}}
    rows = []
    for cut, pair in found:
        at = [
            places[role].setdefault(getattr(pair, role), len(places[role]))
            for role in ("anchor", "passage")
        ]
        rows.append((*at, pair.kind, cut))
    result["pairs"] = np.array(rows, dtype=np.int32).reshape(-1, 4)
    for role, limit in (("anchor", ANCHOR_TOKENS), ("passage", PASSAGE_TOKENS)):
        for side in loaded:
            result[f"{role}-{side}"] = encode(side, list(places[role]), limit)
    return result


def groups_of(documents: list[dict], chars: int = 400_000) -> list[list[dict]]:
    """Documents in order, in lists of about so many characters."""
    groups: list[list[dict]] = [[]]
    size = 0
    for document in documents:
        if size > chars:
            groups.append([])
            size = 0
        groups[-1].append(document)
        size += len(document["text"])
    return groups


def write_split(split: str, options: argparse.Namespace) -> None:
    """All files of one split."""
    out, tokenizers = options.out, {side: TOKENIZERS[side] for side in options.sides}
    if options.tokenizer is not None:
        tokenizers["student"] = options.tokenizer
    documents = read_texts(split, options.texts)
    # Spread over all packages.
    groups = groups_of(documents[:: max(1, len(documents) // options.documents_max)])
    with Pool(options.workers, load_tokenizers, (tokenizers,)) as pool:
        results = list(pool.imap(work, groups))
    offsets = {"anchor": 0, "passage": 0}
    pairs = []
    for result in results:
        rows = result["pairs"].copy()
        rows[:, 0] += offsets["anchor"]
        rows[:, 1] += offsets["passage"]
        pairs.append(rows)
        for role in offsets:
            offsets[role] += len(result[f"{role}-{options.sides[0]}"])
    np.save(out / f"{split}-pairs.npy", np.concatenate(pairs))
    for role in offsets:
        for side in options.sides:
            rows = [row for result in results for row in result[f"{role}-{side}"]]
            np.save(out / f"{split}-{role}-{side}-ids.npy", np.concatenate(rows))
            lengths = np.array([len(row) for row in rows], dtype=np.int32)
            np.save(out / f"{split}-{role}-{side}-lengths.npy", lengths)
            print(f"{split} {role} {side}: {len(rows):,} texts, {lengths.sum():,} tokens")
    print(f"{split}: {sum(map(len, pairs)):,} pairs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sides", nargs="+", choices=TOKENIZERS, default=list(TOKENIZERS))
    parser.add_argument("--tokenizer", type=Path, help="the student's, if not that of .embedder")
    parser.add_argument("--documents-max", type=int, default=10**9, help="of a split, for trials")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    for split in ("train", "eval"):
        write_split(split, options)
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.glob("*.npy"))}
    (options.out / "sizes.json").write_text(json.dumps(sizes, indent=1))
    print(f"pairs after {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
