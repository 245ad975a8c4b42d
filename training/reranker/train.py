"""Trains the reranker: `python3 -m training.reranker.train --pairs PAIRS --out OUT`.

The embedder embeds every text once, to find the passages that are taken for the right ones. Then a
cross-encoder that begins as the embedder learns to tell them apart: of each list, which passage
belongs to the anchor (softmax over the list). Runs on one GPU until its deadline.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from training.embedder.batches import Texts
from training.embedder.model import BertSize
from training.embedder.train import ROLES, embed_all, make_optimizers, rate_at
from training.reranker.lists import Lists, PairTexts, Sampler, Slices
from training.reranker.measure import Measure
from training.reranker.model import load_embedder, of_embedder
from training.reranker.negatives import Mining, mine

EMBEDDER = Path("models/embedder")
MEASURE_EVERY_S = 45


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--deadline-s", type=float, default=360, help="from start to last step")
    parser.add_argument("--steps-max", type=int, default=10**9)
    parser.add_argument("--lists", type=int, default=144, help="anchors of a step")
    parser.add_argument("--wrong", type=int, default=7, help="wrong passages of a list")
    parser.add_argument("--tokens-max", type=int, default=384, help="of a pair")
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--matrix-lr", type=float, default=2e-3)
    parser.add_argument("--margin", type=float, default=Mining.margin, help="see negatives.py")
    parser.add_argument("--copy-cosine", type=float, default=Mining.copy_cosine)
    parser.add_argument("--texts-max", type=int, default=10**9, help="pairs used, for trials")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Run:
    """A training run: data, model, the loop."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.started = time.time()
        self.options = options
        self.device = options.device
        options.out.mkdir(parents=True, exist_ok=True)
        self.log = (options.out / "train.jsonl").open("w")
        torch.manual_seed(options.seed)
        torch.set_float32_matmul_precision("high")
        self.read()
        self.prepare()

    def say(self, text: str) -> None:
        print(f"[{time.time() - self.started:6.1f} s] {text}", flush=True)

    def read(self) -> None:
        """All texts and pairs, and the embedder's vectors of them."""
        options, device = self.options, self.device
        embedder = load_embedder(EMBEDDER)
        self.size = BertSize.read(EMBEDDER / "config.json")
        self.model = of_embedder(embedder, self.size).to(device)
        cuda = device == "cuda"
        embedder = embedder.to(device, torch.float16 if cuda else torch.float32).eval()
        self.texts, self.vectors, self.rows = {}, {}, {}
        for split in ("train", "eval"):
            rows = np.load(options.pairs / f"{split}-pairs.npy")[: options.texts_max]
            self.rows[split] = torch.from_numpy(rows).long().to(device)
            for place, role in enumerate(ROLES):
                count = int(rows[:, place].max()) + 1
                whole = Texts.read(options.pairs, f"{split}-{role}-student", device)
                texts = Texts(whole.ids, whole.starts[:count], whole.lengths[:count])
                vectors = embed_all(embedder, texts, 131_072 if cuda else 8_192)
                self.texts[split, role] = texts
                self.vectors[split, role] = vectors if cuda else vectors.float()
                self.say(f"embedder: {count:,} texts of {split}-{role}")

    def prepare(self) -> None:
        """Lists to learn from, and what is measured."""
        options = self.options
        mining = Mining(margin=options.margin, copy_cosine=options.copy_cosine)
        texts, vectors = (
            {split: {role: held[split, role] for role in ROLES} for split in self.rows}
            for held in (self.texts, self.vectors)
        )
        mined = mine(
            self.rows["train"], vectors["train"], texts["train"], self.size.vocab_size, mining
        )
        self.mined = mined.report
        self.say(f"mined: {shown(mined.report)}; {len(mined.pairs):,} anchors to learn from")
        trained, held_out = (PairTexts(*texts[split].values()) for split in ("train", "eval"))
        self.sampler = Sampler(mined.pairs, mined.negatives, options.lists, options.wrong)
        self.slices = Slices(trained, self.sampler, options.tokens_max)
        self.say(f"a step: {self.slices.describe()}")
        self.measure = Measure(
            self.rows["eval"], vectors["eval"], held_out, self.size.max_position_embeddings
        )
        # Nothing of the embedder is read from here on.
        self.vectors.clear()
        self.say(f"embedder on held-out pairs: {shown(self.measure.embedder())}")
        if not options.no_compile:
            self.model.bert.compile_layers()

    def scores(self, lists: Lists) -> Tensor:
        """[lists, 1 + wrong], the right passage first."""
        places, parts = [], []
        for part, ids, types in self.slices.of(lists):
            with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
                parts.append(self.model(ids, types))
            places.append(part)
        in_order = torch.cat(places).argsort()
        return torch.cat(parts)[in_order].view(self.options.lists, -1)

    def train(self) -> None:
        """Until the deadline; measures now and then."""
        options = self.options
        layers = self.model.bert.encoder
        optimizers = make_optimizers(self.model, layers, options.lr, options.matrix_lr)
        peaks = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
        began = measured = time.time()
        span = options.deadline_s - (began - self.started)
        sums, counted = torch.zeros(2, device=self.device), 0
        right = torch.zeros(options.lists, dtype=torch.long, device=self.device)
        for step, lists in enumerate(self.sampler.endless()):
            # The clock is what ends a run, and compiling the shapes counts as training.
            share = max((time.time() - began) / span, step / options.steps_max)
            if share >= 1 and step > 0:
                break
            for optimizer, rates in zip(optimizers, peaks):
                for group, rate in zip(optimizer.param_groups, rates):
                    group["lr"] = rate * rate_at(min(1.0, share), step)
            scores = self.scores(lists)
            loss = F.cross_entropy(scores, right)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            first = (scores.argmax(1) == 0).float().mean()
            sums += torch.stack([loss.detach(), first])
            counted += 1
            if step % 20 == 0 and self.device == "cuda":
                torch.cuda.synchronize()
            if step == 20 or time.time() - measured > MEASURE_EVERY_S:
                self.note(step, dict(zip(("loss", "first"), (sums / counted).tolist())))
                sums.zero_()
                counted, measured = 0, time.time()
                self.save()
        self.finish(step)

    def note(self, step: int, more: dict[str, float]) -> dict[str, float]:
        """Measures, and writes a line of the log."""
        reranked = self.measure.reranked(self.model)
        row = {"step": step, "at_s": time.time() - self.started, **more, **reranked}
        self.log.write(json.dumps(row) + "\n")
        self.log.flush()
        self.say(shown(row))
        return reranked

    def save(self) -> None:
        """The weights in bf16, by the names of BERT's checkpoints."""
        state = self.model.state_dict()
        rounded = {k: v.detach().bfloat16().cpu().contiguous() for k, v in state.items()}
        save_file(rounded, self.options.out / "reranker.safetensors", metadata={"format": "pt"})

    def finish(self, steps: int) -> None:
        """Saves, and measures what was saved, rounded as it is."""
        self.save()
        with torch.no_grad():
            for weight in self.model.parameters():
                weight.copy_(weight.bfloat16().float())
        reranked = self.note(steps, {"rounded": 1})
        summary = {
            "options": {k: v for k, v in vars(self.options).items() if not isinstance(v, Path)},
            "steps": steps,
            "seconds": time.time() - self.started,
            "mined": self.mined,
            "step": self.slices.describe(),
            "embedder": self.measure.embedder(),
            "reranked": reranked,
        }
        (self.options.out / "run.json").write_text(json.dumps(summary, indent=1) + "\n")
        self.say("done")


def shown(row: dict[str, float]) -> str:
    """Names and numbers in one line."""
    return " ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items())


def main() -> None:
    torch._dynamo.config.cache_size_limit = 64
    Run(parse()).train()


if __name__ == "__main__":
    main()
