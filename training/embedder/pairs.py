"""Makes the pairs that training reads: a short text and a passage that belongs to it.

    python3 -m training.embedder.pairs --out PAIRS

reads .embedder and writes .npy files: of all texts the token ids of teacher and student, and rows
of pairs [anchor, passage, kind]. Pairs of one document stand together, so that a batch made of runs
of pairs has passages that are hard to tell apart.
"""

import argparse
import json
import os
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from training.embedder.passages import Pair, pairs_of
from training.embedder.texts import TEXTS, read_texts

EMBEDDER = Path(".embedder")
ANCHOR_TOKENS, PASSAGE_TOKENS = 48, 512
SIDES = ("teacher", "student")
TOKENIZERS = {"teacher": "teacher-tokenizer.json", "student": "tokenizer.json"}
loaded: dict[str, Tokenizer] = {}


def load_tokenizers() -> None:
    """In each worker process."""
    for side, name in TOKENIZERS.items():
        loaded[side] = Tokenizer.from_file(str(EMBEDDER / name))


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
    found: list[Pair] = [pair for document in documents for pair in pairs_of(document)]
    result: dict = {}
    places: dict[str, dict[str, int]] = {"anchor": {}, "passage": {}}
    rows = []
    for pair in found:
        at = [
            places[role].setdefault(getattr(pair, role), len(places[role]))
            for role in ("anchor", "passage")
        ]
        rows.append((*at, pair.kind))
    result["pairs"] = np.array(rows, dtype=np.int32).reshape(-1, 3)
    for role, limit in (("anchor", ANCHOR_TOKENS), ("passage", PASSAGE_TOKENS)):
        for side in SIDES:
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


def write_split(split: str, out: Path, texts: Path, workers: int) -> None:
    """All files of one split."""
    groups = groups_of(read_texts(split, texts))
    with Pool(workers, initializer=load_tokenizers) as pool:
        results = list(pool.imap(work, groups))
    offsets = {"anchor": 0, "passage": 0}
    pairs = []
    for result in results:
        rows = result["pairs"].copy()
        rows[:, 0] += offsets["anchor"]
        rows[:, 1] += offsets["passage"]
        pairs.append(rows)
        for role in offsets:
            offsets[role] += len(result[f"{role}-student"])
    np.save(out / f"{split}-pairs.npy", np.concatenate(pairs))
    for role in offsets:
        for side in SIDES:
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
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    for split in ("train", "eval"):
        write_split(split, options.out, options.texts, options.workers)
    sizes = {path.name: path.stat().st_size for path in sorted(options.out.glob("*.npy"))}
    (options.out / "sizes.json").write_text(json.dumps(sizes, indent=1))
    print(f"pairs after {time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
