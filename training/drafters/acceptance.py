"""Tokens a step, by kind of text, of outputs that `perigee generate --speculative ...` wrote.

Outputs that repeat themselves are left out, since any drafter continues those: less than 60 % of
their 4-grams are distinct. A step that drafts also samples one token itself, so an output of n
tokens of which a were accepted took n - a steps.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

DISTINCT_MIN = 0.6


def distinct_share(ids: list[int]) -> float:
    """Share of distinct 4-grams."""
    grams = [tuple(ids[place : place + 4]) for place in range(len(ids) - 3)]
    return len(set(grams)) / max(1, len(grams))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", type=Path, required=True, help="of training.drafters.prompts")
    parser.add_argument("outputs", type=Path, nargs="+")
    arguments = parser.parse_args()
    kinds: list[str] = json.loads(arguments.kinds.read_text())
    for path in arguments.outputs:
        tokens: dict[str, int] = defaultdict(int)
        accepted: dict[str, int] = defaultdict(int)
        texts: dict[str, int] = defaultdict(int)
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if distinct_share(row["token_ids"]) < DISTINCT_MIN:
                continue
            for kind in (kinds[row["prompt_index"]], "all"):
                tokens[kind] += len(row["token_ids"])
                accepted[kind] += row.get("accepted_tokens", 0)
                texts[kind] += 1
        rows = ", ".join(
            f"{kind} {tokens[kind] / (tokens[kind] - accepted[kind]):.2f} ({texts[kind]})"
            for kind in sorted(tokens)
        )
        print(f"{path.name}: {rows}")


if __name__ == "__main__":
    main()
