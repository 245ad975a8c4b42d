"""Records what transformers computes far out in long contexts, for every kind of rope.

    pip install torch transformers
    python -m training.recordings.long_context

writes test/fixtures/long-context: the weights of a Llama of 2 layers (bf16, computed with
in fp32), and expected.json with the configurations, the cosines and sines of far positions, and
the logits of the last two positions of prompts of 4,096 to 131,072 tokens.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

OUT = Path(__file__).resolve().parents[2] / "test/fixtures/long-context"
VOCABULARY = 64
CONTEXT, ORIGINAL = 131_072, 4096
LENGTHS = [4096, 32_768, 131_072]
FAR = [4095, 4096, 32_767, 65_535, 131_071]

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "factor": 32.0}
FACTORS = {
    "short_factor": [1.0, 1.0, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0],
    "long_factor": [1.0, 1.2, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0],
}
KINDS = {
    "default": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 32.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": ORIGINAL},
    "llama3": {"rope_type": "llama3", "original_max_position_embeddings": ORIGINAL, **LLAMA3},
    "longrope": {
        "rope_type": "longrope",
        "original_max_position_embeddings": ORIGINAL,
        **FACTORS,
    },
}


def prompt(length: int) -> torch.Tensor:
    """Tokens by a linear congruence of 2^31, which the test makes, too."""
    state, ids = 12_345, []
    for _ in range(length):
        state = (state * 1_103_515_245 + 12_345) % 2**31
        ids.append((state >> 16) % VOCABULARY)
    return torch.tensor([ids])


def make_weights() -> dict:
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    weights = {}
    for name, weight in model.state_dict().items():
        if weight.dim() == 2:
            # Scores of deviation 4: a few keys, wherever they are, decide what a query sees.
            scale = 0.5 if "q_proj" in name or "k_proj" in name else 0.3
            weight = torch.randn(weight.shape) * scale
        weights[name] = weight.bfloat16().contiguous()
    return weights


def numbers(values: torch.Tensor) -> list:
    return [float(f"{value:.8g}") for value in values.double().flatten().tolist()]


def record(kind: str, weights: dict) -> dict:
    parameters = {"rope_theta": 10_000.0, **KINDS[kind]}
    config = {"model_type": "llama", **SIZES, "rope_parameters": parameters}
    config["tie_word_embeddings"] = False
    logits, angles = {}, {}
    for length in LENGTHS:
        settings = {key: value for key, value in config.items() if key != "model_type"}
        model = LlamaForCausalLM._from_config(LlamaConfig(**json.loads(json.dumps(settings))))
        model.load_state_dict({name: weight.float() for name, weight in weights.items()})
        model = model.float().eval()
        with torch.no_grad():
            out = model(prompt(length), logits_to_keep=2, use_cache=False)
            logits[str(length)] = numbers(out.logits[0])
            positions = torch.arange(length)[None]
            cos, sin = model.model.rotary_emb(torch.zeros(1), positions)
        for place in [place for place in FAR if place < length]:
            half = cos.shape[-1] // 2
            row = torch.cat([cos[0, place, :half], sin[0, place, :half]])
            angles.setdefault(str(length), {})[str(place)] = numbers(row)
        print(kind, length, flush=True)
    return {"config": config, "logits": logits, "angles": angles}


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    weights = make_weights()
    save_file(weights, OUT / "model.safetensors", metadata={"format": "pt"})
    recorded = {kind: record(kind, weights) for kind in KINDS}
    (OUT / "expected.json").write_text(json.dumps(recorded, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
