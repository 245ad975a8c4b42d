"""Distils a ReDrafter from a Llama-shaped model, on texts that the model wrote itself.

Source: Cheng et al. 2024, "Recurrent Drafter for Fast Speculative Decoding" (arXiv 2403.09919). The
network and its keys are those of apple/ml-recurrent-drafter; the loss is the distance from the
model's own distribution, so no text has to be generated per position. Reads outputs of
`perigee generate --json` for the prompts of training.drafters.prompts.
"""

import argparse
import hashlib
import json
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.pocket.model import Pocket, PocketConfig

LEVELS = 5
"""Tokens that are drafted behind each other in training; serving drafts at most as many."""
LEVEL_DECAY = 0.9
CE_SHARE = 0.1
MASS_MIN = 0.05
"""Positions where the model gives the draft vocabulary less than this do not count."""


class ReDrafter(nn.Module):
    """Logits of drafted tokens from one hidden state of the model and the tokens behind it."""

    def __init__(self, hidden: int, blocks: int, vocabulary: int) -> None:
        super().__init__()
        self.rnn_w = nn.Linear(hidden, hidden, bias=False)
        self.rnn_u = nn.Linear(hidden, hidden)
        self.blocks = nn.ModuleList(nn.Linear(2 * hidden, 2 * hidden) for _ in range(blocks))
        self.head = nn.Linear(2 * hidden, vocabulary, bias=False)

    def initialise(self, model_head: Tensor) -> None:
        """Begins as the model's own output layer on its hidden state."""
        hidden = model_head.shape[1]
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.weight[:, :hidden] = model_head
            self.rnn_w.weight.copy_(torch.eye(hidden))
            self.rnn_u.weight.normal_(std=0.02)
            self.rnn_u.bias.zero_()
            for block in self.blocks:
                block.weight.zero_()
                block.bias.zero_()

    def step(self, embedded: Tensor, state: Tensor) -> Tensor:
        return F.silu(self.rnn_w(embedded) + self.rnn_u(state))

    def logits(self, context: Tensor, state: Tensor) -> Tensor:
        x = torch.cat([context, state], dim=-1)
        for block in self.blocks:
            x = x + F.silu(block(x))
        return self.head(x)

    def tensors(self) -> dict[str, Tensor]:
        """By the keys of apple/ml-recurrent-drafter."""
        found = {
            "rnn_w.weight": self.rnn_w.weight,
            "rnn_u.weight": self.rnn_u.weight,
            "rnn_u.bias": self.rnn_u.bias,
            f"lm_head.{len(self.blocks)}.weight": self.head.weight,
        }
        for place, block in enumerate(self.blocks):
            found[f"lm_head.{place}.linear.weight"] = block.weight
            found[f"lm_head.{place}.linear.bias"] = block.bias
        return {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in found.items()}


def load_model(folder: Path, device: torch.device) -> Pocket:
    """The model that is drafted for, in fp32."""
    model = Pocket(PocketConfig())
    state = load_file(folder / "model.safetensors")
    missing = model.load_state_dict({k: v.float() for k, v in state.items()}, strict=False)
    assert not missing.missing_keys, missing.missing_keys
    return model.to(device).eval()


def fingerprint(folder: Path) -> str:
    """`base_fingerprint`: the SHA-256 of the final norm's weights as little-endian f32."""
    weights = load_file(folder / "model.safetensors")["model.norm.weight"].float().numpy()
    return hashlib.sha256(weights.astype("<f4").tobytes()).hexdigest()


def read_rows(paths: list[Path]) -> list[tuple[list[int], int]]:
    """(ids, length of the prompt) of every output."""
    rows = []
    for path in paths:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            prompt = row["prompt_token_ids"]
            rows.append((prompt + row["token_ids"], len(prompt)))
    return rows


def draft_vocabulary(rows: list[tuple[list[int], int]], size: int, vocabulary: int) -> np.ndarray:
    """The ids that the model wrote most often, sorted; prints what some sizes cover."""
    counts = Counter(token for ids, prompt in rows for token in ids[prompt:])
    total = sum(counts.values())
    ranked = [token for token, _ in counts.most_common()]
    ranked += [token for token in range(vocabulary) if token not in counts]
    for some in sorted({512, 1024, 1536, 2048, size}):
        covered = sum(counts[token] for token in ranked[:some])
        print(f"the {some} most frequent tokens are {covered / total:.4f} of what the model wrote")
    return np.array(sorted(ranked[:size]), dtype=np.int64)


class States:
    """Hidden states of the model behind every token of some rows, made once, with what its whole
    vocabulary is needed for: the likeliest next token, and the logarithm of the softmax's sum."""

    def __init__(self, model: Pocket, rows: list[tuple[list[int], int]], device: torch.device):
        hidden, best, normalizer, ids, anchors = [], [], [], [], []
        table = model.model.embed_tokens.weight
        start = 0
        order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]))
        with torch.inference_mode():
            for first in range(0, len(order), 16):
                batch = [rows[row] for row in order[first : first + 16]]
                width = max(len(tokens) for tokens, _ in batch)
                padded = torch.zeros(len(batch), width, dtype=torch.long)
                for place, (tokens, _) in enumerate(batch):
                    padded[place, : len(tokens)] = torch.tensor(tokens)
                states = model.hidden(padded.to(device))
                for place, (tokens, prompt) in enumerate(batch):
                    logits = states[place, : len(tokens)] @ table.T
                    best.append(logits.argmax(-1).cpu())
                    normalizer.append(logits.logsumexp(-1).cpu())
                    hidden.append(states[place, : len(tokens)].to(torch.bfloat16).cpu())
                    ids += tokens
                    # Level i needs the hidden state i places on, as the teacher of its token.
                    last = len(tokens) - 1 - LEVELS
                    anchors += range(start + max(0, prompt - 1), start + max(0, last))
                    start += len(tokens)
        self.hidden = torch.cat(hidden)
        self.best, self.normalizer = torch.cat(best), torch.cat(normalizer)
        self.ids = torch.tensor(ids)
        self.anchors = torch.tensor(anchors)


def level_losses(
    drafter: ReDrafter, states: States, anchors: Tensor, embeddings: Tensor, head: Tensor
) -> tuple[Tensor, list[float]]:
    """The weighted loss of all levels, and how often each level's likeliest token is the model's."""
    context = states.hidden[anchors].float().to(head.device)
    model_head = embeddings[head]
    state = torch.zeros_like(context)
    total = torch.zeros((), device=head.device)
    agreement: list[float] = []
    for level in range(1, LEVELS + 1):
        state = drafter.step(embeddings[states.ids[anchors + level]], state)
        logits = drafter.logits(context, state)
        with torch.no_grad():
            taught = states.hidden[anchors + level].float().to(head.device) @ model_head.T
            drafted = taught - states.normalizer[anchors + level].to(head.device)[:, None]
            mass = drafted.logsumexp(-1)
            counts = (mass > np.log(MASS_MIN)).float()
            target = drafted - mass[:, None]
            best = target.argmax(-1)
        found = logits.log_softmax(-1)
        distance = (target.exp() * (target - found)).sum(-1)
        label = F.nll_loss(found, best, reduction="none")
        weighted = (counts * (distance + CE_SHARE * label)).sum() / counts.sum().clamp(min=1)
        total = total + LEVEL_DECAY ** (level - 1) * weighted
        wanted = states.best[anchors + level].to(head.device)
        agreement.append((head[logits.argmax(-1)] == wanted).float().mean().item())
    return total, agreement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument("--outputs", type=Path, nargs="+", required=True)
    parser.add_argument("--held-out", type=Path, nargs="*", default=[])
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--draft-vocabulary", type=int, default=1024)
    parser.add_argument("--positions", type=int, default=1024, help="of one optimiser step")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--deadline-s", type=float, default=540)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("models/pocket/drafters/redrafter"))
    arguments = parser.parse_args()
    started = time.time()
    torch.manual_seed(1)
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(arguments.model, device)
    embeddings = model.model.embed_tokens.weight.detach()
    rows = read_rows(arguments.outputs)
    chosen = draft_vocabulary(rows, arguments.draft_vocabulary, embeddings.shape[0])
    head = torch.from_numpy(chosen).to(device)
    states = States(model, rows, device)
    held_out = States(model, read_rows(arguments.held_out), device) if arguments.held_out else None
    print(f"{len(states.ids):,} tokens, {len(states.anchors):,} positions, {time.time() - started:.0f} s")

    hidden = embeddings.shape[1]
    drafter = ReDrafter(hidden, arguments.blocks, len(chosen)).to(device)
    drafter.initialise(embeddings[head])
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=arguments.lr, weight_decay=0.0)
    training_started = time.time()
    budget = arguments.deadline_s - (training_started - started)
    for step in range(arguments.steps):
        # The rate follows whatever ends first, the steps or the time.
        progress = max(step / arguments.steps, (time.time() - training_started) / budget)
        if progress >= 1:
            break
        rate = min(1.0, (step + 1) / 50) * 0.5 * (1 + np.cos(np.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * max(rate, 0.01)
        anchors = states.anchors[torch.randint(len(states.anchors), (arguments.positions,))]
        loss, agreement = level_losses(drafter, states, anchors, embeddings, head)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            levels = " ".join(f"{share:.2f}" for share in agreement)
            print(f"{step} loss {loss.item():.3f} agreement {levels}", flush=True)
    if held_out is not None:
        with torch.inference_mode():
            shown = held_out.anchors[torch.randperm(len(held_out.anchors))[:8192]]
            loss, agreement = level_losses(drafter, held_out, shown, embeddings, head)
        print(f"held out: loss {loss.item():.3f} agreement {[round(a, 3) for a in agreement]}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    tensors = drafter.tensors()
    tensors["d2t"] = head.cpu() - torch.arange(len(chosen))
    save_file(tensors, arguments.out / "model.safetensors", metadata={"format": "pt"})
    config = {
        "model_type": "recurrent_drafting_drafter",
        "vocab_size": embeddings.shape[0],
        "hidden_size": hidden,
        "exit_dim": 2 * hidden,
        "num_draft_layers": arguments.blocks,
        "num_lookback_tokens": 1,
        "rnn": True,
        "draft_vocab_size": len(chosen),
        "draft_length_trained": LEVELS,
        "base_fingerprint": fingerprint(arguments.model),
        "torch_dtype": "bfloat16",
    }
    (arguments.out / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    parameters = sum(parameter.numel() for parameter in drafter.parameters())
    print(f"{parameters:,} parameters, {step + 1} steps, {time.time() - started:.0f} s")


if __name__ == "__main__":
    main()
