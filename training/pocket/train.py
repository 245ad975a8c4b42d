"""Trains Pocket on the mixture, saves fp32 weights to <out>/pocket.pt and a log to <out>/train.jsonl."""

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from training.data.corpus import read_corpus
from training.data.mixture import (
    SHARD_WINDOWS,
    PROSE_SHARE,
    ChatStream,
    ProseStream,
    batches,
    chat_shard,
    encode_documents,
    mine_sources,
)
from training.pocket.model import Pocket, PocketConfig
from training.pocket.optimizer import make_optimizers

CLASS_WEIGHTS = (0.0, 0.2, 2.0, 1.0)
"""Loss weights of masked, prompt, answer and prose tokens."""


def weighted_loss(
    model: torch.nn.Module, ids: Tensor, classes: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """Sum of weighted cross-entropies, and of weights."""
    logits = model(ids[:, :-1])
    losses = F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none")
    weight = weights[classes[:, 1:].flatten().int()]
    return (losses * weight).sum(), weight.sum()


WARMUP_SHARE = 0.02


def learning_rate(progress: float) -> float:
    """Share of the peak: linear warm-up, then linear decay to 5 %; `progress` from 0 to 1."""
    if progress < WARMUP_SHARE:
        return progress / WARMUP_SHARE
    return 1 - 0.95 * (progress - WARMUP_SHARE) / (1 - WARMUP_SHARE)


def prefetch(
    source: Iterator[tuple[np.ndarray, np.ndarray]], depth: int = 6
) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches on the GPU, prepared by a thread."""
    queue: Queue[tuple[Tensor, Tensor]] = Queue(depth)

    def run() -> None:
        for ids, classes in source:
            queue.put(
                (
                    torch.from_numpy(ids.astype(np.int32)).pin_memory(),
                    torch.from_numpy(classes).pin_memory(),
                )
            )

    threading.Thread(target=run, daemon=True).start()
    while True:
        ids, classes = queue.get()
        yield ids.cuda(non_blocking=True).long(), classes.cuda(non_blocking=True)


@torch.no_grad()
def evaluate(model: torch.nn.Module, windows: dict[str, tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Loss per prose token and per answer token, and the accuracy of answer tokens."""
    result = {}
    for name, (ids, classes) in windows.items():
        target_class = 3 if name == "prose" else 2
        total = correct = count = 0.0
        for part, part_classes in zip(ids.split(32), classes.split(32)):
            with torch.autocast("cuda", torch.bfloat16):
                logits = model(part[:, :-1]).float()
            wanted = part_classes[:, 1:] == target_class
            losses = F.cross_entropy(logits[wanted], part[:, 1:][wanted], reduction="sum")
            correct += (logits.argmax(-1) == part[:, 1:])[wanted].sum().item()
            total, count = total + losses.item(), count + wanted.sum().item()
        result[f"{name}_loss"], result[f"{name}_accuracy"] = total / count, correct / count
    return result


def evaluation_windows(seed: str, tokenizer: Tokenizer) -> dict[str, tuple[Tensor, Tensor]]:
    """64 chat windows of held-out names and 64 windows of held-out documents."""
    prose = ProseStream(
        encode_documents(tokenizer, read_corpus("eval"), seed), seed + ":eval"
    ).take(64)
    chat = chat_shard(seed, 0, "eval", tokenizer, mine_sources("eval"), windows=64)
    gpu = lambda pair: (
        torch.from_numpy(pair[0].astype(np.int64)).cuda(),
        torch.from_numpy(pair[1]).cuda(),
    )  # noqa: E731
    return {"prose": gpu(prose), "chat": gpu(chat)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path("models/pocket/tokenizer.json"))
    parser.add_argument("--config", type=Path, help="sizes other than the bundled model's")
    parser.add_argument("--seed", default="pocket-1")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--windows", type=int, default=128, help="windows of 2,048 tokens per step")
    parser.add_argument("--optimizer", choices=("adamw", "muon"), default="muon")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--matrix-lr", type=float, default=4e-3, help="peak rate of Muon")
    parser.add_argument(
        "--deadline-s", type=float, default=1e9, help="stop and save after this many seconds"
    )
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    return parser.parse_args()


def start_streams(
    options: argparse.Namespace, tokenizer: Tokenizer
) -> tuple[ChatStream, ProseStream]:
    """Both streams; worker processes start before CUDA does."""
    sources = mine_sources("train")
    chat_windows = options.steps * options.windows * (1 - PROSE_SHARE)
    shards = int(chat_windows / SHARD_WINDOWS) + 4
    chat = ChatStream(options.seed, shards, options.tokenizer, sources, options.workers)
    prose = ProseStream(
        encode_documents(tokenizer, read_corpus("train"), options.seed), options.seed
    )
    print(
        f"{len(sources.definitions)} definitions, {len(sources.headings)} headings,"
        f" {len(prose.tokens):,} tokens of documents",
        flush=True,
    )
    return chat, prose


def train(
    options: argparse.Namespace,
    model: Pocket,
    stream: Iterator[tuple[Tensor, Tensor]],
    windows: dict[str, tuple[Tensor, Tensor]],
    started: float,
) -> None:
    """The training loop."""
    compiled = torch.compile(model)
    optimizers = make_optimizers(model, options.optimizer, options.lr, options.matrix_lr)
    peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    weights = torch.tensor(CLASS_WEIGHTS, device="cuda")
    log = (options.out / "train.jsonl").open("w")
    began = marked = time.time()
    marked_step = 0
    for step in range(options.steps):
        ids, classes = next(stream)
        # The rate follows whatever ends first, the steps or the time.
        spent = (time.time() - began) / (options.deadline_s - (began - started))
        share = learning_rate(min(1.0, max((step + 1) / options.steps, spent)))
        for optimizer, rates in zip(optimizers, peaks):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * share
        with torch.autocast("cuda", torch.bfloat16):
            loss, weight = weighted_loss(compiled, ids, classes, weights)
        (loss / weight).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        last = step + 1 == options.steps or time.time() - started > options.deadline_s
        if step % 20 == 0 or last:
            value = (loss / weight).item()
            now = time.time()
            rate = (step - marked_step) * options.windows * 2048 / (now - marked)
            row = {
                "step": step,
                "loss": value,
                "norm": norm.item(),
                "tokens_per_s": rate,
                "at_s": now - started,
            }
            if step % 200 == 0 or last:
                row |= evaluate(model, windows)
            marked, marked_step = time.time(), step
            log.write(json.dumps(row) + "\n")
            log.flush()
            if step % 100 == 0 or last or step == 20:
                print({k: round(v, 4) for k, v in row.items()}, flush=True)
        if last:
            break


def main() -> None:
    started = time.time()
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(options.tokenizer))
    chat, prose = start_streams(options, tokenizer)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    config = PocketConfig.read(options.config) if options.config else PocketConfig()
    model = Pocket(config).cuda()
    windows = evaluation_windows(options.seed, tokenizer)
    print(
        f"ready after {time.time() - started:.0f} s, {sum(p.numel() for p in model.parameters()):,} parameters",
        flush=True,
    )
    train(options, model, prefetch(batches(chat, prose, options.windows)), windows, started)
    torch.save({k: v.cpu() for k, v in model.state_dict().items()}, options.out / "pocket.pt")
    chat.close()
    print(f"done after {time.time() - started:.0f} s", flush=True)
    os._exit(0)  # The prefetch thread still waits for batches.


if __name__ == "__main__":
    main()
