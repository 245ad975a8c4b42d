"""Held-out prompts of five domains, as texts: `bench/speculation-prompts.json`.

All come from the generators of training.data that need no corpus and no package. Their names and
values are those of the held-out split; explanations and code are the model's own subjects.
"""

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

from training.data import questions, small_talk, structured, tool_calls
from training.data.chatml import Chat, say, segments
from training.data.names import Names

CHARACTERS_MAX = 2_400
"""Of a prompt: decoding is what the texts are for."""


def answered(chat: Chat) -> str:
    """A chat up to where the model answers for the last time."""
    pieces = segments(chat)
    last = max(place for place, (_, own) in enumerate(pieces) if own)
    return "".join(text for text, _ in pieces[:last])


def asked(turn: Callable[[Names], small_talk.Turn]) -> Callable[[Names], str]:
    """A chat of one question."""

    def draw(names: Names) -> str:
        chat = Chat([say("user", turn(names)[0])], task="small-talk")
        return "".join(text for text, _ in segments(chat, generation_prompt=True))

    return draw


def word_list(names: Names) -> small_talk.Turn:
    """Given words as a list, bulleted or numbered."""
    while True:
        question, answer = small_talk.own_list(names)
        if question.startswith(("Make", "Number")):
            return question, answer


def passage(names: Names) -> str:
    """The first third of a passage with questions."""
    text = questions.completion_text(names)
    return text[: len(text) // 3]


DOMAINS: dict[str, tuple[Callable[[Names], str], ...]] = {
    "prose": (passage, asked(small_talk.explain)),
    "chat": (
        lambda names: answered(questions.question_chat(names)),
        lambda names: answered(small_talk.small_talk_chat(names)),
    ),
    "json and tools": (
        lambda names: answered(structured.json_chat(names)),
        lambda names: answered(tool_calls.tool_chat(names)),
    ),
    "code": (asked(small_talk.snippet),),
    "copy and edit": (asked(word_list), asked(small_talk.repeat)),
}
"""Generators by domain, which take turns."""


def prompts_of(domain: str, count: int, seed: str) -> list[str]:
    """So many different prompts of a domain."""
    names = Names(random.Random(f"{seed}:eval:{domain}"), "eval")
    makers = DOMAINS[domain]
    prompts: list[str] = []
    while len(prompts) < count:
        text = makers[len(prompts) % len(makers)](names)
        if len(text) <= CHARACTERS_MAX and text not in prompts:
            prompts.append(text)
    return prompts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=8, help="prompts of a domain")
    parser.add_argument("--seed", default="domains-1")
    parser.add_argument("--out", type=Path, default=Path("bench/speculation-prompts.json"))
    arguments = parser.parse_args()
    prompts = {domain: prompts_of(domain, arguments.count, arguments.seed) for domain in DOMAINS}
    arguments.out.write_text(json.dumps(prompts, indent=2) + "\n")
    print(f"{sum(map(len, prompts.values()))} prompts")


if __name__ == "__main__":
    main()
