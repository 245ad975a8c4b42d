"""How often a drafter's likeliest token is the model's, by kind of text and by level.

Reads outputs of `perigee generate --json` at temperature 0. The tokens before the drafted one are
the model's own, as in training, so this says what the network knows; `training.drafters.acceptance`
says what that is worth in serving. Outputs that repeat themselves are counted apart.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from training.drafters.acceptance import DISTINCT_MIN, distinct_share
from training.drafters.distill import load_model
from training.drafters.redrafter import LEVELS, ReDrafter


def load_drafter(folder: Path) -> tuple[ReDrafter, Tensor]:
    """The exported network in fp32, and the model's ids of its draft vocabulary."""
    tensors = load_file(folder / "model.safetensors")
    distances = tensors.pop("d2t")
    blocks = json.loads((folder / "config.json").read_text())["num_draft_layers"]
    names = {f"lm_head.{blocks}.": "head."}
    names |= {f"lm_head.{place}.linear.": f"blocks.{place}." for place in range(blocks)}
    state = {}
    for name, tensor in tensors.items():
        prefix = next((old for old in names if name.startswith(old)), "")
        state[names.get(prefix, "") + name.removeprefix(prefix)] = tensor.float()
    drafter = ReDrafter(state["rnn_u.bias"].numel(), blocks, len(distances))
    drafter.load_state_dict(state)
    return drafter.eval(), distances + torch.arange(len(distances))


def agreements(
    drafter: ReDrafter, ids: Tensor, prompt: int, hidden: Tensor, table: Tensor, head: Tensor
) -> list[tuple[int, int]]:
    """(agreeing, all) places of each level, for the drafts that begin in one output."""
    best = (hidden @ table.T).argmax(-1)
    anchors = torch.arange(max(0, prompt - 1), len(ids) - 2)
    state = torch.zeros(len(anchors), hidden.shape[1])
    found = []
    for level in range(1, LEVELS + 1):
        # A place drops out where the text ends before its teacher.
        inside = anchors + level < len(ids) - 1
        anchors, state = anchors[inside], state[inside]
        state = drafter.step(table[ids[anchors + level]], state)
        drafted = head[drafter.logits(hidden[anchors], state).argmax(-1)]
        found.append(((drafted == best[anchors + level]).sum().item(), len(anchors)))
    return found


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument(
        "--drafter", type=Path, default=Path("models/pocket/drafters/redrafter")
    )
    parser.add_argument("--kinds", type=Path, required=True, help="of training.drafters.prompts")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("outputs", type=Path)
    arguments = parser.parse_args()
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    model = load_model(arguments.model, torch.device("cpu"))
    table = model.model.embed_tokens.weight
    drafter, head = load_drafter(arguments.drafter)
    known = set(head.tolist())
    kinds: list[str] = json.loads(arguments.kinds.read_text())
    sums = defaultdict(lambda: torch.zeros(LEVELS + 1, 2, dtype=torch.long))
    for line in arguments.outputs.read_text().splitlines():
        row = json.loads(line)
        prompt, written = row["prompt_token_ids"], row["token_ids"]
        repeats = distinct_share(written) < DISTINCT_MIN
        ids = torch.tensor(prompt + written)
        found = agreements(drafter, ids, len(prompt), model.hidden(ids[None])[0], table, head)
        found.append((sum(token in known for token in written), len(written)))
        kind = kinds[row["prompt_index"]]
        for name in ("repeating", f"{kind}, repeating") if repeats else (kind, "all others"):
            sums[name] += torch.tensor(found)
    for name in sorted(sums):
        shares = (sums[name][:, 0] / sums[name][:, 1].clamp(min=1)).tolist()
        levels = " ".join(f"{share:.3f}" for share in shares[:LEVELS])
        print(f"{name}: levels {levels}, vocabulary {shares[-1]:.3f}, {sums[name][0, 1]} places")


if __name__ == "__main__":
    main()
