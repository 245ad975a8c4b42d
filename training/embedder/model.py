"""BERT as training needs it: the names of its checkpoints, one attention call, mean pooling."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class BertSize:
    """Sizes, by their names in config.json."""

    vocab_size: int = 8192
    hidden_size: int = 256
    num_hidden_layers: int = 5
    num_attention_heads: int = 8
    intermediate_size: int = 768
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12

    @staticmethod
    def read(path: Path) -> "BertSize":
        """The sizes of a config.json."""
        config = json.loads(path.read_text())
        return BertSize(**{name: config[name] for name in asdict(BertSize())})


class SelfAttention(nn.Module):
    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.query = nn.Linear(size.hidden_size, size.hidden_size)
        self.key = nn.Linear(size.hidden_size, size.hidden_size)
        self.value = nn.Linear(size.hidden_size, size.hidden_size)


class Output(nn.Module):
    """A projection with the norm behind the sum, as BERT has it."""

    def __init__(self, inputs: int, size: BertSize) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, size.hidden_size)
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=size.layer_norm_eps)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dense(x) + residual)


class Layer(nn.Module):
    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.heads = size.num_attention_heads
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(size), "output": Output(size.hidden_size, size)}
        )
        self.intermediate = nn.ModuleDict(
            {"dense": nn.Linear(size.hidden_size, size.intermediate_size)}
        )
        self.output = Output(size.intermediate_size, size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x [N, L, C]; mask [N, 1, 1, L] is true where there is a token."""
        texts, length, width = x.shape
        states = self.attention["self"]
        q, k, v = (
            project(x).view(texts, length, self.heads, width // self.heads).transpose(1, 2)
            for project in (states.query, states.key, states.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.attention["output"](mixed.transpose(1, 2).reshape(texts, length, width), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class Embeddings(nn.Module):
    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(size.vocab_size, size.hidden_size, padding_idx=0)
        self.position_embeddings = nn.Embedding(size.max_position_embeddings, size.hidden_size)
        self.token_type_embeddings = nn.Embedding(size.type_vocab_size, size.hidden_size)
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=size.layer_norm_eps)

    def forward(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """`types` [N, L] are 0 or 1; without them all are 0."""
        x = self.word_embeddings(ids) + self.position_embeddings.weight[: ids.shape[1]]
        kinds = self.token_type_embeddings.weight
        x = x + kinds[0]
        # A product rather than a look-up, whose gradient would be added row by row.
        return self.LayerNorm(x if types is None else x + types[..., None] * (kinds[1] - kinds[0]))


class Encoder(nn.Module):
    """ids [N, L] → vectors [N, C] of length 1: the mean of the last states. Id 0 is padding."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.embeddings = Embeddings(size)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(Layer(size) for _ in range(size.num_hidden_layers))}
        )

    def states(self, ids: Tensor, types: Tensor | None = None) -> Tensor:
        """The last layer's states [N, L, C]."""
        x = self.embeddings(ids, types)
        # A copy for each row of queries: the kernels want no broadcast over the last two.
        mask = (ids != 0)[:, None, None, :].expand(-1, 1, ids.shape[1], -1)
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        weights = (ids != 0)[..., None].float()
        sums = (self.states(ids).float() * weights).sum(1)
        return F.normalize(sums / weights.sum(1).clamp(min=1), dim=-1)

    def compile_layers(self) -> None:
        """Compiles a layer once for each shape; all layers share the code."""
        for layer in self.encoder["layer"]:
            layer.compile(dynamic=False)

    @contextmanager
    def uncompiled(self) -> Iterator[None]:
        """Runs the layers eagerly meanwhile: for texts of many shapes."""
        layers = self.encoder["layer"]
        compiled = [layer._compiled_call_impl for layer in layers]
        for layer in layers:
            layer._compiled_call_impl = None
        try:
            yield
        finally:
            for layer, call in zip(layers, compiled):
                layer._compiled_call_impl = call


def initialise(model: Encoder) -> None:
    """BERT's initialisation."""
    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            nn.init.normal_(weight, std=0.02 if "embeddings" in name else weight.shape[1] ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[0].zero_()
