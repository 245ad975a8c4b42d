"""Builds .corpus/corpus.jsonl.xz from the unpacked packages, and reads it back.

One JSON line per document: {"source", "path", "split", "text"}. The split is by the SHA-256 of
"source/path" (about 1 % "eval"), so it never depends on order or on the other documents.
"""

import hashlib
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from multiprocessing import Pool
from pathlib import Path

from training.data.extract import html_to_text, jsdoc_to_text, markdown_to_text, normalise

CORPUS = Path(".corpus")
ARCHIVE = CORPUS / "corpus.jsonl.xz"
EVAL_PER_MILLE = 12
DOCUMENT_CHARS_MAX = 60_000
DOCUMENT_CHARS_MIN = 250
PARTS_MAX = 12
"""A longer file gives this many documents at most."""


def hash_fraction(key: str) -> float:
    """A number in [0, 1) that depends on the key alone."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64


def split_of(key: str) -> str:
    """The split of a document or a name: "train" or "eval"."""
    return "eval" if hash_fraction(key) * 1000 < EVAL_PER_MILLE else "train"


def matches(path: str, patterns: list[str]) -> bool:
    """Whether a relative path matches any pattern; `*` crosses no folder for html includes."""
    return any(fnmatch(path, pattern) for pattern in patterns)


def depth_matches(path: str, patterns: list[str]) -> bool:
    """Like `matches`, but a pattern without a leading `*` must have the same depth."""
    return any(
        fnmatch(path, pattern)
        and (
            pattern.startswith("*")
            or pattern.endswith("/*")
            or path.count("/") >= pattern.count("/")
        )
        for pattern in patterns
    )


def clean(text: str, kind: str) -> str | None:
    """Normalised text, or None when it is too short or not mostly ASCII."""
    text = normalise(text)
    if kind == "code":
        text = re.sub(r"\A(?:\s*(?://|#|/\*|\*).*\n){5,}", "", text)
    if len(text) < DOCUMENT_CHARS_MIN:
        return None
    if sum(ord(c) < 128 for c in text) < 0.97 * len(text):
        return None
    if kind != "code" and sum(c.isalpha() or c == " " for c in text) < 0.6 * len(text):
        return None
    return text


def read_source(root: Path, source: dict) -> Iterator[tuple[str, str]]:
    """(path, text) of every document of a source, in path order, up to its cap."""
    total = 0
    paths = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    # Hash order, so that a cap takes a sample of all folders.
    for path in sorted(paths, key=lambda p: hash_fraction(p.relative_to(root).as_posix())):
        relative = path.relative_to(root).as_posix()
        bare = relative.removesuffix(".en").removesuffix(".gz")
        if not depth_matches(bare, source["include"]) or matches(bare, source["exclude"]):
            continue
        if total >= source["cap_bytes"] or path.suffix == ".gz":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if source["format"] == "html":
            text = html_to_text(text)
        elif source["format"] == "markdown":
            text = markdown_to_text(text)
        elif source["format"] == "jsdoc":
            text = jsdoc_to_text(text)
        cleaned = clean(text, source["format"])
        for index, start in enumerate(range(0, len(cleaned or ""), DOCUMENT_CHARS_MAX)):
            part = (cleaned or "")[start : start + DOCUMENT_CHARS_MAX]
            total += len(part)
            if index < PARTS_MAX:
                yield f"{relative}#{index}" if index else relative, part


def drop_repeats(text: str, seen: Counter[bytes], limit: int = 2) -> str:
    """Removes paragraphs that other documents have already had `limit` times."""
    kept = []
    for paragraph in text.split("\n\n"):
        key = hashlib.sha1(paragraph.encode()).digest()[:8]
        seen[key] += 1
        if len(paragraph) < 60 or seen[key] <= limit:
            kept.append(paragraph)
    return "\n\n".join(kept)


def read_whole(source: dict) -> list[tuple[str, str]]:
    """Every document of a source."""
    return list(read_source(CORPUS / "unpacked" / source["name"], source))


def documents_of(sources: list[dict]) -> Iterator[dict]:
    """All documents of all sources, read by several processes, in the order of sources.json."""
    seen: Counter[bytes] = Counter()
    pool = Pool()
    for source, documents in zip(sources, pool.imap(read_whole, sources)):
        for path, text in documents:
            text = drop_repeats(text, seen)
            if len(text) >= DOCUMENT_CHARS_MIN:
                key = f"{source['name']}/{path}"
                kind = "code" if source["format"] == "code" else "prose"
                yield {
                    "source": source["name"],
                    "path": path,
                    "kind": kind,
                    "split": split_of(key.split("#")[0]),
                    "text": text,
                }


def read_corpus(split: str, archive: Path = ARCHIVE) -> list[dict]:
    """The documents of one split."""
    with lzma.open(archive, "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    return [d for d in documents if d["split"] == split]


def main() -> None:
    sources = json.loads(Path(__file__).with_name("sources.json").read_text())["sources"]
    sizes: Counter[str] = Counter()
    with lzma.open(ARCHIVE, "wt", preset=6, encoding="utf-8") as out:
        for document in documents_of(sources):
            out.write(json.dumps(document, ensure_ascii=False) + "\n")
            sizes[document["source"]] += len(document["text"])
            sizes[f"[{document['split']}]"] += len(document["text"])
            sizes[f"[{document['kind']}]"] += len(document["text"])
    for name, size in sizes.most_common():
        print(f"{size:>12,} {name}")


if __name__ == "__main__":
    main()
