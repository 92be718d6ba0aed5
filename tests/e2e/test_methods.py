# SPDX-License-Identifier: BSD-3-Clause
"""Several methods in one program: each gives its bits, and weights in common are stored once."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch import Tensor, nn
from torch.fx import GraphModule

import fused_quant
from fused_quant import inspect, native, payload
from fused_quant.lower import quantize
from tests.e2e import routes

torch.set_num_threads(1)

SIZE = 48
TRANSFORM_ONE_LIST = "to_edge_transform_and_lower, one list"
TO_EDGE_ONE = "to_edge, one partitioner"
ROUTES = (routes.TO_EDGE, TO_EDGE_ONE, routes.TRANSFORM, TRANSFORM_ONE_LIST)


class _Encode(nn.Module):
    """A convolution, then the inner layer."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(torch.relu(self.conv(x)).flatten(1)))


class _Decode(nn.Module):
    """The inner layer, then one of another shape."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.out = nn.Linear(SIZE, 5)

    def forward(self, z: Tensor) -> Tensor:
        return self.out(torch.relu(self.inner(z)))


@dataclasses.dataclass(frozen=True)
class _Method:
    """A fused method, an input, what it must give, and the codes of its inner weight."""

    fused: GraphModule
    x: Tensor
    expected: list[Tensor]
    weight: bytes


def _method(module: nn.Module, shape: tuple[int, ...], seed: int) -> _Method:
    generator = torch.Generator().manual_seed(seed)
    data = [torch.randn(shape, generator=generator) for _ in range(3)]
    fused = quantize(module, (data[0],), data, progress=False)
    codes = [
        value.numpy().tobytes()
        for value in (*fused.parameters(), *fused.buffers())
        if value.dtype == torch.int8 and value.shape == (SIZE, SIZE)
    ]
    assert len(codes) == 1
    return _Method(fused, data[0], routes.eager(fused, (data[0],)), codes[0])


@functools.cache
def _methods(shared: bool) -> dict[str, _Method]:
    torch.manual_seed(5)
    first = nn.Linear(SIZE, SIZE)
    second = first if shared else nn.Linear(SIZE, SIZE)
    return {
        "encode": _method(_Encode(first), (1, 2, 4, 4), 1),
        "decode": _method(_Decode(second), (2, SIZE), 2),
    }


def _lowered(methods: dict[str, _Method], route: str) -> EdgeProgramManager:
    programs = {name: torch.export.export(m.fused, (m.x,)) for name, m in methods.items()}
    each = {name: fused_quant.FusedQuantPartitioner() for name in methods}
    if route == routes.TO_EDGE:
        return to_edge(programs).to_backend(each)
    if route == TO_EDGE_ONE:
        return to_edge(programs).to_backend(fused_quant.FusedQuantPartitioner())
    if route == routes.TRANSFORM:
        return to_edge_transform_and_lower(
            programs, partitioner={name: [one] for name, one in each.items()}
        )
    return to_edge_transform_and_lower(programs, partitioner=[fused_quant.FusedQuantPartitioner()])


@functools.cache
def _pte(shared: bool, route: str = routes.TO_EDGE) -> bytes:
    edge = _lowered(_methods(shared), route)
    for name in _methods(shared):
        assert routes.operators(edge, name) == ["executorch_call_delegate"]
    return bytes(edge.to_executorch().buffer)


def _alone(name: str, shared: bool) -> bytes:
    method = _methods(shared)[name]
    edge = routes.lowered(method.fused, (method.x,), routes.TO_EDGE)
    return bytes(edge.to_executorch().buffer)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_each_method_gives_its_eager_bits(shared: bool, route: str) -> None:
    data = _pte(shared, route)
    for name, method in _methods(shared).items():
        got = routes.execute(routes.load(data, name), (method.x,))
        routes.assert_same_bits(got, method.expected)
        assert int(torch.unique(got[0]).numel()) > 3  # something was computed


@pytest.mark.parametrize("route", ROUTES)
def test_shared_weight_occurs_once(route: str) -> None:
    encode, decode = _methods(True).values()
    assert encode.weight == decode.weight
    assert len(set(encode.weight)) > 50  # no pattern that occurs by chance
    assert _pte(True, route).count(encode.weight) == 1
    alone = sum(_alone(name, True).count(encode.weight) for name in _methods(True))
    assert alone == 2


def test_program_is_smaller_than_its_methods_alone() -> None:
    apart = [len(_alone(name, True)) for name in _methods(True)]
    assert len(_pte(True)) < sum(apart)
    # Of the weight that is saved, keys, their table and the alignment of a segment cost little.
    assert len(_pte(True)) < len(_pte(False)) - SIZE * SIZE // 2


def test_methods_with_own_weights_have_the_payloads_they_have_alone() -> None:
    found = {one.method: one for one in payload.extract_delegates(_pte(False))}
    for name in _methods(False):
        assert [found[name].data] == payload.extract_payloads(_alone(name, False))
        assert found[name].constants == {}
    assert b"fused_quant/" not in _pte(False)


def test_equal_methods_share_their_payload_and_nothing_else() -> None:
    method = _methods(True)["decode"]
    data = bytes(_lowered({"one": method, "two": method}, routes.TO_EDGE).to_executorch().buffer)
    assert data.count(method.weight) == 1
    assert [one.constants for one in payload.extract_delegates(data)] == [{}, {}]
    for name in ("one", "two"):
        routes.assert_same_bits(
            routes.execute(routes.load(data, name), (method.x,)), method.expected
        )


@pytest.mark.parametrize("from_file", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_both_loaded_and_executed_in_turn(shared: bool, from_file: bool, tmp_path: Path) -> None:
    data: bytes | Path = _pte(shared)
    if from_file:
        (tmp_path / "model.pte").write_bytes(_pte(shared))
        data = tmp_path / "model.pte"
    loaded = {name: routes.load(data, name) for name in _methods(shared)}
    for _ in range(5):
        for name, method in _methods(shared).items():
            got = routes.execute(loaded[name], (method.x,))
            routes.assert_same_bits(got, method.expected)


def test_both_methods_of_one_loaded_program() -> None:
    fused_quant.load_runtime()
    program = Runtime.get().load_program(_pte(True))
    loaded = {name: program.load_method(name) for name in _methods(True)}
    for _ in range(3):
        for name, method in _methods(True).items():
            got = [torch.as_tensor(value) for value in loaded[name].execute([method.x])]
            routes.assert_same_bits(got, method.expected)
    del loaded["encode"]  # what it gives back must not be the other's
    decode = _methods(True)["decode"]
    got = [torch.as_tensor(value) for value in loaded["decode"].execute([decode.x])]
    routes.assert_same_bits(got, decode.expected)


def test_reloaded_many_times() -> None:
    for _ in range(30):
        for name, method in _methods(True).items():
            got = routes.execute(routes.load(_pte(True), name), (method.x,))
            routes.assert_same_bits(got, method.expected)


def test_two_regions_of_one_method_share_too() -> None:
    """A softmax without a kernel between two uses of one layer makes two delegate calls."""

    class _Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(SIZE, SIZE)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(torch.cumsum(self.inner(x), 1))

    torch.manual_seed(6)
    method = _method(_Twice(), (2, SIZE), 3)
    edge = routes.lowered(method.fused, (method.x,), routes.TO_EDGE)
    data = bytes(edge.to_executorch().buffer)
    assert len(payload.extract_payloads(data)) == 2
    assert data.count(method.weight) == 1
    routes.assert_same_bits(routes.execute(routes.load(data), (method.x,)), method.expected)


def test_payloads_run_without_executorch_given_their_constants() -> None:
    for one in payload.extract_delegates(_pte(True)):
        method = _methods(True)[one.method]
        assert one.constants != {}
        plan = native.Plan(one.data, constants=one.constants)
        (got,) = plan.run([method.x.numpy()])
        assert np.array_equal(got, method.expected[0].numpy())
        with pytest.raises(native.PayloadError, match="nothing provides any") as raised:
            native.Plan(one.data)
        assert raised.value.code == native.Code.INVALID_PROGRAM


def test_inspect_tells_where_a_constant_is() -> None:
    weight = _methods(True)["encode"].weight
    for found in inspect.inspect_file(_pte(True)):
        constants = [t for t in inspect.to_json(found)["tensors"] if t["storage"] == "constant"]
        keys = {t["key"] for t in constants} - {None}
        assert {t["bytes"] for t in constants if t["key"]} == {len(weight)}
        assert any(t["key"] is None for t in constants)
        (key,) = keys
        assert inspect.totals(found)["shared_bytes"] == len(weight)
        assert f"key {key}" in inspect.to_text(found)
