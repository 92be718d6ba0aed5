# SPDX-License-Identifier: BSD-3-Clause
"""Each method of one .pte on the boards, with a weight that both methods find in the program."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir import to_edge
from torch import nn
from torch.fx import GraphModule

import fused_quant
from firmware.board import BoardError, build_runner, run
from fused_quant.lower import quantize
from fused_quant.payload import extract_delegates

pytestmark = pytest.mark.firmware

torch.set_num_threads(1)

SHAPES = {"encode": (1, 24), "decode": (3, 24)}


@functools.cache
def _fused() -> dict[str, GraphModule]:
    torch.manual_seed(11)
    inner = nn.Linear(24, 24)
    modules = {
        "encode": nn.Sequential(inner, nn.ReLU()),
        "decode": nn.Sequential(inner, nn.ReLU(), nn.Linear(24, 7)),
    }
    fused = {}
    for name, module in modules.items():
        data = [torch.randn(SHAPES[name]) for _ in range(4)]
        fused[name] = quantize(module, (data[0],), data, progress=False)
    return fused


@functools.cache
def _pte() -> bytes:
    programs = {
        name: torch.export.export(module, (torch.zeros(SHAPES[name]),))
        for name, module in _fused().items()
    }
    edge = to_edge(programs).to_backend(fused_quant.FusedQuantPartitioner())
    return bytes(edge.to_executorch().buffer)


def test_every_method_runs_to_its_eager_bits(board: str, tmp_path: Path) -> None:
    assert all(one.constants for one in extract_delegates(_pte()))
    path = tmp_path / "methods.pte"
    path.write_bytes(_pte())
    generator = torch.Generator().manual_seed(12)
    images = {name: build_runner(board, path, method=name) for name in SHAPES}
    assert images["encode"].elf != images["decode"].elf
    assert images["encode"].info != images["decode"].info
    for name, image in images.items():
        inputs = [torch.randn(SHAPES[name], generator=generator) for _ in range(3)]
        result = run(image, [[x.numpy()] for x in inputs])
        for x, (got,) in zip(inputs, result.outputs, strict=True):
            with torch.no_grad():
                assert np.array_equal(got, _fused()[name](x).numpy())


def test_a_method_that_is_not_there(board: str, tmp_path: Path) -> None:
    path = tmp_path / "methods.pte"
    path.write_bytes(_pte())
    with pytest.raises(BoardError, match=r"no method 'forward' in the program, only \['decode'"):
        build_runner(board, path)
