# SPDX-License-Identifier: BSD-3-Clause
"""300 random graphs (tests/support/random_graphs.py); `tools/soak.py` goes on for hours."""

from __future__ import annotations

import pytest
import torch

from tests.e2e import random_property

torch.set_num_threads(1)

_SEEDS, _A_TEST = 300, 10


@pytest.mark.parametrize("first", range(0, _SEEDS, _A_TEST))
def test_what_the_partitioner_accepts_the_runtime_runs(first: int) -> None:
    outcomes = [
        random_property.check(seed, through_executorch=seed == first)
        for seed in range(first, first + _A_TEST)
    ]
    for outcome in outcomes:
        # Operators of the first table have a kernel in any case: nothing of them stays outside.
        if not random_property.is_foreign(outcome.seed):
            assert random_property.draws_more(outcome.seed) or outcome.refused == ()
    assert sum(outcome.whole for outcome in outcomes) >= _A_TEST // 2
