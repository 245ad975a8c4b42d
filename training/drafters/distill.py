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
from collections.abc import Callable, Iterator, Sequence
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
FORWARD_PLACES = {"cuda": 32768, "cpu": 2048}
"""Places of the model's own forward passes, padded: on a CPU, what caches hold."""
CLOSING_S = 3
"""Kept of the time for the last measurement and the export."""

Row = tuple[list[int], int]
"""Ids of an output behind its prompt, and the length of the prompt."""


def load_model(folder: Path, device: torch.device) -> Pocket:
    """The model that is drafted for, in fp32."""
    model = Pocket(PocketConfig.read(folder / "config.json"))
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


def groups(lengths: np.ndarray, places: int) -> Iterator[tuple[int, int]]:
    """Ranges of outputs that are padded to about `places` together, as they follow each other."""
    first, width = 0, 0
    for end, length in enumerate(lengths.tolist()):
        width = max(width, length)
        if end > first and width * (end + 1 - first) > places:
            yield first, end
            first, width = end, length
    if first < len(lengths):
        yield first, len(lengths)


class States:
    """Hidden states of the model behind every token of some outputs, made once, with what its whole
    vocabulary is needed for: the likeliest next token, and the logarithm of the softmax's sum.

    hidden [N, H] bf16, ids, best, normalizer and ends [N]; anchors [A]: places whose next token is
    a root, that of the last prompt token first; ends: the last place of each one's output. With
    `taps`, inputs [N, L * H] bf16: what those layers of the model read.

    firsts, roots and lengths are of the outputs, shortest first, on the host: the place of the
    first kept token, and from there on how many tokens stand before the first root, and all. What
    stands before the last prompt token is kept with taps and for `whole` outputs.
    """

    def __init__(
        self,
        model: Pocket,
        rows: list[Row],
        device: torch.device,
        levels: int,
        taps: Sequence[int] = (),
        whole: bool = False,
    ):
        rows = sorted(rows, key=lambda row: len(row[0]))
        prompts = np.array([max(1, prompt) for _, prompt in rows])
        sizes = np.array([len(tokens) for tokens, _ in rows])
        skipped = np.zeros_like(prompts) if taps or whole else prompts - 1
        self.roots, self.lengths = prompts - skipped, sizes - skipped
        ends = self.lengths.cumsum() - 1
        self.firsts = ends + 1 - self.lengths
        tokens = [ids[skip:] for (ids, _), skip in zip(rows, skipped)]
        self._place(ends, tokens, device, levels)
        size, count = model.config.hidden_size, len(self.ids)
        # Levels behind an output's end are masked; their places must exist.
        self.hidden = torch.zeros(count, size, dtype=torch.bfloat16, device=device)
        self.inputs = self.hidden.new_zeros(count, len(taps) * size)
        self.best = torch.zeros(count, dtype=torch.long, device=device)
        self.normalizer = torch.zeros(count, device=device)
        for first, end in groups(sizes, FORWARD_PLACES[device.type]):
            columns = np.arange(sizes[first:end].max())
            padded = np.zeros((end - first, len(columns)), dtype=np.int64)
            for place, (tokens, _) in enumerate(rows[first:end]):
                padded[place, : len(tokens)] = tokens
            kept = (columns >= skipped[first:end, None]) & (columns < sizes[first:end, None])
            places = slice(int(self.firsts[first]), int(ends[end - 1]) + 1)
            self._fill(model, torch.from_numpy(padded), torch.from_numpy(kept), places, taps)

    def _place(
        self, ends: np.ndarray, tokens: list[list[int]], device: torch.device, levels: int
    ) -> None:
        """What the host knows of all places."""
        pad = np.zeros(levels, dtype=np.int64)
        ids = np.concatenate([*(np.array(some, dtype=np.int64) for some in tokens), pad])
        spread = np.repeat(ends, self.lengths)
        places = np.arange(len(spread))
        rooted = places >= np.repeat(self.firsts + self.roots - 1, self.lengths)
        anchors = places[rooted & (places < spread - 1)]
        self.ids = torch.from_numpy(ids).to(device)
        self.ends = torch.from_numpy(np.concatenate([spread, pad])).to(device)
        self.anchors = torch.from_numpy(anchors).to(device)

    @torch.inference_mode()
    def _fill(
        self, model: Pocket, padded: Tensor, kept: Tensor, places: slice, taps: Sequence[int]
    ) -> None:
        """What the model says behind the `kept` ones of some outputs' tokens, [B, T]."""
        device = self.hidden.device
        kept = kept.to(device)
        inputs: list[Tensor] = []
        hidden = model.hidden(padded.to(device), inputs)[kept]
        logits = hidden @ model.model.embed_tokens.weight.T
        self.best[places] = logits.argmax(-1)
        self.normalizer[places] = logits.logsumexp(-1)
        self.hidden[places] = hidden.to(torch.bfloat16)
        if taps:
            self.inputs[places] = torch.cat([inputs[tap][kept] for tap in taps], dim=-1).bfloat16()

    def draw(self, count: int) -> Tensor:
        """Random anchors."""
        return self.anchors[torch.randint(len(self.anchors), (count,), device=self.anchors.device)]

    def shown(self) -> Tensor:
        """The anchors that held-out agreement is measured at."""
        return self.anchors[:16384]


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
"""The loss at what `States.draw` or `shown` gave, and the agreement of each level."""


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
    fingerprint: str
    """`base_fingerprint` of what is exported."""


def prepare(
    arguments: argparse.Namespace, levels: int, read: Callable[..., States] = States
) -> Prepared:
    started = time.time()
    torch.manual_seed(1)
    if arguments.threads > 0:
        torch.set_num_threads(arguments.threads)
    # TF32: nothing here needs more, and the model's own passes take a third of the time.
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = load_model(arguments.model, device)
    embeddings = model.model.embed_tokens.weight.detach()
    rows = read_rows(arguments.outputs, arguments.distinct_min)
    chosen = draft_vocabulary(rows, arguments.draft_vocabulary, embeddings.shape[0])
    states = read(model, rows, device, levels)
    held_out = read(model, read_rows(arguments.held_out, arguments.distinct_min), device, levels)
    places = f"{len(states.anchors):,} places, {len(held_out.anchors):,} held out"
    print(f"{places}, {time.time() - started:.0f} s", flush=True)
    head = torch.from_numpy(chosen).to(device)
    mark = fingerprint(arguments.model)
    return Prepared(model, device, embeddings, head, states, held_out, started, mark)


def fit(
    drafter: nn.Module,
    losses: Losses,
    prepared: Prepared,
    arguments: argparse.Namespace,
    optimizers: list[torch.optim.Optimizer] | None = None,
) -> None:
    """Trains, by AdamW unless told otherwise; `drafter` ends with the weights that agreed most on
    the held-out outputs: its loss there rises sooner, with its certainty, but what is accepted is
    the likeliest tokens."""
    if optimizers is None:
        adamw = torch.optim.AdamW(
            drafter.parameters(), lr=arguments.lr, weight_decay=arguments.weight_decay
        )
        optimizers = [adamw]
    highest = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    most, best, first, trained = 0.0, None, 0, 0.0
    checkpoint: Path | None = arguments.checkpoint
    if arguments.resume and checkpoint is not None and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=prepared.device)
        drafter.load_state_dict(saved["drafter"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        most, best, first = saved["most"], saved["best"], saved["step"]
        trained = saved["seconds"]
    began = time.time() - trained
    budget = arguments.deadline_s - CLOSING_S - (time.time() - prepared.started)
    shown = prepared.held_out.shown()
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
                        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
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
        loss, agreement = losses(prepared.states, prepared.states.draw(arguments.positions))
        drafter.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        for optimizer, rates in zip(optimizers, highest, strict=True):
            for group, most_rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = most_rate * max(rate, 0.01)
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
    """Writes a drafter, with its draft vocabulary unless that is the model's."""
    chosen = prepared.chosen.cpu()
    vocabulary, hidden = prepared.embeddings.shape
    whole = {**config, "vocab_size": vocabulary, "hidden_size": hidden}
    written = dict(tensors)
    if len(chosen) < vocabulary:
        whole["draft_vocab_size"] = len(chosen)
        written["d2t"] = chosen - torch.arange(len(chosen))
    whole |= {"base_fingerprint": prepared.fingerprint, "torch_dtype": "bfloat16"}
    export_files(arguments.out, written, whole)
    parameters = sum(tensor.numel() for tensor in tensors.values())
    print(f"{parameters:,} parameters, {time.time() - prepared.started:.0f} s")


def export_files(folder: Path, tensors: dict[str, Tensor], config: dict[str, object]) -> None:
    """Writes config.json and model.safetensors, its weights in bf16."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        name: (tensor.detach().bfloat16() if tensor.is_floating_point() else tensor)
        .contiguous()
        .cpu()
        for name, tensor in tensors.items()
    }
    save_file(written, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
