# SPDX-License-Identifier: BSD-3-Clause
"""`preserved_ops()` keeps the operators that the quantizers look for out of decomposition."""

from __future__ import annotations

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from tests.frontend.graphs import Graph, targets

torch.set_num_threads(1)
_aten = torch.ops.aten

X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


def _net() -> nn.Module:
    def function(linear: nn.Module, x: Tensor) -> Tensor:
        return functional.silu(functional.hardswish(linear(x)))

    return Graph(function, linear=nn.Linear(4, 3))


def test_preserved_operators_stay_whole_in_lowering() -> None:
    program = torch.export.export(_net().eval(), (X,))
    preserved = fused_quant.default_quantizer().preserved_ops()
    wanted = [_aten.linear.default, _aten.hardswish.default, _aten.silu.default]
    assert set(wanted) <= set(preserved)
    for ops, whole in (([], False), (preserved, True)):
        config = EdgeCompileConfig(preserve_ops=list(ops), _check_ir_validity=False)
        edge = to_edge_transform_and_lower(program, compile_config=config)
        names = " ".join(targets(edge.exported_program().graph_module))
        assert all((op._schema.name.split("::")[1] in names) == whole for op in wanted[1:])


def test_preserved_operators_stay_whole_in_exports_decompositions() -> None:
    program = torch.export.export(_net().eval(), (X,))
    table = torch.export.default_decompositions()
    for op in fused_quant.default_quantizer().preserved_ops():
        table.pop(op, None)
    names = targets(program.run_decompositions(table).graph_module)
    assert names == ["aten.linear.default", "aten.hardswish.default", "aten.silu.default"]
    assert names != targets(program.run_decompositions().graph_module)
