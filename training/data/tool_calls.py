"""Function calls: a list of tools in the system prompt, a request, the call, and the reply to its result."""

import json
from typing import Any

from training.data.chatml import Chat, call, say
from training.data.names import WORDS, Names
from training.data.tools import TOOLS, Draw, Tool, number, pick

VERBS = (
    "get",
    "find",
    "create",
    "update",
    "delete",
    "open",
    "close",
    "check",
    "start",
    "stop",
    "read",
    "count",
)
PLAIN = (
    ("Hello!", "Hello! How can I help you?"),
    ("Thank you.", "You are welcome."),
    ("Hi", "Hello! What can I do for you?"),
    (
        "Who are you?",
        "I am Pocket, the small model that ships with Perigee. I can call the functions that you list for me.",
    ),
    ("What can you do?", "I can answer questions and call the functions that you have given me."),
)
FIELD_POOL: dict[str, tuple[str, Draw]] = {
    "name": ("string", Names.word),
    "id": ("string", Names.identifier),
    "city": ("string", Names.place),
    "count": ("integer", number(1, 900)),
    "owner": ("string", Names.person),
    "date": ("string", Names.iso_date),
    "service": ("string", Names.service),
    "version": ("string", Names.version),
    "email": ("string", Names.email),
}


def invented_tool(names: Names) -> Tool:
    """A tool that exists nowhere, so that the model reads the list instead of remembering it."""
    rng = names.rng
    verb, noun = rng.choice(VERBS), rng.choice(WORDS)
    name = rng.choice((f"{verb}_{noun}", f"{verb}{noun.capitalize()}", f"{noun}_{verb}"))
    keys = rng.sample(list(FIELD_POOL), rng.randint(1, 3))
    parameters = {
        key: (FIELD_POOL[key][0], f"The {key} of the {noun}", FIELD_POOL[key][1]) for key in keys
    }
    wanted = " and ".join(f"the {key} {{{key}}}" for key in keys)
    requests = (
        f"{verb.capitalize()} the {noun} with {wanted}.",
        f"Please {verb} a {noun} with {wanted}.",
        f"I want to {verb} the {noun}: " + ", ".join(f"{key} {{{key}}}" for key in keys) + ".",
    )
    return Tool(
        name,
        f"{verb.capitalize()} a {noun}",
        parameters,
        requests,
        f"The {noun} is {{state}}.",
        {"state": pick("ready", "done", "open", "closed", "new")},
    )


def schema(tool: Tool) -> dict[str, Any]:
    """The tool as OpenAI's API lists it."""
    properties = {
        key: {"type": kind, "description": text} for key, (kind, text, _) in tool.parameters.items()
    }
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(tool.parameters),
            },
        },
    }


def choose_tools(names: Names) -> list[Tool]:
    """One to five tools with different names."""
    rng = names.rng
    chosen: dict[str, Tool] = {}
    for _ in range(rng.choices((1, 2, 3, 4, 5), (25, 25, 20, 20, 10))[0]):
        tool = rng.choice(TOOLS) if rng.random() < 0.6 else invented_tool(names)
        chosen.setdefault(tool.name, tool)
    return list(chosen.values())


def use_tool(tool: Tool, names: Names) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """(request, call message, messages with the result and the reply)."""
    arguments = {key: draw(names) for key, (_, _, draw) in tool.parameters.items()}
    request = names.rng.choice(tool.requests).format(**arguments)
    result = {key: draw(names) for key, draw in tool.result.items()}
    reply = tool.reply.format(**{**arguments, **result})
    tail = [say("tool", json.dumps(result)), say("assistant", reply)]
    return request[0].upper() + request[1:], call(tool.name, arguments), tail


def tool_chat(names: Names) -> Chat:
    """A chat with tools: one or two calls, or a plain reply when no tool is needed."""
    rng = names.rng
    tools = choose_tools(names)
    messages = (
        [
            say(
                "system",
                rng.choice(
                    (
                        "You are a helpful assistant.",
                        "You are Pocket, a helpful assistant.",
                        "Use the functions when they help.",
                    )
                ),
            )
        ]
        if rng.random() < 0.5
        else []
    )
    if rng.random() < 0.1:
        question, reply = rng.choice(PLAIN)
        messages += [say("user", question), say("assistant", reply)]
    for _ in range(rng.choice((1, 1, 1, 2))):
        request, called, tail = use_tool(rng.choice(tools), names)
        messages += [say("user", request), called]
        messages += tail if rng.random() < 0.6 or len(messages) > 5 else []
        if messages[-1]["content"] == "":
            break
    return Chat(messages, [schema(tool) for tool in tools], task="tool")
