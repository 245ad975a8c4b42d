"""Builds .corpus/corpus.jsonl.xz of the files in some folders, for runs that cannot download the
packages of sources.json: what lies on any machine with Python, and a repository's documentation.

The split is by a file's name, as for the prompts of training.drafters.prompts.
"""

import argparse
import json
import lzma
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from training.data.corpus import (
    ARCHIVE,
    DOCUMENT_CHARS_MAX,
    DOCUMENT_CHARS_MIN,
    PARTS_MAX,
    clean,
    drop_repeats,
    hash_fraction,
)
from training.data.extract import markdown_to_text

PROSE_SUFFIXES = {".md", ".txt", ".rst"}
CODE_SUFFIXES = {".py", ".js", ".ts"}
FILE_BYTES_MIN, FILE_BYTES_MAX = 2_000, 400_000
EVAL_SHARE = 0.1
"""Share of the files that are held out."""


def text_files(folders: list[Path], split: str) -> list[Path]:
    """The prose and code files of one split, in order of their paths."""
    return sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in PROSE_SUFFIXES | CODE_SUFFIXES
        and (hash_fraction(path.name) < EVAL_SHARE) == (split == "eval")
        and path.is_file()
        and FILE_BYTES_MIN < path.stat().st_size < FILE_BYTES_MAX
    )


def kind_of(path: Path) -> str:
    """"prose" or "code"."""
    return "prose" if path.suffix in PROSE_SUFFIXES else "code"


def documents_of(folders: list[Path], split: str, bytes_max: int) -> Iterator[dict]:
    """Documents of one split, as those of training.data.corpus, until they are so many bytes."""
    total = 0
    seen: Counter[bytes] = Counter()
    # Hash order, so that the limit takes a sample of all folders.
    for path in sorted(text_files(folders, split), key=lambda path: hash_fraction(path.as_posix())):
        text = path.read_text(encoding="utf-8", errors="replace")
        kind = kind_of(path)
        whole = clean(markdown_to_text(text) if path.suffix == ".md" else text, kind) or ""
        for start in range(0, min(len(whole), PARTS_MAX * DOCUMENT_CHARS_MAX), DOCUMENT_CHARS_MAX):
            part = drop_repeats(whole[start : start + DOCUMENT_CHARS_MAX], seen)
            if len(part) < DOCUMENT_CHARS_MIN:
                continue
            total += len(part)
            yield {
                "source": "files",
                "path": f"{path.as_posix()}#{start // DOCUMENT_CHARS_MAX}",
                "kind": kind,
                "split": split,
                "text": part,
            }
        if total >= bytes_max:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, nargs="+", required=True, help="folders of files")
    parser.add_argument("--bytes-max", type=int, default=60_000_000)
    parser.add_argument("--out", type=Path, default=ARCHIVE)
    arguments = parser.parse_args()
    sizes: Counter[str] = Counter()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(arguments.out, "wt", preset=0, encoding="utf-8") as out:
        for split, share in (("train", 1 - EVAL_SHARE), ("eval", EVAL_SHARE)):
            limit = round(arguments.bytes_max * share)
            for document in documents_of(arguments.texts, split, limit):
                out.write(json.dumps(document, ensure_ascii=False) + "\n")
                sizes[f"{split} {document['kind']}"] += len(document["text"])
    for name, size in sizes.most_common():
        print(f"{size:>12,} {name}")


if __name__ == "__main__":
    main()
