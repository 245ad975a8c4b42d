"""What the trainers of drafters share: texts that a model wrote, its hidden states, and the loop.

A drafter learns the model's own distribution at each place (distillation), so no text has to be
labelled. Reads outputs of `perigee generate --output` for the prompts of training.drafters.prompts.
Everything lies on the device that trains: a step copies nothing from the host.
"""

import argparse
import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.drafters.acceptance import distinct_share
from training.pocket.model import Pocket, PocketConfig

LEVEL_DECAY = 0.9
CE_SHARE = 0.1
MASS_MIN = 0.05
"""Positions where the model gives the draft vocabulary less than this do not count."""

Row = tuple[list[int], int]
"""Ids of an output behind its prompt, and the length of the prompt."""


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


def read_rows(paths: list[Path], distinct_min: float = 0.0) -> list[Row]:
    """The outputs; those that repeat themselves are left out."""
    rows, left = [], 0
    for path in paths:
        for line in path.read_text().splitlines():
            row = json.loads(line)
            prompt, written = row["prompt_token_ids"], row["token_ids"]
            if distinct_share(written) < distinct_min:
                left += 1
            else:
                rows.append((prompt + written, len(prompt)))
    print(f"{len(rows)} outputs, {left} that repeat themselves left out", flush=True)
    return rows


def draft_vocabulary(rows: list[Row], size: int, vocabulary: int) -> np.ndarray:
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
    """Hidden states of the model behind every token of some outputs, made once, with what its whole
    vocabulary is needed for: the likeliest next token, and the logarithm of the softmax's sum.

    hidden [N, H] bf16, ids, best, normalizer and ends [N]; anchors [A]: places whose next token is
    a root, that of the last prompt token first; ends: the last place of each one's output.
    """

    def __init__(self, model: Pocket, rows: list[Row], device: torch.device, levels: int):
        hidden, best, normalizer, ids, anchors, ends = [], [], [], [], [], []
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
                    # What stands before the last prompt token is never asked for.
                    skipped = max(0, prompt - 1)
                    kept = states[place, skipped : len(tokens)]
                    logits = kept @ table.T
                    best.append(logits.argmax(-1))
                    normalizer.append(logits.logsumexp(-1))
                    hidden.append(kept.to(torch.bfloat16))
                    ids += tokens[skipped:]
                    last = start + len(kept) - 1
                    anchors += range(start, last - 1)
                    ends += [last] * len(kept)
                    start += len(kept)
        # Levels behind an output's end are masked; their places must exist.
        pad = torch.zeros(levels, dtype=torch.long, device=device)
        self.hidden = torch.cat([*hidden, torch.zeros_like(hidden[-1][:1]).expand(levels, -1)])
        self.best = torch.cat([*best, pad])
        self.normalizer = torch.cat([*normalizer, pad.float()])
        self.ids = torch.cat([torch.tensor(ids, device=device), pad])
        self.ends = torch.cat([torch.tensor(ends, device=device), pad])
        self.anchors = torch.tensor(anchors, device=device)

    def draw(self, count: int) -> Tensor:
        """Random anchors."""
        return self.anchors[torch.randint(len(self.anchors), (count,), device=self.anchors.device)]


@dataclass
class Teacher:
    """What the model says about one level: a token behind each anchor."""

    target: Tensor
    """[A, V'] log-probabilities among the draft vocabulary."""
    best: Tensor
    """[A] the likeliest of the draft vocabulary."""
    wanted: Tensor
    """[A] the likeliest id of all."""
    inside: Tensor
    """[A] 1 where the output reaches this far."""
    counts: Tensor
    """[A] 1 where the draft vocabulary matters, too."""


@torch.no_grad()
def teacher_of(states: States, places: Tensor, anchors: Tensor, head: Tensor) -> Teacher:
    """`places`: whose next tokens are taught; `head` [V', H]: the model's output rows."""
    inside = (places < states.ends[anchors]).float()
    taught = (states.hidden[places] @ head.to(torch.bfloat16).T).float()
    drafted = taught - states.normalizer[places][:, None]
    mass = drafted.logsumexp(-1)
    target = drafted - mass[:, None]
    counts = inside * (mass > np.log(MASS_MIN)).float()
    return Teacher(target, target.argmax(-1), states.best[places], inside, counts)


def level_loss(logits: Tensor, teacher: Teacher) -> Tensor:
    """Distance from the model's distribution, with a share of the likeliest token's own loss."""
    found = logits.log_softmax(-1)
    distance = (teacher.target.exp() * (teacher.target - found)).sum(-1)
    label = -found.gather(-1, teacher.best[:, None])[:, 0]
    counts = teacher.counts
    return (counts * (distance + CE_SHARE * label)).sum() / counts.sum().clamp(min=1)


def agreement_of(logits: Tensor, teacher: Teacher, chosen: Tensor) -> Tensor:
    """Share of places whose likeliest drafted token is the model's."""
    hits = (chosen[logits.argmax(-1)] == teacher.wanted).float() * teacher.inside
    return hits.sum() / teacher.inside.sum().clamp(min=1)


Losses = Callable[[States, Tensor], tuple[Tensor, list[Tensor]]]
"""The loss at some anchors, and the agreement of each level."""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """The flags that all trainers have."""
    parser.add_argument("--model", type=Path, default=Path("models/pocket"))
    parser.add_argument("--outputs", type=Path, nargs="+", required=True)
    parser.add_argument("--held-out", type=Path, nargs="+", required=True)
    parser.add_argument("--distinct-min", type=float, default=0.6, help="4-grams of an output")
    parser.add_argument("--draft-vocabulary", type=int, default=2048)
    parser.add_argument("--positions", type=int, default=4096, help="of one optimiser step")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--measure-every", type=int, default=200)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--dropout", type=float, default=0.0, help="of the hidden state")
    parser.add_argument("--deadline-s", type=float, default=540)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--checkpoint", type=Path, help="written at each measurement")
    parser.add_argument("--resume", action="store_true", help="from --checkpoint, if it is there")
    parser.add_argument("--out", type=Path, default=Path("models/pocket/drafters") / name)


@dataclass
class Prepared:
    """What training begins from."""

    model: Pocket
    device: torch.device
    embeddings: Tensor
    chosen: Tensor
    """[V'] ids of the draft vocabulary, rising."""
    states: States
    held_out: States
    started: float


def prepare(arguments: argparse.Namespace, levels: int) -> Prepared:
    started = time.time()
    torch.manual_seed(1)
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(arguments.model, device)
    embeddings = model.model.embed_tokens.weight.detach()
    rows = read_rows(arguments.outputs, arguments.distinct_min)
    chosen = draft_vocabulary(rows, arguments.draft_vocabulary, embeddings.shape[0])
    states = States(model, rows, device, levels)
    held_out = States(model, read_rows(arguments.held_out, arguments.distinct_min), device, levels)
    places = f"{len(states.anchors):,} places, {len(held_out.anchors):,} held out"
    print(f"{places}, {time.time() - started:.0f} s", flush=True)
    head = torch.from_numpy(chosen).to(device)
    return Prepared(model, device, embeddings, head, states, held_out, started)


def fit(
    drafter: nn.Module, losses: Losses, prepared: Prepared, arguments: argparse.Namespace
) -> None:
    """Trains; `drafter` ends with the weights that agreed most on the held-out outputs: its loss
    there rises sooner, with its certainty, but what is accepted is the likeliest tokens."""
    optimizer = torch.optim.AdamW(
        drafter.parameters(), lr=arguments.lr, weight_decay=arguments.weight_decay
    )
    most, best, first, trained = 0.0, None, 0, 0.0
    checkpoint: Path | None = arguments.checkpoint
    if arguments.resume and checkpoint is not None and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=prepared.device)
        drafter.load_state_dict(saved["drafter"])
        optimizer.load_state_dict(saved["optimizer"])
        most, best, first = saved["most"], saved["best"], saved["step"]
        trained = saved["seconds"]
    began = time.time() - trained
    budget = arguments.deadline_s - (time.time() - prepared.started)
    shown = prepared.held_out.anchors[:16384]
    for step in range(first, arguments.steps + 1):
        # The rate follows whatever ends first, the steps or the time.
        progress = max(step / arguments.steps, (time.time() - began) / budget)
        if step % arguments.measure_every == 0 or progress >= 1:
            drafter.eval()
            with torch.inference_mode():
                loss, agreement = losses(prepared.held_out, shown)
            drafter.train()
            levels = " ".join(f"{share.item():.3f}" for share in agreement)
            seconds = time.time() - prepared.started
            print(f"{step} held out {loss.item():.3f} agreement {levels}, {seconds:.0f} s", flush=True)
            mean = sum(share.item() for share in agreement) / len(agreement)
            if mean > most:
                most = mean
                best = {name: value.clone() for name, value in drafter.state_dict().items()}
            if checkpoint is not None:
                torch.save(
                    {
                        "drafter": drafter.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "best": best,
                        "most": most,
                        "step": step,
                        "seconds": time.time() - began,
                    },
                    checkpoint,
                )
        if progress >= 1:
            break
        rate = min(1.0, (step + 1) / 50) * 0.5 * (1 + np.cos(np.pi * progress))
        for group in optimizer.param_groups:
            group["lr"] = arguments.lr * max(rate, 0.01)
        loss, agreement = losses(prepared.states, prepared.states.draw(arguments.positions))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        if step % arguments.measure_every == 0:
            levels = " ".join(f"{share.item():.2f}" for share in agreement)
            print(f"{step} trained on {loss.item():.3f} agreement {levels}", flush=True)
    if best is not None:
        drafter.load_state_dict(best)
    drafter.eval()
    print(f"held out, all levels: {most:.3f}, {step} steps", flush=True)


def export(
    prepared: Prepared,
    arguments: argparse.Namespace,
    tensors: dict[str, Tensor],
    config: dict[str, object],
) -> None:
    """Writes config.json and model.safetensors in bf16."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = {
        name: tensor.detach().to(torch.bfloat16).contiguous().cpu()
        for name, tensor in tensors.items()
    }
    chosen = prepared.chosen.cpu()
    written["d2t"] = chosen - torch.arange(len(chosen))
    save_file(written, arguments.out / "model.safetensors", metadata={"format": "pt"})
    whole = {
        **config,
        "vocab_size": prepared.embeddings.shape[0],
        "hidden_size": prepared.embeddings.shape[1],
        "draft_vocab_size": len(chosen),
        "base_fingerprint": fingerprint(arguments.model),
        "torch_dtype": "bfloat16",
    }
    (arguments.out / "config.json").write_text(json.dumps(whole, indent=2) + "\n")
    parameters = sum(tensor.numel() for tensor in tensors.values())
    print(f"{parameters:,} parameters, {time.time() - prepared.started:.0f} s")
