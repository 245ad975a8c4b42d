"""JSON tasks: fill a template or a schema from a text; turn records, logs and lists into JSON."""

import json
import re
from collections.abc import Callable
from typing import Any

from training.data.chatml import Chat, say
from training.data.frames import FRAMES, describe, make_thing
from training.data.names import WORDS, Names

INTRO = (
    "Extract the following fields as JSON: {fields}.",
    "Return a JSON object with the keys {fields}.",
    "Read the text and give me {fields} as JSON.",
    "Fill in a JSON object with {fields}.",
    "Extract {fields} from the text. Answer with JSON only.",
    "Turn the text into JSON with the keys {fields}.",
)
TEMPLATE_INTRO = (
    "Fill in this JSON from the text:\n{template}",
    "Complete the JSON template.\n{template}",
    "Use the text to fill this JSON object. Use null for what is missing.\n{template}",
)
SCHEMA_INTRO = (
    "Answer with JSON that matches this schema:\n{schema}",
    "Extract the data. JSON schema:\n{schema}",
    "Respond in JSON according to this JSON schema:\n{schema}",
)
SYSTEMS = (
    "You extract data and answer in JSON.",
    "Answer with valid JSON only.",
    "You are a helpful assistant.",
    "You turn text into JSON. Write nothing but the JSON object.",
)
NUMERIC = {
    "year_built",
    "year_founded",
    "birth_year",
    "visitors",
    "employees",
    "population",
    "capacity",
    "port",
    "limit",
    "students",
    "platform",
}


def typed(key: str, value: str) -> Any:
    """The JSON value of a fact: a number where the fact is a bare number."""
    return int(value.replace(",", "")) if key in NUMERIC else value


def type_name(value: Any) -> str:
    """The JSON-schema type of a value."""
    return {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}.get(
        type(value), "string"
    )


def schema_of(record: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema that the record matches."""
    properties: dict[str, Any] = {}
    for key, value in record.items():
        properties[key] = {"type": type_name(value)}
        if isinstance(value, list):
            properties[key]["items"] = (
                schema_of(value[0]) if isinstance(value[0], dict) else {"type": type_name(value[0])}
            )
    return {"type": "object", "properties": properties, "required": list(record)}


def empty_like(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its values blanked."""
    return {key: {int: 0, list: []}.get(type(value), "") for key, value in record.items()}


def style_key(key: str, style: int) -> str:
    """A key in snake_case or camelCase."""
    return key if style < 2 else re.sub(r"_(\w)", lambda m: m[1].upper(), key)


def record_from_thing(names: Names) -> tuple[str, dict[str, Any]]:
    """A described thing, and the record of some of its facts (null for one it lacks, at times)."""
    rng = names.rng
    frame = rng.choice(FRAMES)
    thing = make_thing(frame, names, rng.randint(2, 6))
    style = rng.randrange(3)
    record: dict[str, Any] = {}
    if rng.random() < 0.6:
        record["name"] = re.sub(
            r"^(the|server|train|order|invoice|incident|project|sensor) ", "", thing.name
        )
        if record["name"] != thing.name and not thing.name.startswith("the "):
            record["name"] = thing.name
    keys = rng.sample(list(thing.facts), rng.randint(1, len(thing.facts)))
    for key in keys:
        record[style_key(key, style)] = typed(key, thing.facts[key])
    absent = [key for key in frame.keys if key not in thing.facts]
    if absent and rng.random() < 0.15:
        record[style_key(rng.choice(absent), style)] = None
    items = list(record.items())
    if rng.random() < 0.5:
        rng.shuffle(items)
    return describe(thing, rng), dict(items)


FIELDS: dict[str, Callable[[Names], Any]] = {
    "name": Names.person,
    "email": Names.email,
    "city": Names.place,
    "company": Names.company,
    "age": lambda n: int(n.number(18, 99)),
    "id": Names.identifier,
    "date": Names.iso_date,
    "active": lambda n: n.rng.random() < 0.5,
    "product": Names.product,
    "quantity": lambda n: int(n.number(1, 500)),
    "version": Names.version,
    "port": lambda n: int(n.number(1024, 65000)),
    "host": Names.address,
    "service": Names.service,
    "colour": Names.colour,
    "code": Names.identifier,
    "year": lambda n: int(n.year()),
    "owner": Names.first_name,
    "status": lambda n: n.rng.choice(("open", "closed", "pending", "done", "failed", "running")),
    "priority": lambda n: n.rng.choice(("low", "medium", "high")),
    "day": Names.weekday,
    "title": Names.pair,
    "price": lambda n: n.rng.randint(1, 9999) / 100,
    "country": Names.word,
    "tag": lambda n: n.rng.choice(WORDS),
}


def random_record(names: Names, least: int = 2, most: int = 6) -> dict[str, Any]:
    """A record of random known fields."""
    keys = names.rng.sample(list(FIELDS), names.rng.randint(least, most))
    return {key: FIELDS[key](names) for key in keys}


def shown(value: Any) -> str:
    """A value as running text shows it."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def record_from_lines(names: Names) -> tuple[str, dict[str, Any]]:
    """A record written as `key: value` lines, pairs, or a sentence list."""
    record = random_record(names)
    style = names.rng.randrange(4)
    pairs = [(key, shown(value)) for key, value in record.items()]
    if style == 0:
        return "\n".join(f"{key}: {value}" for key, value in pairs), record
    if style == 1:
        return "\n".join(f"{key.capitalize()} = {value}" for key, value in pairs), record
    if style == 2:
        return " ".join(f"The {key} is {value}." for key, value in pairs), record
    return ", ".join(f"{key} {value}" for key, value in pairs), record


def record_from_order(names: Names) -> tuple[str, dict[str, Any]]:
    """An order with a list of items."""
    rng = names.rng
    items = [
        {"product": names.product(), "quantity": int(names.number(1, 60))}
        for _ in range(rng.randint(1, 4))
    ]
    customer = names.person()
    listing = ", ".join(
        f"{item['quantity']} x {item['product']}"
        if rng.random() < 0.5
        else f"{item['quantity']} of {item['product']}"
        for item in items
    )
    text = rng.choice(
        (
            f"{customer} ordered {listing}.",
            f"Order by {customer}: {listing}",
            f"Please send {listing} to {customer}.",
        )
    )
    return text, {"customer": customer, "items": items}


def record_from_list(names: Names) -> tuple[str, dict[str, Any]]:
    """A list of values under one key."""
    rng = names.rng
    key, draw = rng.choice(
        (
            ("people", Names.person),
            ("cities", Names.place),
            ("services", Names.service),
            ("products", Names.product),
            ("ids", Names.identifier),
            ("tags", lambda n: n.rng.choice(WORDS)),
        )
    )
    values = [draw(names) for _ in range(rng.randint(2, 5))]
    joined = ", ".join(values[:-1]) + " and " + values[-1]
    text = rng.choice(
        (
            "The list contains {}.",
            "Present today: {}.",
            "We need {}.",
            "Found: {}.",
            "These were mentioned: {}.",
        )
    ).format(joined)
    return text, {key: values}


def record_from_log(names: Names) -> tuple[str, dict[str, Any]]:
    """A log line."""
    record = {
        "time": names.owned(
            lambda: f"{names.iso_date()}T{names.rng.randint(0, 23):02}:{names.rng.randint(0, 59):02}:{names.rng.randint(0, 59):02}Z"
        ),
        "level": names.rng.choice(("INFO", "WARN", "ERROR", "DEBUG")),
        "service": names.service(),
        "message": names.rng.choice(
            (
                "connection closed",
                "request failed",
                "cache miss",
                "started",
                "stopped",
                "retry scheduled",
                "disk almost full",
                "timeout while reading",
                "user logged in",
                "token expired",
            )
        ),
    }
    return f"{record['time']} {record['level']} [{record['service']}] {record['message']}", record


POSITIVE = (
    "I love {}.",
    "{} works very well.",
    "{} is excellent and easy to use.",
    "Great product: {}!",
    "I am very happy with {}.",
)
NEGATIVE = (
    "I regret buying {}.",
    "{} broke after a week.",
    "{} is slow and hard to use.",
    "Very disappointed with {}.",
    "{} does not work at all.",
)
NEUTRAL = (
    "I bought {} on Monday.",
    "{} arrived today.",
    "{} comes in a box.",
    "My neighbour has {}.",
)


def record_from_review(names: Names) -> tuple[str, dict[str, Any]]:
    """A short review with its sentiment."""
    product = names.product()
    label, pool = names.rng.choice(
        (("positive", POSITIVE), ("negative", NEGATIVE), ("neutral", NEUTRAL))
    )
    return names.rng.choice(pool).format(product), {"product": product, "sentiment": label}


MAKERS = (
    record_from_thing,
    record_from_lines,
    record_from_order,
    record_from_list,
    record_from_log,
    record_from_review,
)
MAKER_WEIGHTS = (45, 25, 10, 8, 6, 6)


def instruction(record: dict[str, Any], names: Names) -> tuple[str, bool]:
    """What to do, and whether the answer should be indented."""
    rng = names.rng
    indented = rng.random() < 0.12
    style = rng.random()
    if style < 0.45:
        fields = (
            ", ".join(record) if rng.random() < 0.7 else ", ".join(f'"{key}"' for key in record)
        )
        text = rng.choice(INTRO).format(fields=fields)
    elif style < 0.7:
        template = json.dumps(empty_like(record), indent=2 if rng.random() < 0.3 else None)
        text = rng.choice(TEMPLATE_INTRO).format(template=template)
    else:
        text = rng.choice(SCHEMA_INTRO).format(
            schema=json.dumps(schema_of(record), indent=2 if rng.random() < 0.2 else None)
        )
    return text + (" Indent the JSON by two spaces." if indented else ""), indented


def json_chat(names: Names) -> Chat:
    """One extraction, now and then followed by a second text of the same form."""
    rng = names.rng
    text, record = rng.choices(MAKERS, MAKER_WEIGHTS)[0](names)
    task, indented = instruction(record, names)
    system = rng.random()
    messages = []
    if system < 0.2:
        messages = [say("system", task), say("user", text)]
    else:
        if system < 0.5:
            messages = [say("system", rng.choice(SYSTEMS))]
        layout = rng.choice(
            (
                "{task}\n\nText: {text}",
                "{task}\n\n{text}",
                "{text}\n\n{task}",
                "{task}\n\nText:\n{text}",
            )
        )
        messages.append(say("user", layout.format(task=task, text=text)))
    messages.append(
        say("assistant", json.dumps(record, indent=2 if indented else None, ensure_ascii=False))
    )
    return Chat(messages, task="json")


def invented_chat(names: Names) -> Chat:
    """A request for sample JSON of a given shape."""
    record = random_record(names)
    fields = ", ".join(record)
    prompt = names.rng.choice(
        (
            "Make up a JSON object with the keys {}.",
            "Give me an example JSON object with {}.",
            "Write sample JSON with the fields {}.",
        )
    )
    return Chat(
        [say("user", prompt.format(fields)), say("assistant", json.dumps(record))],
        task="json-sample",
    )
