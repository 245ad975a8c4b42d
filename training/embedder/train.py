"""Distils the embedder: `python3 -m training.embedder.train --pairs PAIRS --out OUT`.

The teacher embeds every text once. Its vectors are projected onto their main directions, as many
as the student has dimensions, which keeps nearly all of their geometry: so the student's own space
is the teacher's, and nothing has to be dropped at export. Runs on one GPU until its deadline.
"""

import argparse
import json
import lzma
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from training.embedder.batches import PASSAGE_LENGTHS, RUN, Batch, Batches, Texts
from training.embedder.losses import KINDS_WEIGHTS, pair_losses
from training.embedder.measure import Measure
from training.embedder.model import BertSize, Encoder, initialise
from training.pocket.optimizer import Muon

EMBEDDER = Path(".embedder")
TEACHER_LENGTHS = (16, 32, 64, 128, 256, 512)
ROLES = ("anchor", "passage")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--deadline-s", type=float, default=540, help="from start to last step")
    parser.add_argument("--steps-max", type=int, default=10**9)
    parser.add_argument("--batch", type=int, default=1024, help="pairs of a step")
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--feed-forward", type=int, default=768)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--matrix-lr", type=float, default=4e-3)
    parser.add_argument("--cosine", type=float, default=4.0, help="weight of this loss")
    parser.add_argument("--similarity", type=float, default=1.0)
    parser.add_argument("--contrast", type=float, default=0.3)
    parser.add_argument("--scale", type=float, default=20.0, help="of cosines, as logits")
    parser.add_argument("--texts-max", type=int, default=10**9, help="pairs used, for trials")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def load_teacher(device: str, compiled: bool) -> Encoder:
    """In fp16 on a GPU."""
    teacher = Encoder(BertSize.read(EMBEDDER / "teacher-config.json"))
    packed = (EMBEDDER / "teacher.safetensors.xz").read_bytes()
    teacher.load_state_dict(load(lzma.decompress(packed)))
    teacher = teacher.to(device, torch.float16 if device == "cuda" else torch.float32).eval()
    if compiled:
        teacher.compile_layers()
    return teacher.requires_grad_(False)


@torch.no_grad()
def embed_all(model: Encoder, texts: Texts, tokens: int) -> Tensor:
    """The vector of each text [T, C] in fp16, in batches of about so many tokens."""
    width = model.embeddings.word_embeddings.weight.shape[1]
    out = torch.empty(len(texts.lengths), width, dtype=torch.float16, device=texts.ids.device)
    previous = 0
    for length in TEACHER_LENGTHS:
        fits = (texts.lengths > previous) & (texts.lengths <= length)
        places = torch.nonzero(fits).squeeze(1)
        previous = length
        size = max(1, tokens // length)
        for part in places.split(size) if len(places) > 0 else ():
            # A short last batch is filled up, so that all have one shape.
            filled = part[torch.arange(size, device=part.device) % len(part)]
            out[part] = model(texts.take(filled, length))[: len(part)].half()
    return out


def principal_directions(vectors: Tensor, count: int) -> tuple[Tensor, float]:
    """[C, count] orthonormal columns that keep most of the vectors' products, and how much."""
    sample = vectors[torch.randperm(len(vectors), device=vectors.device)[:400_000]].float()
    values, directions = torch.linalg.eigh(sample.T @ sample / len(sample))
    return directions[:, -count:].contiguous(), (values[-count:].sum() / values.sum()).item()


def take_embeddings(student: Encoder, teacher: Encoder) -> None:
    """Begins with the teacher's embeddings of tokens and positions, on their main directions."""
    old = Tokenizer.from_file(str(EMBEDDER / "teacher-tokenizer.json"))
    new = Tokenizer.from_file(str(EMBEDDER / "tokenizer.json"))
    words = teacher.embeddings.word_embeddings.weight.float()
    size = student.embeddings.word_embeddings.weight.shape[1]
    centred = words - words.mean(0)
    _, directions = torch.linalg.eigh(centred.T @ centred)
    kept = directions[:, -size:]
    with torch.no_grad():
        for token, place in new.get_vocab().items():
            known = old.token_to_id(token)
            pieces = old.encode(token.removeprefix("##"), add_special_tokens=False).ids
            ids = [known] if known is not None else pieces
            if ids and token != "[PAD]":
                student.embeddings.word_embeddings.weight[place] = words[ids].mean(0) @ kept
        for name in ("position_embeddings", "token_type_embeddings"):
            source = getattr(teacher.embeddings, name).weight.float()
            getattr(student.embeddings, name).weight.copy_(source @ kept)


def make_optimizers(
    model: nn.Module, layers: nn.Module, lr: float, matrix_lr: float
) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for the rest of the model."""
    matrices = [p for p in layers.parameters() if p.ndim == 2]
    inside = {id(p) for p in matrices}
    tables = [p for p in model.parameters() if p.ndim == 2 and id(p) not in inside]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": tables, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98), eps=1e-8)
    return [adamw, Muon(matrices, lr=matrix_lr, weight_decay=0.05)]


def rate_at(share: float, step: int, warm_up: int = 200) -> float:
    """The learning rate as a part of its peak: a warm-up, then half a cosine down to 1 %."""
    return min(1.0, (step + 1) / warm_up) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))


def endless(batches: Batches, seed: int) -> Iterator[Batch]:
    rng = np.random.default_rng(seed)
    while True:
        yield from batches.epoch(rng)


class Run:
    """A training run: data, both models, the loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.started = time.time()
        self.options = options
        self.device = options.device
        options.out.mkdir(parents=True, exist_ok=True)
        self.log = (options.out / "train.jsonl").open("w")
        torch.manual_seed(options.seed)
        torch.set_float32_matmul_precision("high")
        self.say("imported")
        self.teach()
        self.make_student()

    def say(self, text: str) -> None:
        print(f"[{time.time() - self.started:6.1f} s] {text}", flush=True)

    def teach(self) -> None:
        """The teacher's vectors of all texts, and the projection."""
        options, device = self.options, self.device
        self.texts, self.taught = {}, {}
        self.teacher = load_teacher(device, not options.no_compile)
        rows = {}
        for split in ("train", "eval"):
            rows[split] = np.load(options.pairs / f"{split}-pairs.npy")[: options.texts_max]
            for place, role in enumerate(ROLES):
                count = int(rows[split][:, place].max()) + 1
                name = f"{split}-{role}"
                whole = Texts.read(options.pairs, f"{name}-teacher", device)
                part = Texts(whole.ids, whole.starts[:count], whole.lengths[:count])
                tokens = 131_072 if device == "cuda" else 8_192
                self.taught[split, role] = embed_all(self.teacher, part, tokens)
                self.texts[split, role] = Texts.read(options.pairs, f"{name}-student", device)
                self.say(f"teacher: {count:,} texts of {name}")
        self.rows = rows

    def make_student(self) -> None:
        options = self.options
        size = BertSize(
            num_hidden_layers=options.layers, intermediate_size=options.feed_forward
        )
        student = Encoder(size).to(self.device)
        initialise(student)
        take_embeddings(student, self.teacher)
        self.raw = self.student = student
        if not options.no_compile:
            student.compile_layers()
        together = torch.cat([self.taught["train", role] for role in ROLES])
        self.projection, kept = principal_directions(together, size.hidden_size)
        self.batches = Batches(
            self.rows["train"],
            self.texts["train", "anchor"],
            self.texts["train", "passage"],
            options.batch,
        )
        self.measure = Measure(self.rows["eval"], self.taught, self.texts, self.projection)
        count = sum(p.numel() for p in student.parameters())
        self.say(f"student: {count:,} parameters; the projection keeps {kept:.4f}")
        self.say(f"pairs: {self.batches.describe()}")
        self.say(f"teacher on held-out pairs: {self.measure.teacher()}")

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        columns = (batch.pairs[:, 0], batch.pairs[:, 1])
        lengths = (batch.anchor_length, batch.passage_length)
        taught = tuple(
            self.taught["train", role][places].float() for role, places in zip(ROLES, columns)
        )
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            vectors = tuple(
                self.student(self.texts["train", role].take(places, length))
                for role, places, length in zip(ROLES, columns, lengths)
            )
        weights = torch.tensor(KINDS_WEIGHTS, device=self.device)
        return pair_losses(
            vectors, taught, self.projection, batch.pairs, self.options.scale, weights
        )

    def train(self) -> None:
        """Until the deadline; measures each minute or so."""
        options = self.options
        optimizers = make_optimizers(self.raw, self.raw.encoder, options.lr, options.matrix_lr)
        peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        began = measured = time.time()
        span = options.deadline_s - (began - self.started)
        parts = ("cosine", "similarity", "contrast")
        sums = torch.zeros(len(parts), device=self.device)
        counted = 0
        for step, batch in enumerate(endless(self.batches, options.seed)):
            # The clock is what ends a run, and compiling the first shapes counts as training.
            share = max((time.time() - began) / span, (step + 1) / options.steps_max)
            if share >= 1 and step > 0:
                break
            for optimizer, rates in zip(optimizers, peaks):
                for group, rate in zip(optimizer.param_groups, rates):
                    group["lr"] = rate * rate_at(min(1.0, share), step)
            losses = self.losses(batch)
            sum(getattr(options, name) * losses[name] for name in parts).backward()
            torch.nn.utils.clip_grad_norm_(self.raw.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            sums += torch.stack([losses[name].detach() for name in parts])
            counted += 1
            if step % 100 == 0 and self.device == "cuda":
                torch.cuda.synchronize()
            if step in (20, 200) or time.time() - measured > 45:
                means = dict(zip(parts, (sums / counted).tolist()))
                self.note(step, means)
                sums.zero_()
                counted, measured = 0, time.time()
                self.save()
        self.finish(step)

    def note(self, step: int, more: dict) -> None:
        """A line of the log."""
        row = {"step": step, "at_s": time.time() - self.started, **more}
        row |= self.measure.student(self.raw)
        self.log.write(json.dumps(row) + "\n")
        self.log.flush()
        self.say(" ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()))

    def save(self) -> None:
        """The weights in bf16, by the names of BERT's checkpoints."""
        state = {k: v.detach().bfloat16().cpu().contiguous() for k, v in self.raw.state_dict().items()}
        save_file(state, self.options.out / "student.safetensors", metadata={"format": "pt"})

    def finish(self, steps: int) -> None:
        """Saves, and measures what was saved, rounded as it is."""
        self.save()
        with torch.no_grad():
            for weight in self.raw.parameters():
                weight.copy_(weight.bfloat16().float())
        self.note(steps, {"rounded": 1})
        kept = {k: v for k, v in vars(self.options).items() if not isinstance(v, Path)}
        summary = {"options": kept, "pairs": self.batches.describe(), "teacher": self.measure.teacher()}
        (self.options.out / "run.json").write_text(json.dumps(summary, indent=1))
        self.say("done")


def main() -> None:
    torch._dynamo.config.cache_size_limit = 64
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    assert PASSAGE_LENGTHS[0] % 8 == 0 and RUN > 1
    Run(parse()).train()


if __name__ == "__main__":
    main()
