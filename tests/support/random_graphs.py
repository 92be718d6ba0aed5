# SPDX-License-Identifier: BSD-3-Clause
"""Random float modules of two to eight operators: the same seed gives the same module, anywhere.

`random_module(seed)` draws operators that have a runtime kernel, on values of rank 0 to 5 and batch
1 to 3: convolutions (regular, depthwise, grouped, strided, dilated, padded), linear, add and sub
(with alpha) and mul with broadcasting, clamps, pools, mean, reshapes and permutations. The graph
has residuals, forks, several outputs and inputs used twice; sometimes an output is returned twice,
an input is returned as it came, or an operand is a buffer.

Which operators exist is read from the registry: an entry of `random_operators.TABLE` (and, if more
are wanted, of `random_more_operators.MORE`) takes part when the operators it is made of are
registered and have a runtime kernel, or, with `kernel_less=True`, are registered at all. A new
operator needs one line there, with a kernel or without.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fused_quant.ops import registry
from tests.support.random_more_operators import MORE
from tests.support.random_operators import TABLE, Draw, Maker, Shape, Step

Inputs = tuple[Tensor, ...]

_ATTEMPTS = 40


class RandomModule(nn.Module):
    """Runs the steps in order and returns the values `outputs`, a tensor if there is one."""

    def __init__(self, steps: Sequence[Step], outputs: Sequence[int]) -> None:
        super().__init__()
        self.steps, self.outputs = tuple(steps), tuple(outputs)
        self.layers = nn.ModuleList(s.apply for s in steps if isinstance(s.apply, nn.Module))

    def forward(self, *inputs: Tensor) -> Tensor | Inputs:
        """Shapes as described by `random_module`."""
        values = list(inputs)
        for step in self.steps:
            values.append(step.apply(*(values[i] for i in step.arguments)))
        results = tuple(values[i] for i in self.outputs)
        return results[0] if len(results) == 1 else results


def _makers(kernel_less: bool, more: bool) -> tuple[list[Maker], list[int]]:
    registry.load()
    # An operator that the default quantizer leaves in float unless it is asked stays outside.
    present = {
        s.qualified_name
        for s in registry.specs()
        if kernel_less or (s.runtime is not None and (s.annotation is None or s.annotation.unasked))
    }
    table = (*TABLE, *MORE) if more else TABLE
    chosen = [(weight, make) for names, weight, make in table if present.issuperset(names)]
    return [make for _, make in chosen], [weight for weight, _ in chosen]


def _input_shape(rng: random.Random) -> Shape:
    batch = rng.randint(1, 3)
    rank = rng.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4, 4, 4, 5])
    if rank == 4:
        return (batch, rng.randint(1, 6), rng.randint(3, 8), rng.randint(3, 8))
    return (batch, *(rng.randint(1, 5) for _ in range(rank - 1))) if rank else ()


def _inputs(d: Draw) -> None:
    shapes = [_input_shape(d.rng)]
    for _ in range(d.rng.choice([0, 0, 0, 1, 1, 2])):
        related = d.rng.random() < 0.6
        shapes.append(d.rng.choice(shapes) if related else _input_shape(d.rng))
    d.values += [d.normal(shape, d.rng.choice([0.5, 1.0, 3.0])) for shape in shapes]


def _outputs(d: Draw) -> list[int]:
    """Everything nothing reads, and sometimes more."""
    read = {i for step in d.steps for i in step.arguments}
    first = len(d.values) - len(d.steps)
    outputs = [i for i in range(first, len(d.values)) if i not in read]
    if d.rng.random() < 0.25:
        outputs.append(d.rng.randrange(first, len(d.values)))
    if d.rng.random() < 0.1:
        outputs.append(d.rng.choice(outputs))
    if d.rng.random() < 0.1:
        outputs.append(d.rng.randrange(first))
    d.rng.shuffle(outputs)
    return outputs


def _describe(d: Draw, outputs: Sequence[int]) -> str:
    first = len(d.values) - len(d.steps)
    lines = [f"v{i} = input {list(d.values[i].shape)}" for i in range(first)]
    for i, step in enumerate(d.steps, first):
        arguments = ", ".join(f"v{a}" for a in step.arguments)
        lines.append(f"v{i} = {step.text} ({arguments}) {list(d.values[i].shape)}")
    return "\n".join([*lines, "return " + ", ".join(f"v{i}" for i in outputs)])


def random_module(
    seed: int, kernel_less: bool = False, least: int = 2, most: int = 8, more: bool = False
) -> tuple[nn.Module, Inputs, str]:
    """A module in eval mode, inputs for it, and a description with one line per value.

    seed: any integer; nothing else, and no global state, decides what is made (but for
    the operators that the registry knows). kernel_less: also draw operators that
    have no runtime kernel yet. least, most: how many operators. more: draw from both tables.
    Inputs are float32 and normally distributed; every value is finite and at most 1000.
    """
    d = Draw(seed)
    makers, weights = _makers(kernel_less, more)
    _inputs(d)
    wanted = d.rng.randint(least, most)
    for _ in range(_ATTEMPTS * wanted):
        step = d.rng.choices(makers, weights)[0](d)
        if step is not None:
            d.add(step)
        if len(d.steps) == wanted:
            break
    inputs = tuple(d.values[: len(d.values) - len(d.steps)])
    outputs = _outputs(d)
    return RandomModule(d.steps, outputs).eval(), inputs, _describe(d, outputs)


def more_inputs(inputs: Inputs, seed: int, count: int = 1) -> list[Inputs]:
    """Further inputs of the same shapes and about the same range, for calibration and checks."""
    generator = torch.Generator().manual_seed(seed)
    return [
        tuple(
            torch.randn(x.shape, generator=generator) * float(x.abs().mean() + 0.1) for x in inputs
        )
        for _ in range(count)
    ]
