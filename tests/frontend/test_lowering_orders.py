# SPDX-License-Identifier: BSD-3-Clause
"""One tensor read in several orders."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tests.frontend.graphs import Graph, Grid, fused, run_natively

torch.set_num_threads(1)

A = Grid(0.05, -3)


def test_bytes_moved_for_one_reader_are_not_taken_for_another_order() -> None:
    """A pool is read in the logical order, and once more behind a transpose, in that order too."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = A.round(functional.adaptive_avg_pool2d(A.round(x), (3, 4)))
        rows = A.round(functional.softmax(y.flatten(2), -1))
        turned = A.round(functional.pad(y.transpose(3, 0).flatten(1), [1, 0], value=0.75))
        return rows, turned

    x = torch.randn(2, 6, 7, 4, generator=torch.Generator().manual_seed(1))
    expected = fused(Graph(function), x)(x)
    for got, wanted in zip(run_natively(Graph(function), x), expected, strict=True):
        assert torch.equal(got, wanted)
