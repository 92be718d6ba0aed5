# SPDX-License-Identifier: BSD-3-Clause
"""A `fused_quant` library that was there first keeps its operators; ours are added to it.

Each test runs in a process of its own: a namespace is defined once per process.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# What an upstream frontend does: it owns the namespace and computes in float. Its schema is the
# contract's; the marker on the result shows whose kernel ran.
UPSTREAM = """
import torch

_library = torch.library.Library("fused_quant", "DEF")
_BLOCK = (
    "Tensor? {0}_scale, Tensor? {0}_zero_point, ScalarType {0}_dtype, "
    "int {0}_quant_min, int {0}_quant_max"
)
_blocks = _BLOCK.format("inp") + ", " + _BLOCK.format("out")
_library.define("relu(Tensor inp, " + _blocks + ") -> Tensor")
CALLS = []


def _relu(inp, s, z, dtype, low, high, out_s, out_z, out_dtype, out_low, out_high):
    CALLS.append("upstream")
    real = ((inp.to(torch.float32) - z) * s).relu()
    return (torch.round(real / out_s) + out_z).clamp(out_low, out_high).to(out_dtype)


def _fake(inp, s, z, dtype, low, high, out_s, out_z, out_dtype, out_low, out_high):
    return torch.empty_like(inp, dtype=out_dtype)


_library.impl("relu", _relu, "CPU")
torch.library.register_fake("fused_quant::relu", _fake, lib=_library)
"""

CHECK = """
import copy
import torch
import fused_quant
from fused_quant import dialect
from fused_quant.ops import registry
from torch.ao.quantization.fx._decomposed import quantized_decomposed_lib
import upstream_calls

qd = torch.ops.quantized_decomposed
IN, OUT = (0.0625, 3, -128, 127, torch.int8), (0.03125, -100, -128, 127, torch.int8)


class Net(torch.nn.Module):
    def forward(self, x):
        y = qd.dequantize_per_tensor.default(qd.quantize_per_tensor.default(x, *IN), *IN)
        y = qd.quantize_per_tensor.default(torch.relu(y), *OUT)
        y = qd.dequantize_per_tensor.default(y, *OUT)
        y = qd.quantize_per_tensor.default(y + y, *IN)
        return qd.dequantize_per_tensor.default(y, *IN)


x = torch.linspace(-3, 3, 40)
gm = torch.export.export(Net(), (x,)).module()
fused = fused_quant.fuse(gm)
names = [str(n.target) for n in fused.graph.nodes]
assert "fused_quant.relu.default" in names and "fused_quant.add.default" in names, names
relu = next(n for n in fused.graph.nodes if "fused_quant.relu" in str(n.target))
blocks = dialect.blocks_of(fused, relu)
assert blocks["inp"].zero_point_value == 3 and blocks["out"].zero_point_value == -100

codes = torch.arange(-128, 128, dtype=torch.int8)
block = lambda s, z, dtype: (torch.tensor([s]), torch.tensor([z]), dtype, -128, 127)
arguments = (codes, *block(0.0625, 3, torch.float32), *block(0.03125, -100, torch.int8))
calls = upstream_calls.CALLS
calls.clear()
torch.ops.fused_quant.relu(*arguments)
assert calls == ["upstream"], calls
integer = dialect.reference(registry.find("relu"), *arguments)
assert calls == ["upstream"], calls
assert integer.dtype == torch.int8

from executorch.exir import to_edge
from executorch.runtime import Runtime

fused_quant.load_runtime()
edge = to_edge(torch.export.export(fused, (x,))).to_backend(fused_quant.FusedQuantPartitioner())
outside = [n for n in edge.exported_program().graph.nodes if "fused_quant." in str(n.target)]
assert outside == [], outside
method = Runtime.get().load_program(bytes(edge.to_executorch().buffer)).load_method("forward")
got = torch.as_tensor(method.execute([x])[0])
worst = float((got - Net()(x)).abs().max())
assert worst <= 0.0625 * 1.001 * 2, worst
print("fine")
"""


def _run(folder: Path, first: str) -> None:
    code = first + textwrap.dedent(CHECK)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**__import__("os").environ, "PYTHONPATH": str(folder)},
    )
    assert done.stdout.strip().endswith("fine"), done.stderr[-3000:]


def test_library_loaded_before_ours(tmp_path: Path) -> None:
    (tmp_path / "upstream_calls.py").write_text(UPSTREAM)
    _run(tmp_path, "import upstream_calls\n")


def test_installed_frontend_is_imported_first(tmp_path: Path) -> None:
    package = tmp_path / "frontend" / "fused_quant"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "ops.py").write_text(UPSTREAM)
    (tmp_path / "upstream_calls.py").write_text(
        "from executorch.backends.fused_quant.ops import CALLS\n"
    )
    first = f"""
import executorch.backends
executorch.backends.__path__.append({str(package.parent)!r})
"""
    _run(tmp_path, first)


@pytest.mark.parametrize("argument", ["inp_scale", "out_quant_max"])
def test_schema_of_upstream_is_ours(argument: str) -> None:
    """The text above is what `schema_of` makes, so graphs of both are interchangeable."""
    from fused_quant import dialect
    from fused_quant.ops import registry

    registry.load()
    text = dialect.schema_of(registry.find("relu"))
    assert argument in text
    block = "Tensor? {0}_scale, Tensor? {0}_zero_point, ScalarType {0}_dtype, int {0}_quant_min"
    assert block.format("inp") in text
    assert block.format("out") in text
