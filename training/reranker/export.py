"""Writes a folder in Hugging Face's layout of cross-encoders, which Perigee and others load.

    python3 -m training.reranker.export --weights OUT/reranker.safetensors --out OUT/model --check

`--check` scores pairs with transformers and with the code that was trained, where transformers is
installed, and fails where they differ.
"""

import argparse
import importlib.util
import json
from pathlib import Path

from training.embedder.export import config_of, files_of, read_shapes

EMBEDDER = Path("models/embedder")
PREFIX = "bert."
TOLERANCE = 1e-3
CHECKED = (
    ("How do I list files?", "ls prints the names of the files in a directory."),
    ("How do I list files?", "A tuple holds values of several types."),
    ("", "A text without a question."),
    ("what keeps a process alive " * 6, "A process ends when its last thread has ended. " * 60),
)


def files(weights: Path) -> dict[str, object]:
    """The JSON files beside the weights."""
    shapes = read_shapes(weights)
    inside = {k.removeprefix(PREFIX): v for k, v in shapes.items() if k.startswith(PREFIX)}
    config = {
        **config_of(inside),
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "LABEL_0"},
        "label2id": {"LABEL_0": 0},
    }
    return {
        "config.json": config,
        "tokenizer_config.json": files_of(inside)["tokenizer_config.json"],
    }


def check(folder: Path) -> float:
    """The largest difference between transformers' scores and those of what was trained."""
    import torch
    from safetensors.torch import load_file
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from training.embedder.model import BertSize
    from training.reranker.model import CrossEncoder

    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).float().eval()
    ours = CrossEncoder(BertSize.read(folder / "config.json"))
    state = load_file(folder / "model.safetensors")
    ours.load_state_dict({name: weight.float() for name, weight in state.items()})
    worst = 0.0
    for query, passage in CHECKED:
        row = tokenizer(query, passage, truncation=True, return_tensors="pt")
        with torch.no_grad():
            wanted = theirs(**row).logits[0, 0]
            given = ours(row["input_ids"], row["token_type_ids"].float())[0]
        print(f"{wanted.item():8.4f} {given.item():8.4f} {query[:40]!r} {passage[:40]!r}")
        worst = max(worst, abs(wanted - given).item())
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=EMBEDDER / "tokenizer.json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in files(options.weights).items():
        (options.out / name).write_text(json.dumps(content, indent=2) + "\n")
    (options.out / "tokenizer.json").write_bytes(options.tokenizer.read_bytes())
    (options.out / "model.safetensors").write_bytes(options.weights.read_bytes())
    for path in sorted(options.out.iterdir()):
        print(f"{path.stat().st_size:>12,} {path}")
    if options.check and importlib.util.find_spec("transformers") is None:
        print("not checked: transformers is not installed")
    elif options.check:
        worst = check(options.out)
        print(f"largest difference from transformers: {worst:.2e}")
        assert worst < TOLERANCE


if __name__ == "__main__":
    main()
