# SPDX-License-Identifier: BSD-3-Clause
"""DecomposeFusedQuant, decompose_unclaimed, AssertNoFusedQuantOps, on graphs and on programs."""

from __future__ import annotations

import copy
from typing import Any

import executorch.kernels.quantized  # noqa: F401  # out variants of quantize and dequantize
import pytest
import torch
from executorch.exir import to_edge, to_edge_transform_and_lower
from torch import Tensor
from torch.export import Dim, export
from torch.fx import GraphModule, Node
from torch.nn import functional

import fused_quant
from fused_quant import graph
from fused_quant.passes import AssertNoFusedQuantOps, DecomposeFusedQuant, decompose_unclaimed
from fused_quant.passes.blocks import is_fused
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, fused, targets
from tests.support import random_quantized
from tests.support.random_quantized import fused_targets, recorded

torch.set_num_threads(1)

IN, MID, OUT = Grid(0.05, 3), Grid(0.04, -9), Grid(0.06, 5)
X = torch.linspace(-3, 3, 2 * 4 * 6 * 5).reshape(2, 4, 6, 5)


def _kernels() -> Weights:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-127, 128, (6, 4, 3, 3), generator=generator)
    return Weights(codes, [0.001, 0.002, 0.0005, 0.001, 0.003, 0.0004])


def _small(kernels: Any, x: Tensor) -> Tensor:
    y = OUT.round(functional.relu6(functional.conv2d(IN.round(x), kernels(), padding=1)))
    return MID.round(functional.max_pool2d(y, 2))


def _small_graph() -> GraphModule:
    return fused(Graph(_small, kernels=_kernels()), X)


def _decomposed(gm: GraphModule) -> GraphModule:
    changed = copy.deepcopy(gm)
    assert DecomposeFusedQuant()(changed).modified
    AssertNoFusedQuantOps()(changed)
    assert not DecomposeFusedQuant()(changed).modified
    return changed


def test_decomposed_operators_and_constants() -> None:
    """Quantize with the fused clamp as its bounds, per-channel dequantize, core ATen operators."""
    gm = _decomposed(_small_graph())
    names = [n for n in targets(gm) if "quantize_per_tensor" not in n and "getitem" not in n]
    assert names == [
        "quantized_decomposed.dequantize_per_channel.default",
        "aten.convolution.default",
        "aten.max_pool2d_with_indices.default",
    ]
    quantizes = [n for n in graph.calls(gm) if n.target == graph.QUANTIZE]
    clamped = next(n for n in quantizes if "convolution" in str(n.args[0]))
    assert clamped.args[1:6] == (OUT.scale, 5, 5, round(6 / OUT.scale) + 5, torch.int8)
    assert {str(value.dtype) for value in gm.buffers()} == {
        "torch.int8",
        "torch.float32",
        "torch.int64",
    }


def test_decomposing_a_bias_keeps_int32() -> None:
    class WithBias(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kernels = _kernels()
            self.register_buffer("bias", torch.linspace(-1, 1, 6))

        def forward(self, x: Tensor) -> Tensor:
            bias = self.get_buffer("bias")
            return OUT.round(functional.conv2d(IN.round(x), self.kernels(), bias))

    gm = fused(WithBias(), X)
    back = _decomposed(gm)
    assert torch.int32 in {value.dtype for value in back.buffers()}
    assert float((back(X) - gm(X)).abs().max()) <= OUT.scale * 1.001


def test_keep_leaves_nodes_alone() -> None:
    gm = _small_graph()
    DecomposeFusedQuant(keep=lambda node: "conv2d" in str(node.target))(gm)
    assert [n for n in targets(gm) if "fused_quant" in n] == ["fused_quant.conv2d.default"]


def test_both_results_of_a_pool() -> None:
    """Indices too, which a fused pool also returns."""
    op = torch.ops.fused_quant.max_pool2d_with_indices.default
    scale, zero = torch.tensor([0.1]), torch.tensor([4])

    class Pool(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", scale)
            self.register_buffer("zero", zero)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            s, z = self.get_buffer("scale"), self.get_buffer("zero")
            block = (s, z, torch.float32, -128, 127)
            result: tuple[Tensor, Tensor] = op(
                x, *block, s, z, torch.int8, -128, 127, [2, 2], [], [0, 0], [1, 1], False
            )
            return result

    codes = torch.arange(-60, 60).reshape(1, 2, 6, 10).to(torch.int8)
    program = export(Pool(), (codes,))
    edge = to_edge(program).transform([DecomposeFusedQuant(), AssertNoFusedQuantOps()])
    values, indices = functional.max_pool2d(codes.float(), 2, return_indices=True)
    got = routes.run(edge, (codes,))
    assert torch.equal(got[0], values.to(torch.int8))
    assert torch.equal(got[1], indices)


def _linear_with(scale: Tensor, out_scale: Tensor | None, weight: Tensor) -> torch.nn.Module:
    """fused_quant.linear with a float input, a weight of any granularity and any out block."""
    op = torch.ops.fused_quant.linear.default

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", weight)
            self.register_buffer("scale", scale)
            self.register_buffer("zeros", torch.zeros(scale.shape, dtype=torch.int64) + 1)
            if out_scale is not None:
                self.register_buffer("out_scale", out_scale)
                self.register_buffer("out_zeros", torch.full(out_scale.shape, 2))

        def forward(self, x: Tensor) -> Tensor:
            null = (None, None, torch.float32, 0, 0)
            block = (self.scale, self.zeros, torch.float32, -128, 127)
            out: tuple[Any, ...] = null
            if out_scale is not None:
                out = (self.out_scale, self.out_zeros, torch.int8, -128, 127)
            result: Tensor = op(x, self.weight, None, *null, *block, *null, *out)
            return result

    return Linear()


@pytest.mark.parametrize(
    ("scale", "out_scale"),
    [
        (torch.tensor([0.02]), None),
        (torch.linspace(0.01, 0.04, 6).reshape(6, 1), torch.tensor([0.5])),
        (torch.linspace(0.01, 0.04, 12).reshape(6, 2), None),  # groups of 4
        (torch.linspace(0.01, 0.04, 4).reshape(2, 2), torch.tensor([0.5])),  # blocks of 3 x 4
        (torch.tensor([0.02]), torch.linspace(0.3, 0.6, 6).reshape(1, 6)),  # out per channel
        (torch.tensor([0.02]), torch.linspace(0.3, 0.6, 6).reshape(3, 2)),  # out in blocks
    ],
)
def test_granularities_and_null_blocks(scale: Tensor, out_scale: Tensor | None) -> None:
    """Null blocks stay float; per channel, per group and blockwise run in the portable runtime."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randint(-128, 128, (6, 8), generator=generator).to(torch.int8)
    x = torch.randn(3, 8, generator=generator)

    def spread(value: Tensor, shape: tuple[int, int]) -> Tensor:
        if value.numel() == 1:
            return value.reshape(1, 1).expand(shape)
        rows, columns = (n // c for n, c in zip(shape, value.shape, strict=True))
        return value.repeat_interleave(rows, 0).repeat_interleave(columns, 1)

    real = (weight.double() - 1) * spread(scale, (6, 8)).double()
    expected = x.double() @ real.T
    step = torch.tensor(1e-4)
    if out_scale is not None:
        step = spread(out_scale, (3, 6))
        expected = (torch.round(expected / step) + 2).clamp(-128, 127)
        step = torch.ones(3, 6)
    module = _linear_with(scale, out_scale, weight)
    edge = to_edge(export(module, (x,))).transform([DecomposeFusedQuant(), AssertNoFusedQuantOps()])
    assert not any(is_fused(node) for node in edge.exported_program().graph.nodes)
    (got,) = routes.run(edge, (x,))
    assert bool(((got.double() - expected).abs() <= step * 1.001).all())


def test_program_constants_are_shared_not_copied() -> None:
    """Weights keep their names; scales that no node reads any more are gone."""
    program = export(_small_graph(), (X,))
    back = decompose_unclaimed(program, lambda node: False)
    assert [node.op for node in program.graph.nodes if is_fused(node)]  # the original is untouched
    assert not any(is_fused(node) for node in back.graph.nodes)
    before, after = set(program.state_dict), set(back.state_dict)
    assert after < before
    assert any(back.state_dict[name].dtype == torch.int8 for name in after)
    assert float((back.module()(X) - program.module()(X)).abs().max()) <= 2.001 * MID.scale


def test_claimed_nodes_are_the_programs_own() -> None:
    program = export(_small_graph(), (X,))
    seen: list[Node] = []

    def claimed(node: Node) -> bool:
        seen.append(node)
        return "conv2d" in str(node.target)

    back = decompose_unclaimed(program, claimed)
    assert set(seen) <= set(program.graph.nodes)
    left = [str(node.target) for node in back.graph.nodes if is_fused(node)]
    assert left == ["fused_quant.conv2d.default"]
    assert decompose_unclaimed(program, lambda node: True) is program


def test_program_with_a_state_and_a_returned_input() -> None:
    """Buffers that the program writes, and inputs among the outputs, keep their roles."""
    small = _small_graph()

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.small = small
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            self.get_buffer("count").add_(1.0)
            return x, self.small(x), self.get_buffer("count") * 2

    program = export(Counting(), (X,)).run_decompositions({})
    back = decompose_unclaimed(program, lambda node: False)
    assert back.graph_signature.buffers_to_mutate.keys()
    module = back.module()
    same, value, count = module(X)
    assert torch.equal(same, X)
    assert float((value - small(X)).abs().max()) <= 2.001 * MID.scale
    assert float(count) == 2.0
    assert float(module(X)[2]) == 4.0


def test_dynamic_batch() -> None:
    weight = torch.arange(-24, 24).reshape(6, 8).to(torch.int8)
    module = _linear_with(torch.tensor([0.02]), torch.tensor([0.5]), weight)
    x = torch.linspace(-2, 2, 5 * 8).reshape(5, 8)
    program = export(module, (x[:3],), dynamic_shapes=({0: Dim("batch", min=2, max=8)},))
    back = decompose_unclaimed(program, lambda node: False)
    assert not any(is_fused(node) for node in back.graph.nodes)
    assert int((back.module()(x).int() - module(x).int()).abs().max()) <= 1


def test_assertion_names_node_operator_and_remedy() -> None:
    gm = _small_graph()
    pattern = r"conv2d\S* \(fused_quant.conv2d.default\), max_pool2d.*DecomposeFusedQuant"
    with pytest.raises(ValueError, match=pattern):
        AssertNoFusedQuantOps()(gm)
    edge = to_edge(export(gm, (X,)))
    with pytest.raises(Exception, match="AssertNoFusedQuantOps") as caught:
        edge.transform([AssertNoFusedQuantOps()])
    assert isinstance(caught.value.__cause__, ValueError)
    AssertNoFusedQuantOps()(_decomposed(gm))


def test_assertion_and_decomposition_leave_delegates_alone() -> None:
    gm = _small_graph()
    edge = to_edge(export(gm, (X,))).to_backend(fused_quant.FusedQuantPartitioner())
    after = edge.transform([DecomposeFusedQuant(), AssertNoFusedQuantOps()])
    assert routes.is_one_delegate_call(after)
    assert torch.equal(routes.run(after, (X,))[0], gm(X))


def test_passes_refuse_other_things() -> None:
    with pytest.raises(ValueError, match="got Linear, supported: GraphModule and ExportedProgram"):
        DecomposeFusedQuant()(torch.nn.Linear(1, 1))


def _apart(gm: GraphModule) -> tuple[GraphModule, list[str], list[str]]:
    """Every fused node alone on inputs of its own; whose values they are, and whose results."""
    parts, mapping = torch.fx.Graph(), dict[Node, Node]()
    inputs: list[str] = []
    results: list[str] = []
    outputs: list[Node] = []
    for node in filter(is_fused, graph.calls(gm)):
        for source in node.all_input_nodes:
            if source in mapping and source.op == "get_attr":
                continue
            if source.op == "get_attr":
                mapping[source] = parts.node_copy(source)
            else:
                mapping[source] = parts.placeholder(f"in_{len(inputs)}")
                inputs.append(source.name)
            mapping[source].meta = dict(source.meta)
        new = parts.node_copy(node, mapping.__getitem__)
        value = node
        if isinstance(node.meta["val"], (tuple, list)):
            value = next(user for user in node.users if user.args[1] == 0)
            new = parts.node_copy(value, {node: new}.__getitem__)
        results.append(value.name)
        outputs.append(new)
    parts.output(tuple(outputs))
    return GraphModule(copy.deepcopy(gm), parts), inputs, results


def _differences(gm: GraphModule, inputs: Any) -> dict[str, float]:
    """Node -> codes between its result and its decomposed form's, on the same operands."""
    values = recorded(gm, inputs)
    parts, sources, results = _apart(gm)
    got = _decomposed(parts)(*(values[name] for name in sources))
    return {
        name: float((values[name].double() - value.double()).abs().max())
        for name, value in zip(results, got, strict=True)
    }


@pytest.mark.parametrize("seed", range(25))
def test_random_graphs_within_a_code_and_back(seed: int) -> None:
    """Each operator within 1 code; fusing again gives the same operators and the same bits."""
    gm, inputs, text = random_quantized.fused(seed, 2, 5)
    if not fused_targets(gm, but="nothing"):
        return
    differences = _differences(gm, inputs)
    assert max(differences.values()) <= 1, f"{differences}\n{text}"
    again = fused_quant.fuse(_decomposed(gm))
    assert fused_targets(again, but="nothing") == fused_targets(gm, but="nothing"), text
    routes.assert_same_bits(routes.eager(again, inputs), routes.eager(gm, inputs))


@pytest.mark.parametrize("seed", range(100, 125))
def test_random_operators_in_the_portable_runtime(seed: int) -> None:
    """One operator, undelegated: within 1 code of the eager fused program."""
    gm, inputs, text = random_quantized.fused(seed, 1, 1)
    if not fused_targets(gm, but="nothing"):
        return
    edge = to_edge(export(gm, inputs)).transform([DecomposeFusedQuant(), AssertNoFusedQuantOps()])
    got, expected = routes.run(edge, inputs), routes.eager(gm, inputs)
    scales = [_output_scale(gm, index) for index in range(len(expected))]
    for value, reference, scale in zip(got, expected, scales, strict=True):
        limit = scale * (1 + 1e-4) + 1e-6
        assert float((value - reference).abs().max()) <= limit, text


def _output_scale(gm: GraphModule, index: int) -> float:
    (output,) = [node for node in gm.graph.nodes if node.op == "output"]
    results: Any = output.args[0]
    node = results[index] if isinstance(results, (tuple, list)) else results
    while graph.op_of(node) != graph.DEQUANTIZE:
        if node.op != "call_function":
            return 0.0
        node = node.all_input_nodes[0]
    return float(node.args[1])


def test_unclaimed_operators_after_delegation() -> None:
    """The two passes around a delegate: a program with a declined operator runs."""

    def function(x: Tensor) -> Tensor:
        y = OUT.round(IN.round(x) + IN.round(x))
        return MID.round(torch.sin(y))

    gm = fused(Graph(function), X)
    partitioner = fused_quant.FusedQuantPartitioner()
    program = decompose_unclaimed(export(gm, (X,)), lambda node: "add" in str(node.target))
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    checked = edge.transform([AssertNoFusedQuantOps()])
    (got,) = routes.run(checked, (X,))
    assert float((got - gm(X)).abs().max()) <= MID.scale * 1.001
