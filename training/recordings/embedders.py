"""Records what sentence-transformers makes of tiny models in the layouts of published ones.

    pip install torch transformers sentence-transformers
    python -m training.recordings.embedders

writes test/fixtures/embedders/<layout>: config.json and weights (bf16, which both sides compute
with in fp32), and expected.json: the other files of each variant's folder, the tokenizer as a patch
of one in test/fixtures/tokenizers, and the vectors of queries and documents, or scores of pairs.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from training.recordings.embedder_layouts import CONTEXT, LAYOUTS, VOCABULARY

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "test/fixtures/embedders"
TOKENIZERS = ROOT / "test/fixtures/tokenizers"
QUERIES = ["where are keys and values kept?", "blocks"]
DOCUMENTS = [
    "The cache keeps blocks of keys and values.",
    "A short one",
    "Every request waits for the blocks of its prefix, and every block that nobody holds may go. " * 4,
]
PAIRS = [
    ["where are keys and values kept?", "The cache keeps blocks of keys and values."],
    ["blocks", "A short one"],
    ["", "A text without a question."],
    ["a query of some words, and more of them", DOCUMENTS[2]],
    [DOCUMENTS[2], "short"],
    [DOCUMENTS[2], DOCUMENTS[2][7:]],
]


def randomized(model: torch.nn.Module) -> torch.nn.Module:
    """Weights that bf16 has, large enough for every part to show in the result."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.normal_(0, 0.4)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1)
            else:
                weight.normal_(1, 0.2)
            weight.copy_(weight.bfloat16().float())
    return model.eval()


def save(model: torch.nn.Module, folder: Path) -> dict:
    """Writes the weights under the names that published files have; returns config.json."""
    with tempfile.TemporaryDirectory() as scratch:
        model.save_pretrained(scratch)
        weights = load_file(Path(scratch, "model.safetensors"))
        config = json.loads(Path(scratch, "config.json").read_text())
    weights = {name: weight.bfloat16().contiguous() for name, weight in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    return config


def tokenizer_of(layout: dict) -> dict:
    base = json.loads((TOKENIZERS / layout["tokenizer"]["base"] / "tokenizer.json").read_text())
    return {**base, **layout["tokenizer"]["patch"], "model": shortened(base["model"])}


def shortened(model: dict) -> dict:
    """The same model of a tokenizer with its first tokens alone."""
    if isinstance(model["vocab"], list):
        return {**model, "vocab": model["vocab"][:VOCABULARY]}
    vocab = {token: place for token, place in model["vocab"].items() if place < VOCABULARY}
    if "merges" not in model:
        return {**model, "vocab": vocab}
    pairs = [merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"]]
    return {**model, "vocab": vocab, "merges": [pair for pair in pairs if "".join(pair) in vocab]}


def numbers(values: list) -> list:
    return [float(f"{value:.7g}") for value in values]


def write(folder: str, files: dict) -> None:
    for path, content in files.items():
        Path(folder, path).parent.mkdir(exist_ok=True)
        Path(folder, path).write_text(json.dumps(content))


def copied(name: str, layout: dict, folder: str, more: dict, tokens: dict) -> None:
    """A folder as sentence-transformers opens it."""
    shutil.copy(OUT / name / "model.safetensors", folder)
    config = json.loads((OUT / name / "config.json").read_text())
    write(
        folder,
        {
            "config.json": {**config, **more},
            "tokenizer.json": tokenizer_of(layout),
            "tokenizer_config.json": {"model_max_length": CONTEXT, **layout["tokens"], **tokens},
        },
    )


def embedded(name: str, layout: dict, variant: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        copied(name, layout, folder, {}, {})
        write(folder, variant["files"])
        Path(folder, "2_Normalize").mkdir(exist_ok=True)
        given = variant.get("given")
        model = SentenceTransformer(
            folder, device="cpu", prompts=given, model_kwargs={"dtype": torch.float32}
        )
        # One at a time: padding must not show.
        queries = model.encode_query(QUERIES, batch_size=1)
        documents = model.encode_document(DOCUMENTS, batch_size=1)
        prompt = model.prompts.get("document") or ""
        tokens = [
            min(model.max_seq_length, len(model.tokenizer(prompt + text)["input_ids"]))
            for text in DOCUMENTS
        ]
    return {
        **variant,
        "documentTokens": tokens,
        "queries": [numbers(row) for row in queries.tolist()],
        "documents": [numbers(row) for row in documents.tolist()],
    }


def scored(name: str, layout: dict, variant: dict) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        copied(name, layout, folder, variant["config"], variant.get("tokens", {}))
        model = CrossEncoder(folder, device="cpu", model_kwargs={"dtype": torch.float32})
        scores = model.predict(PAIRS, batch_size=1)
    return {**variant, "scores": numbers(scores.tolist())}


def main() -> None:
    for name, layout in LAYOUTS.items():
        torch.manual_seed(7)
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        save(randomized(layout["model"]()), folder)
        out = {
            "tokenizer": {**layout["tokenizer"], "vocabulary": VOCABULARY},
            "tokens": {"model_max_length": CONTEXT, **layout["tokens"]},
            "queries": QUERIES,
            "documents": DOCUMENTS,
            "pairs": PAIRS,
            "embedders": {
                title: embedded(name, layout, variant)
                for title, variant in layout["embedders"].items()
            },
            "rerankers": {
                title: scored(name, layout, variant)
                for title, variant in layout.get("rerankers", {}).items()
            },
        }
        (folder / "expected.json").write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
