"""Writes models/embedder: the layout of sentence-transformers, which Perigee and others load.

    python3 -m training.embedder.export --weights OUT/student.safetensors --out models/embedder
"""

import argparse
import json
from pathlib import Path

from safetensors import safe_open

TOKENIZER = Path(".embedder/tokenizer.json")
TOKENS_MAX = 512
HEAD_SIZE = 32


Shapes = dict[str, list[int]]


def read_shapes(path: Path) -> Shapes:
    """The shape of each tensor of a file."""
    with safe_open(path, framework="np") as file:
        return {name: file.get_slice(name).get_shape() for name in file.keys()}


def config_of(shapes: Shapes) -> dict:
    """config.json by the shapes of the weights."""
    vocabulary, hidden = shapes["embeddings.word_embeddings.weight"]
    layers = 1 + max(int(name.split(".")[2]) for name in shapes if name.startswith("encoder."))
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "dtype": "bfloat16",
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": hidden // HEAD_SIZE,
        "intermediate_size": shapes["encoder.layer.0.intermediate.dense.weight"][0],
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": shapes["embeddings.position_embeddings.weight"][0],
        "type_vocab_size": shapes["embeddings.token_type_embeddings.weight"][0],
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }


def files_of(shapes: Shapes) -> dict[str, object]:
    """The JSON files beside the weights."""
    hidden = shapes["embeddings.word_embeddings.weight"][1]
    kinds = ("Transformer", "Pooling", "Normalize")
    return {
        "config.json": config_of(shapes),
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizerFast",
            "do_lower_case": True,
            "model_max_length": TOKENS_MAX,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "mask_token": "[MASK]",
        },
        "modules.json": [
            {
                "idx": place,
                "name": str(place),
                "path": "" if place == 0 else f"{place}_{kind}",
                "type": f"sentence_transformers.models.{kind}",
            }
            for place, kind in enumerate(kinds)
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": hidden,
            "pooling_mode_cls_token": False,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
        "sentence_bert_config.json": {"max_seq_length": TOKENS_MAX, "do_lower_case": False},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=TOKENIZER)
    parser.add_argument("--out", type=Path, default=Path("models/embedder"))
    options = parser.parse_args()
    shapes = read_shapes(options.weights)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in files_of(shapes).items():
        path = options.out / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content, indent=2) + "\n")
    (options.out / "tokenizer.json").write_bytes(options.tokenizer.read_bytes())
    (options.out / "model.safetensors").write_bytes(options.weights.read_bytes())
    sizes = {p: p.stat().st_size for p in sorted(options.out.rglob("*")) if p.is_file()}
    for path, size in sizes.items():
        print(f"{size:>12,} {path}")
    print(f"{sum(sizes.values()):>12,} bytes in all")


if __name__ == "__main__":
    main()
