# SPDX-License-Identifier: BSD-3-Clause
"""Transformers: attention written out, torch's own attention, a BERT-like encoder, a small ViT."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class _EncoderLayer(nn.Module):
    """Self-attention and a GELU feed-forward part, each with residual and layer norm behind it."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def _split(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[N, length, width] to the same."""
        query, key, value = (self._split(f(x)) for f in (self.query, self.key, self.value))
        scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5)
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        y: Tensor = self.norm2(x + self.down(nn.functional.gelu(self.up(x))))
        return y


class Encoder(nn.Module):
    """A small transformer encoder: features [N, length, width], logits [N, classes]."""

    def __init__(
        self, width: int = 32, heads: int = 4, hidden: int = 64, layers: int = 2, classes: int = 5
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads, hidden) for _ in range(layers)))
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Features to logits."""
        logits: Tensor = self.classifier(self.layers(x).mean(1))
        return logits


class BertLike(nn.Module):
    """Token and position embeddings, torch's encoder layers, logits of the first token."""

    def __init__(
        self, tokens: int = 100, length: int = 16, width: int = 32, heads: int = 4, classes: int = 3
    ) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.register_buffer("positions", torch.arange(length))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 2 * width, dropout=0.0, activation="gelu", batch_first=True
            )
            for _ in range(2)
        )
        self.pool, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Token numbers [N, length], int64, to logits [N, classes]."""
        x = self.norm(self.token(tokens) + self.position(self.positions))
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.classifier(torch.tanh(self.pool(x[:, 0])))
        return logits


class TinyViT(nn.Module):
    """A vision transformer: patches by a convolution, a class token, pre-norm attention blocks."""

    def __init__(self, size: int = 16, patch: int = 4, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.5)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.attentions = nn.ModuleList(
            nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(2)
        )
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(2)
        )
        self.classifier = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Images [N, 3, size, size] to logits [N, 10]."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps, strict=True)):
            y = self.norms[2 * i](x)
            x = x + attention(y, y, y, need_weights=False)[0]
            x = x + mlp(self.norms[2 * i + 1](x))
        logits: Tensor = self.classifier(self.norms[4](x)[:, 0])
        return logits
