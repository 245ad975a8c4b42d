"""Kinds of invented things, and passages that tell several facts about some of them."""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from training.data.attribute import Attribute
from training.data.attributes import ATTRIBUTES
from training.data.names import Names


@dataclass(frozen=True)
class Frame:
    """A kind of thing: how it is named, and which facts it can have."""

    noun: str
    name: Callable[[Names], str]
    keys: tuple[str, ...]
    person: bool = False


def _frame(noun: str, name: Callable[[Names], str], keys: str, person: bool = False) -> Frame:
    return Frame(noun, name, tuple(keys.split()), person)


def _suffixed(draw: Callable[[Names], str], *ends: str) -> Callable[[Names], str]:
    return lambda n: f"the {draw(n)} {n.rng.choice(ends)}"


F = _frame
FRAMES: list[Frame] = [
    F(
        "lighthouse",
        _suffixed(Names.place, "lighthouse"),
        "year_built location architect height visitors colour material",
    ),
    F(
        "bridge",
        _suffixed(Names.pair, "Bridge", "bridge"),
        "year_built location architect length budget material colour code",
    ),
    F(
        "museum",
        _suffixed(Names.place, "Museum", "museum"),
        "year_founded founder location visitors director opening price capacity",
    ),
    F(
        "tower",
        _suffixed(Names.last_name, "Tower"),
        "year_built location architect height material visitors owner",
    ),
    F("town", Names.place, "population year_founded founder director code"),
    F(
        "company",
        Names.company,
        "year_founded founder headquarters employees product director award",
    ),
    F("startup", Names.product, "year_founded founder headquarters employees budget director"),
    F("person", Names.person, "birthplace birth_year employer occupation email award", True),
    F("scientist", Names.person, "birthplace birth_year employer award email", True),
    F(
        "service",
        Names.service,
        "port timeout address memory team depends_on storage limit language version maintainer file",
    ),
    F(
        "service",
        _suffixed(Names.service, "service"),
        "port timeout memory team depends_on storage limit language owner",
    ),
    F("library", Names.library, "version author release_date license language maintainer command"),
    F(
        "tool",
        Names.product,
        "version author release_date license language command file maintainer price",
    ),
    F(
        "server",
        lambda n: "server " + n.identifier(),
        "address memory location owner temperature port",
    ),
    F("database", lambda n: n.product(), "version port memory maintainer file limit storage"),
    F(
        "incident",
        lambda n: "incident " + n.identifier(),
        "cause duration start_time director date",
    ),
    F(
        "meeting",
        _suffixed(Names.pair, "meeting", "workshop", "review"),
        "date start_time duration room speaker capacity",
    ),
    F(
        "conference",
        _suffixed(Names.pair, "conference", "congress", "summit"),
        "date location speaker price visitors duration room",
    ),
    F(
        "project",
        lambda n: "project " + n.pair(),
        "budget deadline director duration headquarters code",
    ),
    F(
        "order",
        lambda n: "order " + n.identifier(),
        "customer total date deadline weight destination",
    ),
    F("invoice", lambda n: "invoice " + n.identifier(), "customer total deadline date code"),
    F(
        "book",
        lambda n: "the book " + n.owned(lambda: f"{n.rng.choice(('The', 'A', 'My'))} {n.pair()}"),
        "author release_date price weight award code",
    ),
    F(
        "ship",
        _suffixed(Names.pair, "ferry", "ship", "schooner"),
        "captain home_port speed length year_built capacity destination",
    ),
    F(
        "phone",
        lambda n: "the " + n.product(),
        "price weight battery warranty colour release_date memory",
    ),
    F(
        "robot",
        lambda n: "the robot " + n.product(),
        "price weight height speed battery owner maintainer",
    ),
    F(
        "mountain",
        lambda n: n.owned(lambda: "Mount " + n.syllables(1, 3).capitalize()),
        "height location discovered_by visitors",
    ),
    F(
        "river",
        _suffixed(Names.word, "River", "river"),
        "length location discovered_by temperature speed",
    ),
    F("comet", _suffixed(Names.last_name, "comet"), "discovered_by speed length date temperature"),
    F(
        "course",
        _suffixed(Names.pair, "course"),
        "teacher students price start_time duration room code",
    ),
    F(
        "train",
        lambda n: "train " + n.identifier(),
        "platform destination start_time speed capacity duration",
    ),
    F(
        "hotel",
        _suffixed(Names.pair, "Hotel"),
        "location price capacity owner year_built opening employees",
    ),
    F(
        "restaurant",
        _suffixed(Names.word, "restaurant", "cafe", "bakery"),
        "location owner opening capacity year_founded price",
    ),
    F(
        "trail",
        _suffixed(Names.pair, "Trail", "trail"),
        "length location duration height destination",
    ),
    F(
        "statue",
        _suffixed(Names.last_name, "statue", "fountain"),
        "architect height material location year_built weight",
    ),
    F(
        "school",
        _suffixed(Names.place, "School", "Institute"),
        "year_founded founder students director location budget",
    ),
    F(
        "festival",
        _suffixed(Names.pair, "festival"),
        "date location visitors price director duration",
    ),
    F(
        "telescope",
        _suffixed(Names.last_name, "telescope"),
        "year_built location weight length director budget discovered_by",
    ),
    F(
        "sensor",
        lambda n: "sensor " + n.identifier(),
        "location temperature battery address owner price",
    ),
    F("farm", _suffixed(Names.last_name, "farm"), "owner location employees year_founded product"),
    F(
        "plugin",
        lambda n: "the " + n.library() + " plugin",
        "version author language license command release_date limit",
    ),
]


@dataclass
class Thing:
    """An invented thing with its facts."""

    frame: Frame
    name: str
    facts: dict[str, str]
    pronoun: str


def make_thing(frame: Frame, names: Names, count: int) -> Thing:
    """A thing with `count` facts, fewer when its kind has fewer."""
    keys = names.rng.sample(frame.keys, min(count, len(frame.keys)))
    pronoun = names.rng.choice(("she", "he")) if frame.person else "it"
    return Thing(
        frame, frame.name(names), {key: ATTRIBUTES[key].draw(names) for key in keys}, pronoun
    )


def sentence_case(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[0].upper() + text[1:]


POSSESSIVES = {"it": "its", "she": "her", "he": "his"}
OF_SUBJECT = re.compile(r"^The ([a-z ]+?) of \{n\} ")


def state(attribute: Attribute, thing: Thing, subject: str, value: str, rng: random.Random) -> str:
    """One sentence that states a fact about a thing, which `subject` refers to."""
    template = rng.choice(attribute.statements)
    owned = OF_SUBJECT.match(template)
    if owned and (subject in POSSESSIVES or rng.random() < 0.35):
        template = OF_SUBJECT.sub(rf"{{n}} \1 ", template)
        subject = POSSESSIVES.get(subject, subject + "'s")
    elif subject in ("she", "he") and not template.startswith("{n} "):
        subject = thing.name
    return full_stop(sentence_case(template.format(n=subject, v=value)))


def full_stop(text: str) -> str:
    """The text with exactly one full stop at its end."""
    return text if text.endswith(".") else text + "."


def subject_for(thing: Thing, index: int, rng: random.Random) -> str:
    """How sentence `index` about a thing refers to it."""
    style = rng.random()
    if index == 0 or style < 0.35:
        return thing.name
    if style < 0.65:
        return thing.pronoun
    return thing.name.split(" ")[0] if thing.frame.person else f"the {thing.frame.noun}"


def intro(thing: Thing, rng: random.Random) -> str:
    """An opening sentence without facts, or nothing."""
    if rng.random() < 0.65:
        return ""
    noun = thing.frame.noun
    article = "an" if noun[0] in "aeiou" else "a"
    return sentence_case(
        rng.choice(
            (
                f"{thing.name} is {article} {noun}.",
                f"{thing.name} is {article} {noun} that many people know.",
                f"this note is about {thing.name}.",
                f"here is what is known about {thing.name}.",
                f"few have heard of {thing.name}, {article} {noun}.",
                f"the following concerns {thing.name}, {article} {noun}.",
            )
        )
    )


FILLERS = (
    "This was confirmed last week.",
    "The details were checked twice.",
    "Nobody has questioned this so far.",
    "More information will follow.",
    "The report does not go into detail.",
    "This has not changed for a long time.",
    "Local newspapers wrote about it.",
    "Some people were surprised by this.",
    "A longer description is in the archive.",
    "The team plans to review this next year.",
    "It took some time to find this out.",
    "Several users have asked about this.",
    "The documentation covers this in a later chapter.",
    "An earlier note had a mistake, which is now corrected.",
    "All of this is public.",
    "There was some discussion about it.",
    "The weather was good at the time.",
)


def describe(thing: Thing, rng: random.Random) -> str:
    """A paragraph that states every fact of a thing, at times with fillers between."""
    sentences = [intro(thing, rng)]
    keys = list(thing.facts)
    rng.shuffle(keys)
    filler_rate = rng.choice((0.0, 0.0, 0.15, 0.35))
    for index, key in enumerate(keys):
        subject = subject_for(thing, index + bool(sentences[0]), rng)
        sentences.append(state(ATTRIBUTES[key], thing, subject, thing.facts[key], rng))
        if rng.random() < filler_rate:
            sentences.append(rng.choice(FILLERS))
    if rng.random() < 0.3 and len(keys) >= 2:
        sentences = merge_two(sentences, thing, rng)
    return " ".join(s for s in sentences if s)


def merge_two(sentences: list[str], thing: Thing, rng: random.Random) -> list[str]:
    """Joins two neighbouring sentences with a conjunction."""
    index = rng.randrange(1, len(sentences) - 1)
    first, second = sentences[index], sentences[index + 1]
    if second in FILLERS or first in FILLERS:
        return sentences
    keep_case = second.startswith(thing.name) or not second.startswith(
        ("The ", "It ", "Its ", "She ", "He ", "Her ", "His ")
    )
    second = second if keep_case else second[0].lower() + second[1:]
    joined = first.rstrip(".") + rng.choice((", and ", "; ", ", while ")) + second
    return sentences[:index] + [joined] + sentences[index + 2 :]


def ask(attribute: Attribute, name: str, rng: random.Random) -> str:
    """One question for a fact."""
    question = attribute.questions[0] if rng.random() < 0.4 else rng.choice(attribute.questions)
    return sentence_case(question.format(n=name))


def answer_sentence(attribute: Attribute, name: str, value: str) -> str:
    """The plain full-sentence answer."""
    return full_stop(sentence_case(attribute.statements[0].format(n=name, v=value)))
