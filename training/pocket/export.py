"""Writes the trained weights in Hugging Face's Llama layout: bf16 safetensors and the configs."""

import argparse
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from training.pocket.model import PocketConfig

END_OF_TEXT_ID, PAD_ID, END_ID = 0, 1, 3
BUNDLED = Path("models/pocket")
"""Its tokenizer is that of all sizes."""


def model_config(config: PocketConfig) -> dict:
    """config.json."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(config),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "use_cache": True,
        "rope_scaling": None,
        "bos_token_id": None,
        "eos_token_id": [END_ID, END_OF_TEXT_ID],
        "pad_token_id": PAD_ID,
        "torch_dtype": "bfloat16",
    }


def generation_config() -> dict:
    """generation_config.json: a little randomness, because the model is small."""
    return {
        "eos_token_id": [END_ID, END_OF_TEXT_ID],
        "pad_token_id": PAD_ID,
        "do_sample": True,
        "temperature": 0.3,
        "top_p": 0.9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--config", type=Path, help="sizes other than the bundled model's")
    parser.add_argument("--out", type=Path, default=BUNDLED)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    state = torch.load(arguments.weights, map_location="cpu", weights_only=True)
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in state.items()}
    save_file(tensors, arguments.out / "model.safetensors", metadata={"format": "pt"})
    config = PocketConfig.read(arguments.config) if arguments.config else PocketConfig()
    for name, value in (("config", model_config(config)), ("generation_config", generation_config())):
        (arguments.out / f"{name}.json").write_text(json.dumps(value, indent=2) + "\n")
    for name in () if arguments.out == BUNDLED else ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BUNDLED / name, arguments.out / name)
    print(f"{len(tensors)} tensors, {sum(t.numel() for t in tensors.values()):,} parameters")


if __name__ == "__main__":
    main()
