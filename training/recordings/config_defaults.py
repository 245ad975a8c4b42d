"""Records what transformers makes of configurations that leave fields out, and of those of rope.

    pip install torch transformers
    python -m training.recordings.config_defaults

writes test/fixtures/config-defaults.json: `configs` are the fields that were given and those that
transformers made of them; `ropes` the radians per position and what cosines and sines are
multiplied by, for sequences of up to the original context and beyond it.
"""

import json
from pathlib import Path

import torch
from transformers import AutoConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

OUT = Path(__file__).resolve().parents[2] / "test/fixtures/config-defaults.json"

SIZES = {
    "hidden_size": 512,
    "intermediate_size": 96,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 320,
    "max_position_embeddings": 8192,
}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
GIVEN = {
    **{
        name: SIZES
        for name in [
            *["llama", "mistral", "gemma2", "qwen2", "qwen3", "phi", "phi3", "bert", "roberta"],
            *["xlm-roberta", "camembert", "modernbert", "nomic_bert"],
        ]
    },
    "mixtral": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {**SIZES, **EXPERTS, "num_experts": 4},
    "opt": {
        **{key: value for key, value in SIZES.items() if key != "intermediate_size"},
        "ffn_dim": 96,
    },
    "gpt2": {
        "n_embd": 512,
        "n_layer": 32,
        "n_head": 32,
        "n_positions": 8192,
        "vocab_size": 320,
    },
}
"""Sizes alone: without them no configuration describes a model, and we refuse it by name."""

VARIANTS = {
    "mistral with a window of null": ("mistral", {"sliding_window": None}),
    "gemma2 with caps of null": (
        "gemma2",
        {"attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "qwen2 with windows": ("qwen2", {"use_sliding_window": True}),
    "qwen3 with windows from layer 3": (
        "qwen3",
        {"use_sliding_window": True, "max_window_layers": 3},
    ),
    "qwen3_moe with windows": ("qwen3_moe", {"use_sliding_window": True}),
    "llama with an old rope": (
        "llama",
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}},
    ),
}
"""What a family makes of fields that are null or switch others on."""

USED = """
    activation_function add_cross_attention attention_bias attn_logit_softcapping
    classifier_activation classifier_bias classifier_pooling decoder_sparse_step
    do_layer_norm_before enable_bias eos_token_id
    final_logit_softcapping head_dim hidden_act hidden_activation is_decoder
    layer_norm_elementwise_affine layer_norm_eps layer_norm_epsilon layer_types local_attention
    max_window_layers mlp_bias mlp_only_layers model_type n_inner norm_bias norm_eps norm_topk_prob
    num_experts num_key_value_heads num_local_experts original_max_position_embeddings
    pad_token_id partial_rotary_factor qk_layernorm query_pre_attn_scalar rms_norm_eps
    rope_parameters
    scale_attn_by_inverse_layer_idx scale_attn_weights sliding_window tie_word_embeddings
    type_vocab_size use_sliding_window word_embed_proj_dim
""".split()

FACTORS = {"short_factor": [1.0, 1.25, 1.5, 2.0], "long_factor": [1.0, 4.0, 16.0, 32.0]}
ROPES = {
    "default": ("llama", {}),
    "linear": ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    "dynamic, within the context": (
        "llama",
        {"rope_scaling": {"type": "dynamic", "factor": 4.0}},
    ),
    "llama3": (
        "llama",
        {
            "rope_theta": 5e5,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 1024,
            },
        },
    ),
    "llama3 without the original context": (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
            }
        },
    ),
    "yarn": (
        "llama",
        {
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 2048,
            }
        },
    ),
    "yarn without the original context": (
        "llama",
        {"rope_scaling": {"type": "yarn", "factor": 4.0}},
    ),
    "yarn whose config says the original context, too": (
        "llama",
        {
            "original_max_position_embeddings": 1024,
            "rope_scaling": {
                "type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 2048,
            },
        },
    ),
    "yarn with a pair of mscale": (
        "llama",
        {
            "rope_scaling": {
                "type": "yarn",
                "factor": 40.0,
                "mscale": 0.707,
                "mscale_all_dim": 1.0,
            }
        },
    ),
    "longrope": (
        "phi3",
        {
            "original_max_position_embeddings": 2048,
            "rope_scaling": {"type": "longrope", **FACTORS},
        },
    ),
    "longrope without the original context": (
        "phi3",
        {"rope_scaling": {"type": "longrope", **FACTORS}},
    ),
    "longrope with a factor of its own": (
        "phi3",
        {
            "original_max_position_embeddings": 2048,
            "rope_scaling": {"type": "longrope", "factor": 8.0, **FACTORS},
        },
    ),
    "longrope by the name of yarn": (
        "phi3",
        {"original_max_position_embeddings": 2048, "rope_scaling": {"type": "yarn", **FACTORS}},
    ),
    "both dialects": (
        "llama",
        {
            "rope_scaling": {"type": "linear", "factor": 4.0},
            "rope_parameters": {"rope_type": "default", "rope_theta": 7.0},
        },
    ),
}
ROPE_SIZES = {**SIZES, "hidden_size": 32, "num_attention_heads": 4}


def config_of(model_type: str, given: dict) -> dict:
    made = AutoConfig.for_model(model_type, **json.loads(json.dumps(given))).to_dict()
    used = {
        key: made.get(key, given.get(key))
        for key in [*USED, *given]
        if key in made or key in given
    }
    return {"given": {"model_type": model_type, **given}, "made": used}


def rope_of(model_type: str, more: dict) -> dict:
    given = {**ROPE_SIZES, **more}
    config = AutoConfig.for_model(model_type, **json.loads(json.dumps(given)))
    rope = (Phi3RotaryEmbedding if model_type == "phi3" else LlamaRotaryEmbedding)(config)
    spans = {}
    for tokens in (16, given["max_position_embeddings"]):
        rope(torch.zeros(1), torch.arange(tokens)[None])
        spans[str(tokens)] = rope.inv_freq.tolist()
    return {
        "given": {"model_type": model_type, **given},
        "frequencies": spans,
        "attention_factor": rope.attention_scaling,
    }


def main() -> None:
    configs = {name: config_of(name, given) for name, given in GIVEN.items()}
    for name, (model_type, more) in VARIANTS.items():
        configs[name] = config_of(model_type, {**GIVEN[model_type], **more})
    ropes = {name: rope_of(model_type, more) for name, (model_type, more) in ROPES.items()}
    OUT.write_text(
        json.dumps({"configs": configs, "ropes": ropes}, separators=(",", ":")) + "\n"
    )


if __name__ == "__main__":
    main()
