"""Questions about real documentation: definitions found by pattern, answered by their sentence."""

import random
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from training.data.chatml import Chat, say
from training.data.names import WORDS, Names
from training.data.questions import CITE_HINTS, REFUSALS, SYSTEMS, layout_passages, layout_question

KINDS = (
    "function|method|option|command|module|class|parameter|directive|type|statement|clause|keyword|attribute"
    "|property|operator|macro|flag|variable|argument|event|object|package|utility|interface|trait|section|field"
)
DEFINITION = re.compile(
    r"^(?:An? |The )?(?P<term>[A-Za-z_`][\w.:()`/-]*(?: [a-z][\w-]*){0,2}) (?P<verb>is|are) "
    r"(?:an? |the |used |one of |similar |like )"
)
ACTION = re.compile(
    rf"^(?:The )?(?P<term>[\w.:()`/-]+(?: [\w-]+)? (?:{KINDS})) "
    r"(?P<verb>returns|specifies|provides|allows|sets|defines|controls|creates|contains|causes|enables|determines"
    r"|describes|represents|adds|removes|takes|gives|supports|implements|reads|writes|checks|converts)\b"
)
STOP_TERMS = re.compile(
    r"^(?:it|this|that|these|those|there|here|what|which|they|he|she|we|you|one|another|following|note|if|when|above"
    r"|all|each|some|both|such|first|second|latter|former|most|so|also|example|result|the|where|although|anything"
    r"|because|since|while|after|before|for|in|on|at|by|as|and|but|or|to|how|value|name|type|cpython|however|then)\b"
    r"|\b(?:that|this|which|and|or|if|is|are|not)\b",
    re.I,
)
KEPT_WORDS = set(
    "what does text say about this that with from used when which will have been into than then they".split()
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


@dataclass(frozen=True)
class Definition:
    """A sentence that says what something is or does, and where it stands."""

    question: str
    sentence: str
    term: str
    paragraph: str
    others: tuple[str, ...]


def prose_paragraphs(text: str) -> list[str]:
    """Paragraphs of running text of a document."""
    found = []
    for paragraph in text.split("\n\n"):
        plain = paragraph.strip()
        if (
            90 <= len(plain) <= 900
            and plain[0] not in "#`-|*<"
            and "\n" not in plain
            and plain.endswith(".")
        ):
            found.append(plain)
    return found


def define(sentence: str) -> tuple[str, str, str] | None:
    """(question, sentence, term) of a sentence if it defines something."""
    if not 40 <= len(sentence) <= 260 or not sentence.endswith("."):
        return None
    action = ACTION.match(sentence)
    match = action or DEFINITION.match(sentence)
    if not match or STOP_TERMS.match(match["term"]) or len(match["term"]) < 3:
        return None
    article = re.match(r"(?:An? |The )?", sentence)[0].lower()
    term = match["term"]
    if action:
        return f"What does the {term} do?", sentence, term
    return f"What {match['verb']} {article}{term}?", sentence, term


def mine(documents: list[dict]) -> list[Definition]:
    """All definitions of the prose documents."""
    found = []
    for document in documents:
        if document["kind"] != "prose":
            continue
        paragraphs = prose_paragraphs(document["text"])
        for index, paragraph in enumerate(paragraphs):
            for question, sentence, term in filter(
                None, map(define, SENTENCE_END.split(paragraph))
            ):
                near = paragraphs[max(0, index - 3) : index] + paragraphs[index + 1 : index + 4]
                others = tuple(p for p in near if term.lower() not in p.lower()[:80])
                found.append(Definition(question, sentence, term, paragraph, others))
    return found


def vary(definition: Definition, rng: random.Random) -> str:
    """The question in one of its wordings."""
    term = definition.term
    if rng.random() < 0.6:
        return definition.question
    return rng.choice(
        (
            f"What does the text say about {term}?",
            f"Explain {term}.",
            f"Tell me about {term}.",
            f"What is said about {term}?",
            f"How does the text describe {term}?",
        )
    )


@lru_cache(maxsize=1)
def lexicon() -> tuple[str, ...]:
    """Common lower-case words of the glossary and of the word list."""
    text = Path(__file__).with_name("glossary.txt").read_text()
    return tuple(sorted({w for w in re.findall(r"\b[a-z]{4,}\b", text)} | set(WORDS)))


def disguise(definition: Definition, names: Names) -> Definition:
    """The definition with some words exchanged, so that it must be read and cannot be remembered."""
    rng = names.rng
    words = [
        w for w in set(re.findall(r"\b[a-z]{4,}\b", definition.sentence)) if w not in KEPT_WORDS
    ]
    rate = rng.choice((0.15, 0.3, 0.5))
    exchange = {w: rng.choice(lexicon()) for w in sorted(words) if rng.random() < rate}
    term = definition.term
    if rng.random() < 0.5:
        core = max(re.findall(r"[\w.-]+", term), key=len)
        exchange[core] = rng.choice((names.library, names.word, names.service, names.product))()
    pattern = re.compile(r"\b[A-Za-z_][\w.-]*\w\b")
    swap = lambda text: pattern.sub(lambda m: exchange.get(m[0], m[0]), text)  # noqa: E731
    return replace(
        definition,
        question=swap(definition.question),
        sentence=swap(definition.sentence),
        term=swap(term),
        paragraph=swap(definition.paragraph),
    )


def document_chat(definitions: list[Definition], names: Names) -> Chat:
    """A chat with passages of documentation and a question that one of them answers, or none."""
    rng = names.rng
    definition = rng.choice(definitions)
    if rng.random() < 0.85:
        definition = disguise(definition, names)
    others = list(definition.others)
    if rng.random() < 0.5:
        others += [rng.choice(definitions).paragraph for _ in range(rng.randint(1, 3))]
    rng.shuffle(others)
    others = [p for p in others if definition.term.lower() not in p.lower()][: rng.randint(0, 4)]
    absent = rng.random() < 0.08 and len(others) > 0
    passages = others + ([] if absent else [definition.paragraph])
    rng.shuffle(passages)
    cited = rng.random() < 0.25
    answer = definition.sentence
    if absent:
        answer = REFUSALS[len(passages) > 1]
    elif cited:
        answer += f" [{passages.index(definition.paragraph) + 1}]"
    context = layout_passages(passages, names, numbered=cited)
    content = layout_question(
        context, vary(definition, rng), rng.choice(CITE_HINTS) if cited else "", rng
    )
    messages = [say("system", rng.choice(SYSTEMS))] if rng.random() < 0.4 else []
    return Chat([*messages, say("user", content), say("assistant", answer)], task="doc-qa")


def closed_book_chat(definitions: list[Definition], names: Names) -> Chat:
    """A definition asked without a passage: teaches tone, not facts."""
    definition = names.rng.choice(definitions)
    question = names.rng.choice(
        (
            definition.question,
            f"Explain {definition.term}.",
            f"Describe {definition.term} in one sentence.",
        )
    )
    return Chat([say("user", question), say("assistant", definition.sentence)], task="closed-book")


def mine_headings(documents: list[dict]) -> list[tuple[str, str]]:
    """(heading, first paragraph under it) of the prose documents."""
    found = []
    for document in documents:
        blocks = document["text"].split("\n\n") if document["kind"] == "prose" else []
        for heading, paragraph in zip(blocks, blocks[1:]):
            title = re.sub(r"^#+ (?:[\d.]+ )?|#$", "", heading).strip(" .:")
            if (
                heading.startswith("#")
                and 4 <= len(title) <= 50
                and 150 <= len(paragraph) <= 900
                and paragraph[0].isupper()
                and paragraph.endswith(".")
                and "\n" not in paragraph
            ):
                found.append((title, paragraph))
    return found


def heading_chat(headings: list[tuple[str, str]], names: Names) -> Chat:
    """A short paragraph of documentation on request: teaches to write prose in a chat."""
    title, paragraph = names.rng.choice(headings)
    prompt = names.rng.choice(
        (
            'Write a short paragraph about "{}".',
            'Write the beginning of a section called "{}".',
            'Write documentation for "{}".',
            'Tell me something about "{}".',
        )
    )
    return Chat([say("user", prompt.format(title)), say("assistant", paragraph)], task="writing")
