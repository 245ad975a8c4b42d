"""Writes .embedder/texts.jsonl.xz: the documents that the embedder learns from.

They are those of .corpus/corpus.jsonl.xz with at most so much of each package, less those that
bench/rag asks questions on, and WordNet's glosses, which bring words that no documentation has.
"""

import argparse
import json
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from training.data.corpus import CORPUS, hash_fraction, read_corpus, split_of
from training.data.fetch import download, unpack

SOURCES = Path(__file__).with_name("sources.json")
TEXTS = Path(".embedder/texts.jsonl.xz")
EXCLUDED = ["usr/share/doc/python3.11/html/faq/*"]
"""What bench/rag/retrieval.mjs asks questions on."""
SYNSETS_PER_DOCUMENT = 64
SYNSET = re.compile(r"^\d{8} \d\d [nvasr] ([0-9a-f]{2}) (.*?) \d{3} .*?\| (.*)$")


def read_texts(split: str, path: Path = TEXTS) -> list[dict]:
    """The documents of a split."""
    return read_corpus(split, path)


def documents_of(bytes_max: dict[str, int]) -> Iterator[dict]:
    """Documents of the packages, a sample by hash where a package has more than its share."""
    documents = read_corpus("train") + read_corpus("eval")
    used: Counter[str] = Counter()
    for document in sorted(documents, key=lambda d: hash_fraction(f"{d['source']}/{d['path']}")):
        if any(fnmatch(document["path"], pattern) for pattern in EXCLUDED):
            continue
        key = (document["source"], document["kind"])
        used[key] += len(document["text"])
        if used[key] <= bytes_max[document["kind"]]:
            yield document


def synsets_of(lines: Iterator[str]) -> Iterator[dict]:
    """Words, gloss and examples of each line of one of WordNet's data files."""
    for line in lines:
        match = SYNSET.match(line)
        if match is None:
            continue
        fields = match[2].split(" ")
        words = [
            re.sub(r"\(\w+\)$", "", word).replace("_", " ")
            for word in fields[: 2 * int(match[1], 16) : 2]
        ]
        gloss, *examples = re.split(r'; (?=")', match[3].strip())
        yield {"words": words, "gloss": gloss, "examples": [e.strip('"; ') for e in examples]}


def dictionary(source: dict) -> Iterator[dict]:
    """Documents of 64 synsets as the file has them: neighbours are of one field."""
    raw = CORPUS / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    unpack(download(raw, source), source)
    for part in ("noun", "verb", "adj", "adv"):
        path = CORPUS / "unpacked" / source["name"] / f"usr/share/wordnet/data.{part}"
        with path.open(encoding="utf-8") as lines:
            synsets = list(synsets_of(lines))
        for start in range(0, len(synsets), SYNSETS_PER_DOCUMENT):
            name = f"data.{part}#{start // SYNSETS_PER_DOCUMENT}"
            yield {
                "source": source["name"],
                "path": name,
                "kind": "dictionary",
                "split": split_of(f"{source['name']}/{name}"),
                "text": json.dumps(synsets[start : start + SYNSETS_PER_DOCUMENT]),
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prose-bytes-max", type=int, default=6_000_000, help="of a package")
    parser.add_argument("--code-bytes-max", type=int, default=2_500_000, help="of a package")
    parser.add_argument("--out", type=Path, default=TEXTS)
    options = parser.parse_args()
    options.out.parent.mkdir(exist_ok=True)
    caps = {"prose": options.prose_bytes_max, "code": options.code_bytes_max}
    documents = sorted(documents_of(caps), key=lambda d: (d["source"], d["path"]))
    for source in json.loads(SOURCES.read_text())["sources"]:
        documents += dictionary(source)
    sizes: Counter[str] = Counter()
    with lzma.open(options.out, "wt", preset=9, encoding="utf-8") as out:
        for document in documents:
            out.write(json.dumps(document, ensure_ascii=False) + "\n")
            for name in (document["source"], f"[{document['kind']}]", f"[{document['split']}]"):
                sizes[name] += len(document["text"])
    for name, size in sizes.most_common():
        print(f"{size:>12,} {name}")


if __name__ == "__main__":
    main()
