"""Writes the held-out texts and questions of test/fixtures/pocket. Needs the corpus, no GPU."""

import argparse
import json
import random
from pathlib import Path

from training.data.corpus import hash_fraction, read_corpus
from training.data.names import Names
from training.data.questions import heldout_question

SEPARATOR = "=====8<===== "
"""A line that starts so begins a document; the rest of the line is its name."""

QUESTIONS, UNANSWERABLE = 500, 50
HELDOUT_BYTES = 84_000
DOCUMENT_CHARS = 3600


def write_questions(path: Path, seed: str) -> None:
    """500 questions on held-out names and values; every tenth has no answer in its passages."""
    names = Names(random.Random(f"{seed}:qa-heldout"), "eval")
    with path.open("w") as out:
        for index in range(QUESTIONS):
            item = heldout_question(names, index % (QUESTIONS // UNANSWERABLE) == 9)
            out.write(json.dumps({"id": f"qa-{index:03}", **item}, ensure_ascii=False) + "\n")


def cut(text: str) -> str:
    """The first paragraphs of a text, up to the limit."""
    kept = ""
    for paragraph in text.split("\n\n"):
        if len(kept) + len(paragraph) > DOCUMENT_CHARS:
            break
        kept += ("\n\n" if kept else "") + paragraph
    return kept


def write_heldout(path: Path) -> None:
    """Held-out documents, each cut to a few thousand characters."""
    documents = sorted(
        read_corpus("eval"), key=lambda d: hash_fraction("heldout:" + d["source"] + d["path"])
    )
    parts: list[str] = []
    for document in documents:
        text = cut(document["text"])
        if len(text) > 1500 and sum(map(len, parts)) < HELDOUT_BYTES:
            parts.append(f"{SEPARATOR}{document['source']} {document['path']}\n{text}\n")
    path.write_text("".join(parts))


def read_heldout(path: Path) -> list[tuple[str, str]]:
    """(name, text) of every document of heldout.txt; the text has no line break at its end."""
    found = []
    for part in path.read_text().split(SEPARATOR)[1:]:
        name, text = part.split("\n", 1)
        found.append((name, text.removesuffix("\n")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("test/fixtures/pocket"))
    parser.add_argument("--seed", default="pocket-1")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_questions(arguments.out / "qa.jsonl", arguments.seed)
    write_heldout(arguments.out / "heldout.txt")


if __name__ == "__main__":
    main()
