"""Facts that invented things can have: how they are stated, asked for and answered.

`{n}` is the thing, `{v}` the value. The first string of each question list is the plain one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from training.data.names import Names


@dataclass(frozen=True)
class Attribute:
    """One kind of fact."""

    key: str
    draw: Callable[[Names], str]
    statements: tuple[str, ...]
    questions: tuple[str, ...]
    closed: bool = False
    """Whether values come from a short list, so that they cannot be held out."""


def attribute(
    key: str, draw: Callable[[Names], str], statements: str, questions: str, closed: bool = False
) -> Attribute:
    split = lambda text: tuple(part.strip() for part in text.split("|"))  # noqa: E731
    return Attribute(key, draw, split(statements), split(questions), closed)
