# SPDX-License-Identifier: BSD-3-Clause
"""Seeded training: a few seconds on one core, repeatable on a machine."""

from __future__ import annotations

import torch
from torch import nn
from tqdm import tqdm

from examples.digits.data import Digits
from examples.digits.model import DigitsNet

EPOCHS = 12
BATCH = 64
PEAK_LEARNING_RATE = 2e-2


def train(
    digits: Digits,
    seed: int = 0,
    epochs: int = EPOCHS,
    progress: bool = True,
    model: nn.Module | None = None,
) -> nn.Module:
    """Train on the training half with Adam and a one-cycle schedule; returns the model in eval.

    model: another one than a new `DigitsNet`.

    One thread is used: a model this small is slower with two, and results then do not depend on
    how a sum was split.
    """
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = DigitsNet() if model is None else model
    count = len(digits.train_labels)
    steps = epochs * (count // BATCH)
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK_LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LEARNING_RATE, total_steps=steps)
    bar = tqdm(total=steps, desc="train", unit="step", disable=not progress, leave=False)
    for _ in range(epochs):
        order = torch.randperm(count)
        for start in range(0, count - BATCH + 1, BATCH):
            index = order[start : start + BATCH]
            loss = nn.functional.cross_entropy(
                model(digits.train_images[index]), digits.train_labels[index]
            )
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimizer.step()
            schedule.step()
            bar.update()
        bar.set_postfix(loss=f"{loss.item():.3f}")
    bar.close()
    return model.eval()


def accuracy(scores: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of rows of `scores` [n, classes] whose largest entry is at the label."""
    return float((scores.argmax(1) == labels).float().mean())
