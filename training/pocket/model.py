"""The Llama-layout decoder in PyTorch, with Hugging Face's parameter names.

Letters: B sequences, T positions, C hidden size, H query heads, K key/value heads, D head size.
"""

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class PocketConfig:
    """Sizes of the model."""

    vocab_size: int = 4096
    hidden_size: int = 384
    intermediate_size: int = 1024
    num_hidden_layers: int = 12
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 64
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0

    @classmethod
    def read(cls, path: Path) -> "PocketConfig":
        """The sizes in a JSON file, which may say more, as a config.json does."""
        found = json.loads(path.read_text())
        return cls(**{field.name: found[field.name] for field in fields(cls) if field.name in found})


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return (wide * self.weight).to(x.dtype)


def rope_tables(config: PocketConfig, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin, [T, D], each frequency twice (rotate-half layout)."""
    exponents = torch.arange(0, config.head_dim, 2, device=device).float() / config.head_dim
    angles = torch.outer(
        torch.arange(length, device=device).float(), config.rope_theta**-exponents
    )
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Applies rotary positions to [B, H, T, D]."""
    first, second = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-second, first], dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.config = config
        size, head = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(size, config.num_attention_heads * head, bias=False)
        self.k_proj = nn.Linear(size, config.num_key_value_heads * head, bias=False)
        self.v_proj = nn.Linear(size, config.num_key_value_heads * head, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * head, size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = lambda y: y.view(batch, length, -1, self.config.head_dim).transpose(
            1, 2
        )  # noqa: E731
        query, key, value = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Backbone(nn.Module):
    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Pocket(nn.Module):
    """Token ids to hidden states or logits; the output matrix is the embedding."""

    def __init__(self, config: PocketConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Backbone(config)
        self.apply(self._initialise)
        scale = 0.02 / math.sqrt(2 * config.num_hidden_layers)
        for layer in self.model.layers:
            nn.init.normal_(layer.self_attn.o_proj.weight, std=scale)
            nn.init.normal_(layer.mlp.down_proj.weight, std=scale)

    def _initialise(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def hidden(self, ids: Tensor, inputs: list[Tensor] | None = None) -> Tensor:
        """Final normed hidden states, [B, T, C]; `inputs` receives what each layer reads."""
        x = self.model.embed_tokens(ids)
        cos, sin = rope_tables(self.config, ids.shape[1], ids.device)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for layer in self.model.layers:
            if inputs is not None:
                inputs.append(x)
            x = layer(x, cos, sin)
        return self.model.norm(x)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits, [B, T, V]."""
        return F.linear(self.hidden(ids), self.model.embed_tokens.weight)
