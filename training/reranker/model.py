"""BERT with a score: the names and the arithmetic of Hugging Face's `BertForSequenceClassification`
with one label."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from training.embedder.model import BertSize, Encoder


class PooledEncoder(Encoder):
    """ids and types [N, L] → [N, C]: a layer over the first token's last state."""

    def __init__(self, size: BertSize) -> None:
        super().__init__(size)
        self.pooler = nn.ModuleDict({"dense": nn.Linear(size.hidden_size, size.hidden_size)})

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        first = self.states(ids, types)[:, 0].float()
        # Two layers on one row of a pair: what scores differ by is lost in bf16.
        with torch.autocast(ids.device.type, enabled=False):
            return torch.tanh(self.pooler["dense"](first))


class CrossEncoder(nn.Module):
    """ids and types [N, L] → scores [N]. Id 0 is padding."""

    def __init__(self, size: BertSize) -> None:
        super().__init__()
        self.bert = PooledEncoder(size)
        self.classifier = nn.Linear(size.hidden_size, 1)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        pooled = self.bert(ids, types)
        with torch.autocast(ids.device.type, enabled=False):
            return self.classifier(pooled).squeeze(-1)


def load_embedder(folder: Path) -> Encoder:
    """The model of a folder that `training.embedder.export` wrote, in f32."""
    encoder = Encoder(BertSize.read(folder / "config.json"))
    state = load_file(folder / "model.safetensors")
    encoder.load_state_dict({name: weight.float() for name, weight in state.items()})
    return encoder


def of_embedder(embedder: Encoder, size: BertSize) -> CrossEncoder:
    """A cross-encoder that reads as the embedder does. Its pooler begins as the tanh of a state,
    and both texts have the type that the embedder knows."""
    model = CrossEncoder(size)
    missing, unexpected = model.bert.load_state_dict(embedder.state_dict(), strict=False)
    assert not unexpected and all(name.startswith("pooler.") for name in missing)
    with torch.no_grad():
        kinds = model.bert.embeddings.token_type_embeddings.weight
        kinds[1] = kinds[0]
        dense = model.bert.pooler["dense"]
        dense.weight.copy_(torch.eye(size.hidden_size))
        dense.bias.zero_()
        nn.init.normal_(model.classifier.weight, std=0.02)
        model.classifier.bias.zero_()
    return model
