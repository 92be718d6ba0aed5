# SPDX-License-Identifier: BSD-3-Clause
"""MTCNN's three networks: faces, weights of the package `facenet-pytorch` (MIT licence).

P-Net looks for faces in a whole photograph; R-Net and O-Net judge pieces: scikit-image's
`lfw_subset`, 100 faces and 100 pieces without one, 25 pixels a side and grey.
"""

from __future__ import annotations

import io

import numpy as np
import torch
from torch import Tensor, nn

from examples.packages import Package
from examples.study import Outputs, Study

PACKAGE = Package(
    "facenet-pytorch",
    "2.6.0",
    "ecb82b27beb226d106f2219efe8f829b01b87a8595badd01545679bdb9f19cca",
    megabytes=2,
)


def _block(inputs: int, outputs: int, kernel: int, pool: int = 0) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(inputs, outputs, kernel), nn.PReLU(outputs)]
    return [*layers, nn.MaxPool2d(pool, 2, ceil_mode=True)] if pool else layers


class Judge(nn.Module):
    """R-Net or O-Net: images in [-1, 1) to probabilities (none, face), a box and, O-Net, points."""

    def __init__(self, layers: list[nn.Module], width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)
        self.dense = nn.Sequential(nn.Linear(width, hidden), nn.PReLU(hidden))
        self.heads = nn.ModuleList(nn.Linear(hidden, n) for n in (2, 4, 10)[:heads])

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The weights expect columns before rows before channels."""
        y = self.dense(self.layers(x).permute(0, 3, 2, 1).flatten(1))
        face, *others = [head(y) for head in self.heads]
        return (torch.softmax(face, 1), *others)


class Finder(nn.Module):
    """P-Net: an image in [-1, 1) to a map of probabilities (none, face) and a map of boxes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_block(3, 10, 3, 2), *_block(10, 16, 3), *_block(16, 32, 3))
        self.heads = nn.ModuleList(nn.Conv2d(32, n, 1) for n in (2, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[n, 3, h, w] to [n, 2, h', w'] and [n, 4, h', w']."""
        y = self.layers(x)
        return torch.softmax(self.heads[0](y), 1), self.heads[1](y)


def _build(letter: str) -> nn.Module:
    if letter == "r":
        layers = [*_block(3, 28, 3, 3), *_block(28, 48, 3, 3), *_block(48, 64, 2)]
        return Judge(layers, 576, 128, 2)
    if letter == "o":
        layers = [*_block(3, 32, 3, 3), *_block(32, 64, 3, 3), *_block(64, 64, 3, 2)]
        return Judge([*layers, *_block(64, 128, 2)], 1152, 256, 3)
    return Finder()


def load(letter: str) -> nn.Module:
    """The net of that letter (p, r, o) with the package's weights: arrays are in our order."""
    data = PACKAGE.read(f"data/{letter}net.pt")
    arrays = list(torch.load(io.BytesIO(data), weights_only=True).values())
    model = _build(letter)
    names = list(model.state_dict())
    model.load_state_dict(dict(zip(names, arrays, strict=True)))
    return model.eval()


def _image(pixels: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Tensor:
    """[h, w, 3] in [0, 255] to [1, 3, h, w]."""
    scaled = (pixels.transpose(2, 0, 1) - 127.5) / 128.0
    return torch.from_numpy(np.ascontiguousarray(scaled, np.float32))[None]


def pieces(size: int) -> list[Tensor]:
    """All of lfw_subset: the first 100 are faces."""
    from skimage import data
    from skimage.transform import resize

    whole = [resize(piece, (size, size), order=3) for piece in data.lfw_subset()]
    return [_image(np.repeat(np.clip(255.0 * x, 0, 255)[:, :, None], 3, 2)) for x in whole]


def photographs(names: tuple[str, ...], size: int) -> list[Tensor]:
    """Square photographs of that size, the middle of each."""
    from skimage import data
    from skimage.transform import resize

    found = []
    for name in names:
        photo = getattr(data, name)()
        side = min(photo.shape[:2])
        top, left = ((n - side) // 2 for n in photo.shape[:2])
        middle = photo[top : top + side, left : left + side]
        found.append(_image(resize(middle, (size, size), preserve_range=True, anti_aliasing=True)))
    return found


def _judged(exact: Outputs, integers: Outputs, is_face: Tensor) -> str:
    right = [
        f"{float(((y[0][:, 1] > 0.5) == is_face).double().mean()):.1%}" for y in (exact, integers)
    ]
    same = ((exact[0][:, 1] > 0.5) == (integers[0][:, 1] > 0.5)).double().mean()
    far = (exact[0] - integers[0]).abs().mean()
    return (
        f"{right[0]} and {right[1]} of {len(is_face)} pieces judged rightly, {float(same):.1%} "
        f"alike; probabilities differ by {float(far):.4f} on average"
    )


def _judge(letter: str, size: int) -> Study:
    inputs = pieces(size)
    calibration, tests = inputs[::2], inputs[1::2]
    is_face = torch.arange(len(inputs))[1::2] < 100

    def task(exact: Outputs, integers: Outputs) -> str:
        return _judged(exact, integers, is_face)

    return Study(f"MTCNN {letter.upper()}-Net", load(letter), calibration, tests, task)


def _finder() -> Study:
    tests = photographs(("astronaut",), 48)

    def task(exact: Outputs, integers: Outputs) -> str:
        maps = [y[0][0, 1] for y in (exact, integers)]
        places = [divmod(int(m.argmax()), m.shape[1]) for m in maps]
        tops = [f"{float(m.max()):.3f}" for m in maps]
        return (
            f"the face in `astronaut` is found at {places[0]} and {places[1]} with the probability "
            f"{tops[0]} and {tops[1]}"
        )

    others = photographs(("coffee", "chelsea", "rocket"), 48)
    return Study("MTCNN P-Net", load("p"), [*others, *pieces(48)[:32:4]], tests, task)


def study() -> list[Study]:
    """The three networks."""
    return [_finder(), _judge("r", 24), _judge("o", 48)]
