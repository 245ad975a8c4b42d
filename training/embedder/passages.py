"""Cuts documents into passages, and makes the short texts that ask for them, by rule and seed.

Kinds of anchors: a heading, a question made of one, a definition's question, a sentence that was
taken out of its passage, a few words of a sentence, a word of the dictionary.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import NamedTuple

from training.data.corpus import hash_fraction
from training.data.doc_questions import SENTENCE_END, define
from training.embedder.queries import keywords, question_of, spoken

HEADING, QUESTION, DEFINITION, SENTENCE, KEYWORDS, WORD = range(6)
KINDS = ("heading", "question", "definition", "sentence", "keywords", "word")
SIZES = ((220, 0.25), (480, 0.35), (850, 0.28), (1500, 0.12))
"""Characters that a passage aims at, and how often; 4 to 5 characters are a token."""
CUTS = 3
"""Every document of training is cut so many times, at different places."""


class Pair(NamedTuple):
    """A short text and a passage, both as an embedder would get them."""

    anchor: str
    passage: str
    kind: int


class Passage(NamedTuple):
    """Text of one section. `first`: its section begins with it."""

    titles: tuple[str, ...]
    text: str
    first: bool


def pairs_of(document: dict) -> Iterator[tuple[int, Pair]]:
    """All pairs of a document, each with the number of its cut: equal for equal documents."""
    if document["kind"] == "dictionary":
        yield from ((0, pair) for pair in dictionary_pairs(document))
        return
    # Held-out passages must be no near copies of each other.
    for cut in range(CUTS if document["split"] == "train" else 1):
        rng = random.Random(f"{cut}/{document['source']}/{document['path']}")
        code = document["kind"] == "code"
        for passage in (code_passages if code else prose_passages)(document["text"], rng):
            pairs = (code_pairs if code else prose_pairs)(passage, rng)
            yield from ((cut, pair) for pair in pairs)


def title_of(block: str) -> tuple[int, str] | None:
    """Level and words of a heading, without its number; null for another block."""
    match = re.match(r"(#{1,6}) +(?:[\d.]+\.? +)?(.{2,120})$", block)
    return None if match is None else (len(match[1]), match[2].strip(" #:"))


def prose_passages(text: str, rng: random.Random) -> Iterator[Passage]:
    """Paragraphs of one section joined up to a size that is drawn anew each time."""
    titles: list[tuple[int, str]] = []
    parts: list[str] = []
    wanted, first = draw_size(rng), True
    for block in [*pieces_of(text), "# end"]:
        title = title_of(block)
        if parts and (title is not None or sum(map(len, parts)) + len(block) > wanted * 1.25):
            yield Passage(tuple(name for _, name in titles), "\n\n".join(parts), first)
            parts, wanted, first = [], draw_size(rng), False
        if title is None:
            parts.append(block)
        else:
            titles = [*(known for known in titles if known[0] < title[0]), title]
            first = True


def pieces_of(text: str) -> Iterator[str]:
    """Blocks of a text; those that are too long for any passage, cut at sentences and lines."""
    for block in text.split("\n\n"):
        while len(block) > 1800:
            cut = max(block.rfind(end, 400, 1500) for end in (". ", "\n", " ")) + 1 or 1500
            yield block[:cut].strip()
            block = block[cut:]
        if block.strip():
            yield block.strip()


def draw_size(rng: random.Random) -> int:
    return rng.choices([size for size, _ in SIZES], [share for _, share in SIZES])[0]


def prose_pairs(passage: Passage, rng: random.Random) -> Iterator[Pair]:
    """What asks for a passage: at most four anchors of different kinds."""
    text = passage.text
    if len(text) < 60 or sum(c.isalpha() for c in text) < 0.5 * len(text):
        return
    sentences = [s for s in SENTENCE_END.split(text) if 5 <= len(s.split()) <= 45]
    chosen = rng.choice(sentences) if sentences else None
    shortened = text if chosen is None else text.replace(chosen, "", 1).strip()
    if chosen is not None and len(shortened) >= 100 and rng.random() < 0.6:
        text = shortened
        yield Pair(trimmed(chosen), text, SENTENCE)
    # What the passage no longer says asks for it by other words.
    if chosen is not None and rng.random() < 0.35:
        yield Pair(keywords(chosen, rng), text, KEYWORDS)
    yield from title_pairs(passage.titles, text, passage.first, rng)
    defined = list(filter(None, map(define, SENTENCE_END.split(text))))
    if defined:
        question, _, term = rng.choice(defined)
        yield Pair(question if rng.random() < 0.7 else term, text, DEFINITION)


def title_pairs(
    titles: tuple[str, ...], text: str, first: bool, rng: random.Random
) -> Iterator[Pair]:
    """The section's heading, as it is or as a question, seldom for its later passages."""
    if not titles or rng.random() > (1.0 if first else 0.25):
        return
    title = spoken(titles[-1]) if rng.random() < 0.5 else titles[-1]
    question = question_of(title, rng)
    page = titles[0] if len(titles) > 1 else None
    if question is not None:
        yield Pair(question, text, QUESTION)
    if question is None or rng.random() < 0.3:
        named = f"{page}: {title}" if page is not None and rng.random() < 0.4 else title
        yield Pair(named, text, HEADING)


def code_passages(text: str, rng: random.Random) -> Iterator[Passage]:
    """Runs of whole blocks of source text."""
    parts: list[str] = []
    wanted = draw_size(rng)
    for block in pieces_of(text):
        if parts and sum(map(len, parts)) + len(block) > wanted * 1.25:
            yield Passage((), "\n\n".join(parts), False)
            parts, wanted = [], draw_size(rng)
        parts.append(block)
    if parts:
        yield Passage((), "\n\n".join(parts), False)


COMMENT = re.compile(r'^[ \t]*(?://[/!]?|#|\*|""")[ \t]*([A-Z].{20,160})$', re.M)


def code_pairs(passage: Passage, rng: random.Random) -> Iterator[Pair]:
    """A line of comment that asks for the code around it, without that line."""
    comments = list(COMMENT.finditer(passage.text))
    if not comments:
        return
    comment = rng.choice(comments)
    rest = passage.text[: comment.start()] + passage.text[comment.end() :]
    if len(rest) >= 100:
        yield Pair(comment[1].strip('" .*/'), rest.strip(), SENTENCE)


def trimmed(sentence: str) -> str:
    """Without what marks a list's item."""
    return re.sub(r"^[-*] +", "", " ".join(sentence.split()))


def dictionary_pairs(document: dict) -> Iterator[Pair]:
    """Words, questions on them and examples, each with the gloss."""
    rng = random.Random(f"{document['source']}/{document['path']}")
    for synset in json.loads(document["text"]):
        words, gloss = synset["words"], synset["gloss"]
        word = rng.choice(words)
        text = gloss if rng.random() < 0.6 else f"{', '.join(words)}: {gloss}"
        asked = (f"What is {word}?", f"What does {word} mean?", f"meaning of {word}", word)
        yield Pair(rng.choice(asked), text, WORD)
        if synset["examples"] and hash_fraction(gloss) < 0.7:
            yield Pair(rng.choice(synset["examples"]), f"{word}: {gloss}", WORD)
