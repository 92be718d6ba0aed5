# SPDX-License-Identifier: BSD-3-Clause
"""`explain`, from Python and from the command line, and programs shared with other backends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from torch import Tensor, nn
from torch.nn import functional

import fused_quant
from fused_quant.__main__ import main
from fused_quant.claims import claim
from fused_quant.target import Target
from tests.e2e import routes
from tests.frontend.graphs import Graph, Grid, Weights, outside

torch.set_num_threads(1)

A, B = Grid(0.05, 3), Grid(0.08, -40)
IMAGE = torch.randn(1, 4, 6, 5, generator=torch.Generator().manual_seed(3))


def _mixed(weight: Weights, last: nn.Module, image: Tensor) -> Tensor:
    """Quantized convolution, float cumulative sum, quantized addition, float convolution."""
    x = A.round(image)
    y = B.round(functional.conv2d(x, weight(), padding=1))
    z = A.round(outside(y))
    return last(B.round(z + z)).flatten(1)


def _module() -> nn.Module:
    torch.manual_seed(2)
    codes = torch.randint(-127, 128, (4, 4, 3, 3))
    return Graph(_mixed, weight=Weights(codes, [0.01]), last=nn.Conv2d(4, 3, 2)).eval()


def _program() -> torch.export.ExportedProgram:
    return torch.export.export(_module(), (IMAGE,))


def test_every_compute_node_outside_is_listed_with_its_reason() -> None:
    explanation = fused_quant.explain(_program())
    rows = {row["operator"]: row for row in explanation.rows()}
    assert rows.keys() == {"aten.cumsum.default", "aten.convolution.default"}
    assert explanation.claimed == 2  # convolution and addition
    assert explanation.partitions == 2
    assert all(
        row["code"] and row["reason"] and row["method"] == "forward" for row in rows.values()
    )
    table = str(explanation)
    assert "2 compute nodes in 2 delegate call(s), 2 left outside" in table
    assert all(name in table for name in rows)


def test_with_every_node_quantizes_and_views_are_listed_too() -> None:
    explanation = fused_quant.explain(_program())
    every = [row["operator"] for row in explanation.rows(every=True)]
    assert set(every) > {row["operator"] for row in explanation.rows()}
    assert len(every) == len(explanation.left)


def test_it_says_what_the_partitioner_does() -> None:
    edge = to_edge(_program())
    explanation = fused_quant.explain(edge)
    partitioner = fused_quant.FusedQuantPartitioner()
    lowered = edge.to_backend(partitioner)
    assert [refusal for _, refusal in explanation.left] == partitioner.refusals
    names = routes.operators(lowered)
    assert names.count("executorch_call_delegate") == explanation.partitions
    assert len(names) == explanation.partitions + len(partitioner.refusals)


def test_the_program_is_not_changed() -> None:
    edge = to_edge(_program())
    before = [(node.name, dict(node.meta)) for node in edge.exported_program().graph.nodes]
    fused_quant.explain(edge)
    after = [(node.name, dict(node.meta)) for node in edge.exported_program().graph.nodes]
    assert [name for name, _ in before] == [name for name, _ in after]
    assert all(b.keys() == a.keys() for (_, b), (_, a) in zip(before, after, strict=True))


def test_everything_claimed_is_one_line() -> None:
    def add(x: Tensor) -> Tensor:
        return B.round(A.round(x) + A.round(x))

    program = torch.export.export(Graph(add), (IMAGE,))
    assert str(fused_quant.explain(program)) == (
        "1 compute nodes in 1 delegate call(s), 0 left outside"
    )


def test_several_methods() -> None:
    edge = to_edge({"encode": _program(), "decode": _program()})
    methods = {row["method"] for row in fused_quant.explain(edge).rows()}
    assert methods == {"encode", "decode"}


def test_wrong_arguments() -> None:
    with pytest.raises(TypeError, match=r"program: got GraphModule, supported: ExportedProgram"):
        fused_quant.explain(_program().module())
    with pytest.raises(ValueError, match="target: got 'cortex-m99', supported: generic"):
        fused_quant.explain(_program(), "cortex-m99")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pt2"
    torch.export.save(_program(), path)
    expected = fused_quant.explain(_program())
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(expected)
    assert main(["explain", str(path), "--json", "--all"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["left"] == expected.rows(every=True)
    assert (found["claimed"], found["partitions"]) == (2, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.pt2"], "missing.pt2: got no such file"),
        (["broken.pt2"], "for a .pte see python -m fused_quant.inspect"),
        (["model.pt2", "--target", "moon"], "target: got 'moon', supported: generic"),
    ],
)
def test_command_line_errors(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.pt2").write_bytes(b"not a program")
    torch.export.save(_program(), "model.pt2")
    assert main(["explain", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""


def _delegates(edge: EdgeProgramManager) -> list[str]:
    module = edge.exported_program().graph_module
    return [
        getattr(module, node.target).backend_id
        for node in module.graph.nodes
        if node.op == "get_attr" and hasattr(getattr(module, node.target), "backend_id")
    ]


@pytest.mark.parametrize("ours_first", [True, False])
def test_mixed_program_with_xnnpack_and_portable(ours_first: bool) -> None:
    partitioners = [fused_quant.FusedQuantPartitioner(), XnnpackPartitioner()]
    if not ours_first:
        partitioners.reverse()
    program = _program()
    edge = to_edge_transform_and_lower(program, partitioner=partitioners)
    delegates = _delegates(edge)
    assert "XnnpackBackend" in delegates
    if ours_first:
        assert delegates.count("FusedQuantBackend") == 2
    (got,) = routes.run(edge, (IMAGE,))
    (expected,) = routes.eager(_module(), (IMAGE,))
    assert float((got - expected).abs().max()) < 0.2  # a code of B through the last layer


def test_partitions_beyond_the_targets_size_are_cut() -> None:
    def chain(x: Tensor) -> Tensor:
        y = A.round(x)
        for _ in range(5):
            y = A.round(functional.hardtanh(y + y, -1.0, 1.0))
        return y

    program = to_edge(torch.export.export(Graph(chain), (IMAGE,))).exported_program()
    whole = claim(program, Target("generic"))
    cut = claim(program, Target("generic", partition_units=3))
    assert len(set(whole.partitions.values())) == 1
    sizes = len(set(cut.partitions.values()))
    assert sizes > 1
    assert cut.partitions.keys() == whole.partitions.keys()
    order = [
        cut.partitions[node.name] for node in program.graph.nodes if node.name in cut.partitions
    ]
    assert sorted(set(order)) == list(range(sizes))
