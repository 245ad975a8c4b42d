"""Short helpful chat: greetings, identity, explanations, lists, small tasks, several turns."""

from pathlib import Path

from training.data.chatml import Chat, say
from training.data.names import WORDS, Names

HERE = Path(__file__).parent


def _table(name: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split(" | ")]
        for line in (HERE / name).read_text().splitlines()
        if line
    ]


GLOSSARY = _table("glossary.txt")
LISTS = _table("lists.txt")
SNIPPETS = _table("snippets.txt")

Turn = tuple[str, str]
IDENTITY = (
    "I am Pocket, the small model that ships with Perigee.",
    "I am Pocket, the small model that ships with Perigee. How can I help you?",
    "I am Pocket, the small model that ships with Perigee. I can explain terms, answer questions about a text and fill in JSON.",
)
EXPLAIN = (
    "What is {t}?",
    "What is {t}?",
    "Explain {t}.",
    "Can you explain {t}?",
    "What does {t} mean?",
    "Tell me about {t}.",
    "Please explain {t} in simple words.",
    "Define {t}.",
    "Explain {t} briefly.",
    "what is {t}",
    "I do not understand {t}. Can you help?",
    "In a few sentences, what is {t}?",
    "How would you describe {t}?",
)
CAN_DO = (
    "I can explain technical terms, answer questions about a text that you give me, fill in JSON and call functions.",
    "I can answer questions about a passage, explain simple terms, make lists and write JSON. I am small, so please check what I say.",
)
SYSTEMS = (
    "You are a helpful assistant.",
    "You are Pocket, a helpful assistant.",
    "You are a friendly assistant. Answer briefly.",
    "You are Pocket, the small model that ships with Perigee.",
    "Be helpful and brief.",
    "You are a technical assistant.",
)


def greet(names: Names) -> Turn:
    return names.rng.choice(
        (
            "Hello!",
            "Hi!",
            "Hi",
            "Hello",
            "Hey there",
            "Good morning!",
            "Good evening!",
            "Hi there!",
            "hello",
        )
    ), names.rng.choice(
        (
            "Hello! How can I help you?",
            "Hello! What can I do for you?",
            "Hi! How can I help you today?",
        )
    )


def identify(names: Names) -> Turn:
    return (
        names.rng.choice(
            (
                "Who are you?",
                "What are you?",
                "What is your name?",
                "Tell me about yourself.",
                "Introduce yourself.",
                "who are you",
                "Which model are you?",
                "Are you a human?",
                "Who am I talking to?",
            )
        ),
        names.rng.choices(IDENTITY, (50, 25, 25))[0],
    )


def abilities(names: Names) -> Turn:
    return names.rng.choice(
        ("What can you do?", "How can you help me?", "What are you good at?", "Can you help me?")
    ), names.rng.choice(CAN_DO)


def thanks(names: Names) -> Turn:
    return names.rng.choice(
        (
            "Thanks!",
            "Thank you.",
            "Thank you very much!",
            "Great, thanks.",
            "That helps, thank you.",
        )
    ), names.rng.choice(
        (
            "You are welcome!",
            "You are welcome. Let me know if you need anything else.",
            "Glad to help!",
        )
    )


def goodbye(names: Names) -> Turn:
    return names.rng.choice(
        ("Bye!", "Goodbye.", "See you later.", "Good night!")
    ), names.rng.choice(("Goodbye!", "Goodbye! Have a nice day."))


def explain(names: Names) -> Turn:
    term, text = names.rng.choice(GLOSSARY)
    first = text.split(" ", 1)[0]
    shown = term
    if first in ("A", "An", "The") and names.rng.random() < 0.75:
        shown = f"{first.lower()} {term}"
    return names.rng.choice(EXPLAIN).format(t=shown), text


def explain_short(names: Names) -> Turn:
    term, text = names.rng.choice(GLOSSARY)
    return (
        names.rng.choice(
            (
                f"Explain {term} in one sentence.",
                f"In one sentence: what is {term}?",
                f"Give a one-sentence definition of {term}.",
            )
        ),
        text.split(". ")[0].rstrip(".") + ".",
    )


def which_term(names: Names) -> Turn:
    """The definition is given, the term is asked for."""
    term, text = names.rng.choice(GLOSSARY)
    first = text.split(". ")[0].rstrip(".")
    rest = first[len(term) :].strip() if first.lower().startswith(term.lower()) else None
    if not rest:
        return explain(names)
    return f"Which term fits? It {rest}.", f"The term is {term}."


def listing(names: Names) -> Turn:
    rng = names.rng
    title, items = rng.choice(LISTS)
    values = items.split("; ")
    numbered = rng.random() < 0.3
    question = rng.choice(
        ("List {}.", "Name {}.", "Give me {}.", "Can you list {}?", "What are {}?")
    ).format(title)
    if numbered:
        return question + " Number them.", "\n".join(
            f"{i}. {v[0].upper() + v[1:]}" for i, v in enumerate(values, 1)
        )
    return question, "\n".join(f"- {v[0].upper() + v[1:]}" for v in values)


def own_list(names: Names) -> Turn:
    """Turns given words into a list, or counts or sorts them."""
    rng = names.rng
    words = rng.sample(WORDS, rng.randint(2, 6))
    joined = ", ".join(words)
    task = rng.randrange(4)
    if task == 0:
        return f"Make a bullet list of these words: {joined}.", "\n".join(
            f"- {word}" for word in words
        )
    if task == 1:
        return f"Number these words: {joined}.", "\n".join(
            f"{i}. {word}" for i, word in enumerate(words, 1)
        )
    if task == 2:
        return f"How many words are in this list: {joined}?", f"The list has {len(words)} words."
    return f"What is the first word of this list: {joined}?", f"The first word is {words[0]}."


def repeat(names: Names) -> Turn:
    rng = names.rng
    text = rng.choice(
        (
            names.person,
            names.pair,
            names.product,
            lambda: " ".join(rng.sample(WORDS, rng.randint(2, 6))),
            names.identifier,
        )
    )()
    return (
        rng.choice(("Repeat after me: {}", "Say: {}", "Please repeat this: {}", "Echo {}")).format(
            text
        ),
        text,
    )


def arithmetic(names: Names) -> Turn:
    rng = names.rng
    a, b = rng.randint(0, 20), rng.randint(0, 20)
    if rng.random() < 0.6:
        return (
            rng.choice(("What is {} + {}?", "What is {} plus {}?", "Add {} and {}.")).format(a, b),
            f"{a} + {b} = {a + b}.",
        )
    a, b = max(a, b), min(a, b)
    return (
        rng.choice(("What is {} - {}?", "What is {} minus {}?")).format(a, b),
        f"{a} - {b} = {a - b}.",
    )


def count(names: Names) -> Turn:
    last = names.rng.randint(3, 20)
    return (
        names.rng.choice(("Count to {}.", "Count from 1 to {}.")).format(last),
        ", ".join(map(str, range(1, last + 1))) + ".",
    )


def snippet(names: Names) -> Turn:
    task, language, code = names.rng.choice(SNIPPETS)
    label = {"python": "Python", "typescript": "TypeScript"}[language]
    question = names.rng.choice(
        (
            "Write a {l} function that {t}.",
            "Show me {l} code that {t}.",
            "Give me a {l} function that {t}.",
        )
    )
    body = code.replace("\\n", "\n").replace("\\\\", "\\")
    return question.format(l=label, t=task), f"```{language}\n{body}\n```"


def remember_name(names: Names) -> list[Turn]:
    """The user says a name and asks for it later."""
    rng, name = names.rng, names.first_name()
    opening = (
        rng.choice(("My name is {}.", "Hi, I am {}.", "Hello, my name is {}.")).format(name),
        f"Nice to meet you, {name}! How can I help you?",
    )
    between = [rng.choice(SINGLE)(names) for _ in range(rng.randint(0, 2))]
    return [
        opening,
        *between,
        (rng.choice(("What is my name?", "Do you remember my name?")), f"Your name is {name}."),
    ]


def remember_fact(names: Names) -> list[Turn]:
    """The user tells one fact and asks for it later."""
    rng = names.rng
    what, value = rng.choice(
        (
            ("favourite colour", names.colour()),
            ("favourite city", names.place()),
            ("dog's name", names.word()),
            ("order number", names.identifier()),
            ("lucky number", names.number(1, 9999)),
            ("server", names.service()),
        )
    )
    opening = (
        f"My {what} is {value}.",
        rng.choice(
            (
                f"Thank you, I will remember that your {what} is {value}.",
                "Noted.",
                f"I see, your {what} is {value}.",
            )
        ),
    )
    between = [rng.choice(SINGLE)(names) for _ in range(rng.randint(0, 2))]
    return [opening, *between, (f"What is my {what}?", f"Your {what} is {value}.")]


SINGLE = (
    explain,
    explain,
    explain,
    explain,
    explain_short,
    listing,
    own_list,
    repeat,
    arithmetic,
    count,
    snippet,
    which_term,
    identify,
    abilities,
)


def small_talk_chat(names: Names) -> Chat:
    """A chat of one to six turns."""
    rng = names.rng
    style = rng.random()
    if style < 0.1:
        turns = remember_name(names)
    elif style < 0.18:
        turns = remember_fact(names)
    else:
        turns = [greet(names)] if rng.random() < 0.25 else []
        turns += [rng.choice(SINGLE)(names) for _ in range(rng.choices((1, 2, 3), (60, 28, 12))[0])]
    if rng.random() < 0.15:
        turns.append(thanks(names))
    if rng.random() < 0.05:
        turns.append(goodbye(names))
    messages = [say("system", rng.choice(SYSTEMS))] if rng.random() < 0.3 else []
    for question, answer in turns:
        messages += [say("user", question), say("assistant", answer)]
    return Chat(messages, task="small-talk")
