# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's handwritten digits: 1,797 real 8x8 grey images, split once and for all."""

from __future__ import annotations

import dataclasses

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TEST_SIZE = 450
SPLIT_SEED = 0


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images are float32 [n, 1, 8, 8] in [0, 1]; labels are int64 [n] in [0, 9]."""

    train_images: torch.Tensor
    train_labels: torch.Tensor
    test_images: torch.Tensor
    test_labels: torch.Tensor


def load() -> Digits:
    """The data set with its fixed, stratified split: 1,347 images to train on, 450 to test."""
    bunch = load_digits()
    images = (bunch.images / 16.0).astype("float32").reshape(-1, 1, 8, 8)
    train_x, test_x, train_y, test_y = train_test_split(
        images,
        bunch.target.astype("int64"),
        test_size=TEST_SIZE,
        random_state=SPLIT_SEED,
        stratify=bunch.target,
    )
    return Digits(
        torch.from_numpy(train_x),
        torch.from_numpy(train_y),
        torch.from_numpy(test_x),
        torch.from_numpy(test_y),
    )
