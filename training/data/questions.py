"""Questions that a passage in the prompt answers: one passage or several, short or cited answers."""

import random
from dataclasses import dataclass

from training.data.attributes import ATTRIBUTES
from training.data.chatml import Chat, say
from training.data.frames import FRAMES, Frame, Thing, answer_sentence, ask, describe, make_thing
from training.data.names import Names

SYSTEMS = (
    "Answer the question from the passage.",
    "Answer questions using only the given context.",
    "You answer questions about the passages that the user gives you. Keep the answer short.",
    "Use the context to answer. If the context does not contain the answer, say so.",
    "You are a helpful assistant. Answer from the documents.",
    "You are a helpful assistant.",
    "Answer the user's question with the help of the passages below. Be brief.",
)
SENTENCE_HINTS = (
    "Answer in a full sentence.",
    "Answer with a complete sentence.",
    "Give the answer as a sentence.",
)
SHORT_HINTS = (
    "Answer briefly.",
    "Answer in a few words.",
    "Give a short answer.",
    "Answer with the exact words of the passage.",
)
CITE_HINTS = (
    "Cite the passage, like [1].",
    "Name the number of the passage in brackets.",
    "Cite your source by its number.",
    "Add the number of the passage that you used, like [2].",
)
REFUSALS = {False: "The passage does not say.", True: "The passages do not say."}


@dataclass
class Story:
    """Things with one passage each; `target` is the one that is asked about."""

    things: list[Thing]
    passages: list[str]
    target: int
    together: bool
    """Whether all things are told in one passage."""


def make_story(names: Names, passage_count: int) -> Story:
    """A target thing among others, many of its own kind, so that binding matters."""
    rng = names.rng
    frame = rng.choice(FRAMES)
    things: list[Thing] = []
    for _ in range(passage_count):
        kind = frame if rng.random() < 0.5 else rng.choice(FRAMES)
        things.append(make_thing(kind, names, rng.randint(2, 6)))
    target = rng.randrange(passage_count)
    if things[target].frame is not frame:
        things[target] = make_thing(frame, names, rng.randint(2, 6))
    together = passage_count > 1 and rng.random() < 0.35 and passage_count <= 3
    passages = [describe(thing, rng) for thing in things]
    if together:
        passages = [rng.choice((" ", "\n\n", "\n")).join(passages)]
    return Story(things, passages, target, together)


def layout_passages(passages: list[str], names: Names, numbered: bool) -> str:
    """Passages as a prompt lists them."""
    rng = names.rng
    if len(passages) == 1 and not numbered:
        return passages[0]
    style = rng.randrange(5)
    if style == 0:
        blocks = [f"[{i}] {p}" for i, p in enumerate(passages, 1)]
    elif style == 1:
        blocks = [f"[{i}] {names.service()}.md\n{p}" for i, p in enumerate(passages, 1)]
    elif style == 2:
        blocks = [f'<passage id="{i}">\n{p}\n</passage>' for i, p in enumerate(passages, 1)]
    elif style == 3:
        blocks = [f"Passage {i}:\n{p}" for i, p in enumerate(passages, 1)]
    else:
        blocks = [f"[{i}]\n{p}" for i, p in enumerate(passages, 1)]
    return "\n\n".join(blocks)


def layout_question(context: str, question: str, hint: str, rng: random.Random) -> str:
    """The user's message: context and question in one of many layouts."""
    asked = f"{question} {hint}".strip()
    return rng.choice(
        (
            f"{context}\n\n{asked}",
            f"{context}\n\nQuestion: {asked}",
            f"Context:\n{context}\n\nQuestion: {asked}",
            f"Passage: {context}\n\nQuestion: {asked}",
            f"Passages:\n{context}\n\nQuestion: {asked}",
            f"Context:\n{context}\n\nQuestion: {asked}\nAnswer:",
            f"{asked}\n\n{context}",
            f"Question: {asked}\n\nContext:\n{context}",
            f"Read this.\n\n{context}\n\n{asked}",
            f"Use the text to answer the question.\n\nText:\n{context}\n\nQuestion: {asked}",
            f"Answer the question from the passages.\n\n{context}\n\nQuestion: {asked}",
        )
    )


def missing_key(frame: Frame, thing: Thing, rng: random.Random) -> str | None:
    """A fact that the passage does not give."""
    absent = [key for key in frame.keys if key not in thing.facts]
    return rng.choice(absent) if absent else None


def passage_count(rng: random.Random) -> int:
    return rng.choices((1, 2, 3, 4, 5, 6), (45, 18, 14, 12, 7, 4))[0]


def question_chat(names: Names) -> Chat:
    """A chat with one to eight questions about the same passages."""
    rng = names.rng
    story = make_story(names, passage_count(rng))
    many = len(story.passages) > 1
    style = rng.choices(("short", "hinted", "sentence", "cited"), (42, 18, 18, 22))[0]
    if style == "cited" and story.together:
        style = "short"
    hint = {
        "short": "",
        "hinted": rng.choice(SHORT_HINTS),
        "sentence": rng.choice(SENTENCE_HINTS),
        "cited": rng.choice(CITE_HINTS),
    }[style]
    context = layout_passages(story.passages, names, numbered=style == "cited")
    in_system = bool(hint) and rng.random() < 0.3
    messages = []
    if in_system:
        messages.append(say("system", f"{rng.choice(SYSTEMS)} {hint}"))
    elif rng.random() < 0.4:
        messages.append(say("system", rng.choice(SYSTEMS)))
    for turn in range(rng.choices((1, 2, 3, 4, 6, 8), (32, 20, 16, 12, 10, 10))[0]):
        index = story.target if turn == 0 else rng.randrange(len(story.things))
        question, answer = one_question(story.things[index], names, style, index, many)
        if turn == 0:
            question = layout_question(context, question, "" if in_system else hint, rng)
        messages += [say("user", question), say("assistant", answer)]
    return Chat(messages, task="qa")


def one_question(thing: Thing, names: Names, style: str, index: int, many: bool) -> tuple[str, str]:
    """A question about a thing, and its answer in the given style."""
    rng = names.rng
    absent = missing_key(thing.frame, thing, rng)
    if absent and rng.random() < 0.13:
        return ask(ATTRIBUTES[absent], thing.name, rng), REFUSALS[many]
    key = rng.choice(list(thing.facts))
    attribute, value = ATTRIBUTES[key], thing.facts[key]
    if rng.random() < 0.04:
        return yes_no(thing, key, names)
    answer = value
    if style == "sentence":
        answer = answer_sentence(attribute, thing.name, value)
    elif style == "cited":
        answer = f"{value} [{index + 1 if many else 1}]"
    return ask(attribute, thing.name, rng), answer


def yes_no(thing: Thing, key: str, names: Names) -> tuple[str, str]:
    """A question that is answered by yes or no, with the value."""
    attribute, value = ATTRIBUTES[key], thing.facts[key]
    truth = names.rng.random() < 0.5
    shown = value if truth else attribute.draw(names)
    sentence = answer_sentence(attribute, thing.name, shown).rstrip(".")
    question = f"Is this right: {sentence}?"
    if shown == value:
        return question, "Yes."
    return question, "No. " + answer_sentence(attribute, thing.name, value)


def completion_text(names: Names) -> str:
    """The same task as plain text, for raw completions."""
    rng = names.rng
    story = make_story(names, rng.choice((1, 1, 2)))
    context = "\n\n".join(story.passages)
    lines = [f"Passage: {context}"]
    for _ in range(rng.randint(1, 4)):
        question, answer = one_question(rng.choice(story.things), names, "short", 0, False)
        lines.append(f"Question: {question}\nAnswer: {answer}")
    return "\n\n".join(lines)


def heldout_question(names: Names, unanswerable: bool) -> dict:
    """One evaluation item: open values only, answer short."""
    rng = names.rng
    while True:
        story = make_story(names, passage_count(rng))
        thing = story.things[story.target]
        keys = [
            key
            for key in thing.facts
            if not ATTRIBUTES[key].closed and key not in ("cause", "award", "room", "team")
        ]
        absent = missing_key(thing.frame, thing, rng)
        if (unanswerable and absent is None) or not keys:
            continue
        key = absent if unanswerable else rng.choice(keys)
        many = len(story.passages) > 1
        question = ask(ATTRIBUTES[key], thing.name, rng)
        content = layout_question(
            layout_passages(story.passages, names, False),
            question,
            rng.choice(("", *SHORT_HINTS)),
            rng,
        )
        messages = [say("system", rng.choice(SYSTEMS))] if rng.random() < 0.5 else []
        return {
            "question": question,
            "answer": REFUSALS[many] if unanswerable else thing.facts[key],
            "answerable": not unanswerable,
            "fact": key,
            "passages": story.passages,
            "messages": [*messages, say("user", content)],
        }
