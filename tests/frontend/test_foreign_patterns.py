# SPDX-License-Identifier: BSD-3-Clause
"""Spellings at the edge of what is fused: integer as a whole, or left alone; never wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torchao.quantization.pt2e.quantizer import Quantizer

import fused_quant
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, exported, run_natively, targets
from tests.support.foreign import xnnpack_quantizer

torch.set_num_threads(1)

IN, MID, OUT = Grid(0.05, -3), Grid(0.04, 11), Grid(0.03, 7)
ROW = torch.linspace(-3, 3, 24).reshape(4, 6)
SEQUENCE = torch.linspace(-2, 2, 2 * 3 * 17).reshape(2, 3, 17)
IMAGE = torch.linspace(-4, 4, 1 * 3 * 23 * 23).reshape(1, 3, 23, 23)

Made = Callable[[], nn.Module]
OTHERS: dict[str, tuple[Made, tuple[Tensor, ...]]] = {
    "pattern-conv1d": (lambda: nn.Conv1d(3, 5, 3, stride=2, padding=1, dilation=2), (SEQUENCE,)),
    "pattern-conv1d-same-even": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.ReLU()),
        (SEQUENCE,),
    ),
    "memory-transposed": (
        lambda: nn.ConvTranspose2d(3, 4, 4, stride=2, padding=1, bias=False),
        (IMAGE[..., :4, :4].contiguous(),),
    ),
    "layout-transposed-one-channel": (
        lambda: nn.ConvTranspose2d(3, 1, 3, stride=2),
        (IMAGE[..., :9, :13].contiguous(),),
    ),
    "pattern-matmul": (lambda: Graph(lambda x, y: x @ y.transpose(-1, -2)), (ROW, ROW / 2)),
    "dtype-linear-bmm": (
        lambda: Graph(
            lambda m, x: torch.softmax(m(x)[None] @ m(x)[None].transpose(1, 2), -1) @ m(x)[None],
            m=nn.Linear(6, 5),
        ),
        (ROW,),
    ),
    "constant-times-half": (lambda: Graph(lambda x: functional.relu(x) * 0.5), (ROW,)),
    "constant-scalar-first": (lambda: Graph(lambda x: 2 - functional.relu(x)), (ROW,)),
    "constant-integer": (lambda: Graph(lambda x: functional.relu(x) + 3), (ROW,)),
    "constant-power": (lambda: Graph(lambda x: functional.relu(x) ** 2), (ROW,)),
    "constant-divisor": (lambda: Graph(lambda x: functional.relu(x) / 4), (ROW,)),
    "attribute-dropped-rsub": (
        lambda: Graph(lambda x, y: torch.rsub(x, y, alpha=2)),
        (ROW, ROW / 2),
    ),
    "attribute-dropped-softmax": (lambda: Graph(lambda x: torch.softmax(x, 0)), (ROW,)),
    "qparam-mismatch-cat": (
        lambda: Graph(
            lambda a, b, x: torch.cat([a(x), 100 * b(x), a(x)], 1),
            a=nn.Linear(6, 2),
            b=nn.Linear(6, 3),
        ),
        (ROW,),
    ),
    "qparam-mismatch-split": (
        lambda: Graph(lambda x: torch.cat([x.chunk(2, 1)[0].clamp(0, 6), x.chunk(2, 1)[1]], 1)),
        (ROW,),
    ),
    "zero-point-relu-in-a-cat": (
        lambda: Graph(
            lambda a, b, x: torch.cat([functional.relu(a(x)), b(x)], 1),
            a=nn.Linear(6, 2),
            b=nn.Linear(6, 3),
        ),
        (ROW,),
    ),
    "pattern-inplace-vision": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 3, 3), nn.SiLU(True), nn.Hardswish(True), nn.ReLU6(True)
        ),
        (IMAGE[..., :7, :6].contiguous(),),
    ),
    "late-reject-max-pool-ceil": (lambda: nn.MaxPool2d(2, ceil_mode=True), (IMAGE,)),
    "late-reject-permute-rank-5": (
        lambda: Graph(
            lambda m, x: m(x.view(1, 2, 2, 1, 6).permute(3, 1, 0, 2, 4)), m=nn.Linear(6, 2)
        ),
        (ROW,),
    ),
    "shape-linear-rank-3": (lambda: nn.Linear(6, 5), (ROW.reshape(1, 4, 6),)),
}  # fmt: skip


def _quantizer(ours: bool) -> Quantizer:
    return fused_quant.default_quantizer() if ours else xnnpack_quantizer(True)


@pytest.mark.parametrize("name", OTHERS)
def test_right_or_left_alone(name: str) -> None:
    """Both quantizers, alternating routes: the result is that of the q/dq graph."""
    make, inputs = OTHERS[name]
    for ours in (True, False):
        torch.manual_seed(0)
        raw = routes.quantize_dequantize(make(), [inputs], _quantizer(ours))
        route = routes.ROUTES[(list(OTHERS).index(name) + ours) % 2]
        edge = routes.lowered(raw, inputs, route)
        names = routes.operators(edge)
        assert not [n for n in names if n.startswith("fused_quant")]
        (got,) = routes.run(edge, inputs)
        (reference,) = routes.eager(raw, inputs)
        steps = [float(node.args[1]) for node in raw.graph.nodes
                 if "dequantize_per_tensor" in str(node.target)]  # fmt: skip
        limit = max(1, routes.rounded_tensors(raw)) * max(steps, default=0) * 1.01 + 1e-5
        assert float((got - reference).abs().max()) <= limit


def test_late_reject_indices_of_max_pool() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        values, indices = functional.max_pool2d(IN.round(x), 2, return_indices=True)
        return IN.round(values), indices

    module = Graph(function)
    edge = routes.lowered(module, (IMAGE,), routes.TO_EDGE)
    routes.assert_same_bits(routes.run(edge, (IMAGE,)), routes.eager(module, (IMAGE,)))


def _two_grids(x: Tensor) -> tuple[Tensor, Tensor]:
    y = functional.relu(IN.round(x))
    return MID.round(y), OUT.round(y)


def _requantized(x: Tensor) -> Tensor:
    return MID.round(OUT.round(functional.relu(IN.round(x))))


def _read_on_another_grid(x: Tensor) -> Tensor:
    """Codes quantized on one grid and read back on another are another tensor."""
    codes = OUT.quantize(functional.relu(IN.round(x)))
    return MID.round(IN.dequantize(codes) + IN.dequantize(codes))


@pytest.mark.parametrize("function", [_two_grids, _requantized, _read_on_another_grid])
def test_qparam_mismatch_is_rescaled(function: Callable[..., Any]) -> None:
    module = Graph(function)
    edge = routes.lowered(module, (ROW,), routes.TO_EDGE)
    reference = routes.eager(module, (ROW,))
    for value, wanted in zip(routes.run(edge, (ROW,)), reference, strict=True):
        assert float((value - wanted).abs().max()) <= 2 * MID.scale * 1.001


def test_requantize_between_two_grids_is_one_operator() -> None:
    x = torch.arange(-128, 128, dtype=torch.int8).reshape(2, 128)

    def function(codes: Tensor) -> Tensor:
        return OUT.quantize(IN.dequantize(codes))

    gm = fused_quant.fuse(exported(Graph(function), x))
    assert targets(gm) == ["fused_quant.requantize.default"]
    (got,) = run_natively(Graph(function), x)
    assert torch.equal(got, gm(x))
    assert int((got.int() - function(x).int()).abs().max()) <= 1


def test_requantize_to_the_same_grid_disappears() -> None:
    def function(codes: Tensor) -> Tensor:
        return OUT.quantize(functional.relu(IN.dequantize(IN.quantize(IN.dequantize(codes)))))

    x = torch.arange(-128, 128, dtype=torch.int8).reshape(2, 128)
    gm = fused_quant.fuse(exported(Graph(function), x))
    assert targets(gm) == ["fused_quant.relu.default"]
    assert torch.equal(gm(x), run_natively(Graph(function), x)[0])


_FRESH = """
import torch, fused_quant
from executorch.exir import to_edge_transform_and_lower
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)
    def forward(self, x):
        return self.b(torch.softmax(self.a(x), 0))

x = (torch.linspace(-3, 3, 24).reshape(4, 6),)
quantizer = fused_quant.default_quantizer()
prepared = prepare_pt2e(torch.export.export(M().eval(), x).module(), quantizer)
prepared(*x)
fused = quantizer.fuse(convert_pt2e(prepared))
partitioner = fused_quant.FusedQuantPartitioner()
edge = to_edge_transform_and_lower(torch.export.export(fused, x), partitioner=[partitioner])
program = edge.to_executorch()
fused_quant.load_runtime()
fused_quant.load_runtime()
from executorch.runtime import Runtime
method = Runtime.get().load_program(bytes(program.buffer)).load_method("forward")
assert float((method.execute(list(x))[0] - fused(*x)).abs().max()) < 0.02
print("delegates", str(edge.exported_program().graph).count("executorch_call_delegate("))
"""


def test_registration_in_a_fresh_process() -> None:
    """A declined softmax between two regions, with nothing imported but our package."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FRESH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "delegates" in done.stdout
