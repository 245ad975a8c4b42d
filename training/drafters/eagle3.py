"""Distils an EAGLE-3 from a Llama-shaped model, on texts that the model wrote itself.

Source: Li et al. 2025, "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via
Training-Time Test" (arXiv 2503.01840). The network and its keys are those of SafeAILab/EAGLE.

A root is a token behind which a draft begins. Level 0 reads the root and the model's hidden states
behind the token before it; level l the token l places behind the root, and what the network itself
made at the level before. Each sees the entries of the text up to the root, and those of its own
levels, as a server's chain does.

Letters: B outputs, T their tokens, R roots of an output, C hidden size, H query heads, K key/value
heads, D head size.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.drafters.distill import (
    LEVEL_DECAY,
    Row,
    States,
    add_arguments,
    agreement_of,
    export,
    fit,
    groups,
    level_loss,
    prepare,
    teacher_of,
)
from training.pocket.model import Layer, Pocket, PocketConfig, RMSNorm, rope_tables, rotate

LEVELS = 5
"""Tokens that are drafted behind each other in training."""
TAPS = (2, 6, 9)
"""Layers whose inputs are read: what a server takes by default of twelve."""
LENGTH_SPREAD = 0.1
"""Outputs are drawn together whose lengths differ by about this share."""
TOKENS_PER_ROOT = 16
"""A root costs about as much memory as so many tokens of a prompt."""


@dataclass
class Batch:
    """Some outputs, padded."""

    places: Tensor
    """[B, T] of all tokens in `States`."""
    offsets: Tensor
    """[B, R] of the roots in their outputs."""

    @property
    def roots(self) -> Tensor:
        """[B, R] places in `States`."""
        return self.places[:, :1] + self.offsets


class Texts(States):
    """Whole outputs: what is drawn are their numbers, on the host."""

    def __init__(self, model: Pocket, rows: list[Row], *others, **named) -> None:
        # At least one root each, with a token of the output behind it.
        rooted = [(ids, prompt) for ids, prompt in rows if len(ids) >= max(1, prompt) + 2]
        super().__init__(model, rooted, *others, **named)
        outline = np.stack([self.firsts, self.roots, self.lengths])
        self.outline = torch.from_numpy(outline).to(self.ids.device)
        self.random = np.random.default_rng(1)
        self.waiting: list[np.ndarray] = []

    def draw(self, count: int) -> Tensor:
        """Outputs of about `count` roots together, padded; all are drawn before any again."""
        if not self.waiting:
            # Alike in roots, which cost most, then in length; with whom changes each time.
            written = self.lengths - self.roots
            alike = np.floor(2 * np.log2(written) + self.random.random(len(written)))
            spread = self.random.uniform(1 - LENGTH_SPREAD, 1 + LENGTH_SPREAD, len(written))
            order = np.lexsort((self.lengths * spread, alike))
            sizes = np.maximum(written, self.lengths // TOKENS_PER_ROOT)[order]
            self.waiting = [order[first:end] for first, end in groups(sizes, count)]
            self.random.shuffle(self.waiting)
        return torch.from_numpy(self.waiting.pop())

    def shown(self) -> Tensor:
        return torch.arange(len(self.lengths))

    def batch(self, rows: Tensor) -> Batch:
        """Of outputs that were drawn."""
        device, numbers = self.ids.device, rows.numpy()
        width = int(self.lengths[numbers].max())
        count = int((self.lengths - self.roots)[numbers].max()) - 1
        columns = torch.arange(width, device=device)
        # Waits for nothing, so that the host stays ahead.
        drawn = self.outline[:, rows.to(device, non_blocking=True)]
        firsts, roots, lengths = drawn[..., None]
        # Padding repeats the last token, behind which nothing is taught.
        places = firsts + torch.minimum(columns, lengths - 1)
        return Batch(places, torch.minimum(roots + columns[:count], lengths - 1))


@dataclass
class Entries:
    """Keys and values that roots see."""

    keys: Tensor
    """[B, K, T - 1, D] and so the values: of all tokens but the first, which follows no state."""
    values: Tensor
    unseen: Tensor
    """[B, 1, 1, R, T - 1]: behind the root."""
    chain: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    """[B, K, R, D] each: the root's own, of the levels behind the first."""


def attend(query: Tensor, entries: Entries) -> Tensor:
    """What roots read, [B, R, H * D], from their queries, [B, H, R, D]."""
    batch, heads, roots, size = query.shape
    kv_heads, tokens = entries.keys.shape[1:3]
    query = query.view(batch, kv_heads, heads // kv_heads, roots, size) * size**-0.5
    scores = (query.flatten(2, 3) @ entries.keys.mT).view(*query.shape[:-1], tokens)
    scores = scores.masked_fill(entries.unseen, -torch.inf)
    own = [(query * key[:, :, None]).sum(-1, keepdim=True) for key, _ in entries.chain]
    weights = torch.cat([scores, *own], dim=-1).softmax(-1).to(query.dtype)
    mixed = (weights[..., :tokens].flatten(2, 3) @ entries.values).view(query.shape)
    for place, (_, value) in enumerate(entries.chain, start=tokens):
        mixed = mixed + weights[..., place : place + 1] * value[:, :, None]
    return mixed.flatten(1, 2).transpose(1, 2).flatten(2)


class MidLayer(Layer):
    """A layer of the model's kind, whose attention reads an embedding beside the hidden state."""

    def __init__(self, config: PocketConfig) -> None:
        super().__init__(config)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        for name in ("q_proj", "k_proj", "v_proj"):
            rows = getattr(self.self_attn, name).out_features
            wide = nn.Linear(2 * config.hidden_size, rows, bias=False)
            setattr(self.self_attn, name, wide)

    def joined(self, embedded: Tensor, state: Tensor) -> Tensor:
        """What the attention reads, [B, T, 2 C]."""
        return torch.cat([self.input_layernorm(embedded), self.hidden_norm(state)], dim=-1)

    def heads(self, projected: Tensor) -> Tensor:
        """[B, heads, T, D]."""
        return projected.unflatten(-1, (-1, self.self_attn.config.head_dim)).transpose(1, 2)

    def entries(self, joined: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values, [B, K, T, D]."""
        keys, values = self.self_attn.k_proj(joined), self.self_attn.v_proj(joined)
        return rotate(self.heads(keys), cos, sin), self.heads(values)

    def state(
        self, joined: Tensor, state: Tensor, entries: Entries, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """What the next level begins at, [B, R, C]."""
        query = rotate(self.heads(self.self_attn.q_proj(joined)), cos, sin)
        state = state + self.self_attn.o_proj(attend(query, entries))
        return state + self.mlp(self.post_attention_layernorm(state))


class Eagle3(nn.Module):
    """Logits of tokens that are drafted behind each other, by the keys of SafeAILab/EAGLE."""

    def __init__(self, config: PocketConfig, taps: int, vocabulary: int, dropout: float) -> None:
        super().__init__()
        self.config, self.dropout = config, dropout
        self.fc = nn.Linear(taps * config.hidden_size, config.hidden_size, bias=False)
        self.midlayer = MidLayer(config)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, vocabulary, bias=False)

    def initialise(self, model: Pocket, chosen: Tensor) -> None:
        """Begins at random, but with the model's own last norm and output layer."""
        with torch.no_grad():
            for weight in self.parameters():
                if weight.ndim == 2:
                    weight.normal_(std=0.02)
            # Hidden states of the model are large beside what a layer adds.
            self.fc.weight.mul_(0.1)
            self.norm.weight.copy_(model.model.norm.weight)
            self.lm_head.weight.copy_(model.model.embed_tokens.weight[chosen])

    def forward(self, texts: Texts, batch: Batch, embeddings: Tensor) -> Iterator[Tensor]:
        """[B, R, draft vocabulary] of each level; the model's own tokens stand before each."""
        width = batch.places.shape[1]
        cos, sin = rope_tables(self.config, width + LEVELS, batch.places.device)
        inputs = F.dropout(texts.inputs[batch.places].float(), self.dropout, self.training)
        hidden = self.fc(inputs).float()
        embedded = embeddings[texts.ids[batch.places[:, 1:]]]
        joined = self.midlayer.joined(embedded, hidden[:, :-1])
        offsets = torch.arange(1, width, device=cos.device)
        entries = Entries(
            *self.midlayer.entries(joined, cos[1:width], sin[1:width]),
            unseen=(offsets > batch.offsets[..., None])[:, None, None],
        )
        behind = batch.offsets[..., None].expand(-1, -1, hidden.shape[-1]) - 1
        state = hidden.gather(1, behind)
        for level in range(LEVELS):
            places = batch.offsets + level
            angles = cos[places][:, None], sin[places][:, None]
            joined = self.midlayer.joined(embeddings[texts.ids[batch.roots + level]], state)
            if level > 0:
                entries.chain.append(self.midlayer.entries(joined, *angles))
            state = self.midlayer.state(joined, state, entries, *angles)
            yield self.lm_head(self.norm(state))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser, "eagle3")
    parser.add_argument("--taps", type=int, nargs="+", default=TAPS)
    arguments = parser.parse_args()
    prepared = prepare(arguments, LEVELS, partial(Texts, taps=arguments.taps))
    device, embeddings, chosen = prepared.device, prepared.embeddings, prepared.chosen
    model_head = embeddings[chosen]
    config = prepared.model.config
    drafter = Eagle3(config, len(arguments.taps), len(chosen), arguments.dropout).to(device)
    drafter.initialise(prepared.model, chosen)

    def losses(texts: Texts, rows: Tensor) -> tuple[Tensor, list[Tensor]]:
        batch = texts.batch(rows)
        anchors = batch.roots.flatten() - 1
        total, agreement = torch.zeros((), device=device), []
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            for level, found in enumerate(drafter(texts, batch, embeddings), start=1):
                logits = found.flatten(0, 1).float()
                teacher = teacher_of(texts, anchors + level, anchors, model_head)
                total = total + LEVEL_DECAY ** (level - 1) * level_loss(logits, teacher)
                agreement.append(agreement_of(logits.detach(), teacher, chosen))
        return total, agreement

    fit(drafter, losses, prepared, arguments)
    written = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **asdict(config),
        "num_hidden_layers": 1,
        "hidden_act": "silu",
        "eagle_aux_hidden_state_layer_ids": list(arguments.taps),
        "draft_length_trained": LEVELS,
    }
    export(prepared, arguments, drafter.state_dict(), written)


if __name__ == "__main__":
    main()
