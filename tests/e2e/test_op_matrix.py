# SPDX-License-Identifier: BSD-3-Clause
"""Every operator and every way of calling it, from the float module to the .pte.

A case takes three graphs (fused by us, quantized by us, quantized by XNNPACK's quantizer) and each
through one of the two lowering routes; the routes and weight granularities alternate over the
cases, and `test_every_route` takes some cases through all of them.
"""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch.fx import GraphModule

import fused_quant
from tests.e2e import routes
from tests.e2e.op_matrix import CASES, Case
from tests.support.foreign import xnnpack_quantizer

torch.set_num_threads(1)

ALL_ROUTES = ("conv-depthwise-multiplier4", "linear-rank3", "add-alpha2", "conv-max-pool")


def _raw(case: Case) -> GraphModule:
    calibration = [case.inputs(seed) for seed in range(3)]
    return routes.quantize_dequantize(case.module(), calibration, fused_quant.default_quantizer())


def _xnnpack(case: Case, per_channel: bool) -> GraphModule:
    calibration = [case.inputs(seed) for seed in range(3)]
    return routes.quantize_dequantize(case.module(), calibration, xnnpack_quantizer(per_channel))


def _check_ours(case: Case, raw: GraphModule, graph: GraphModule, route: str) -> None:
    """One delegate call whose results are those of the fused program, and near the q/dq graph."""
    inputs = case.inputs(100)
    fused = routes.fused_copy(raw)
    edge = routes.lowered(graph, inputs, route)
    assert routes.operators(edge) == ["executorch_call_delegate"]
    expected = routes.eager(fused, inputs)
    routes.assert_same_bits(routes.run(edge, inputs), expected)
    rounded = max(1, routes.rounded_tensors(raw))
    routes.assert_within_codes(
        expected, routes.eager(raw, inputs), routes.result_scales(raw), rounded
    )


def _check_foreign(case: Case, raw: GraphModule, route: str) -> None:
    """Whatever of a foreign graph is claimed runs right, and what is not is still there."""
    inputs = case.inputs(100)
    edge = routes.lowered(copy.deepcopy(raw), inputs, route)
    got = routes.run(edge, inputs)
    rounded = max(1, routes.rounded_tensors(raw))
    reference = routes.eager(raw, inputs)
    routes.assert_within_codes(got, reference, routes.result_scales(raw), rounded)
    if routes.is_one_delegate_call(edge):
        routes.assert_same_bits(got, routes.eager(routes.fused_copy(raw), inputs))


def _routes_of(case: Case) -> tuple[str, str, str, bool]:
    index = CASES.index(case)
    first, second = routes.ROUTES[index % 2], routes.ROUTES[(index + 1) % 2]
    return first, second, routes.ROUTES[index // 2 % 2], bool(index % 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours(case: Case) -> None:
    fused_route, raw_route, _, _ = _routes_of(case)
    raw = _raw(case)
    _check_ours(case, raw, routes.fused_copy(raw), fused_route)
    _check_ours(case, raw, raw, raw_route)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_stock_quantizer(case: Case) -> None:
    _, _, route, per_channel = _routes_of(case)
    _check_foreign(case, _xnnpack(case, per_channel), route)


@pytest.mark.parametrize("route", routes.ROUTES)
@pytest.mark.parametrize("name", ALL_ROUTES)
def test_every_route(name: str, route: str) -> None:
    case = next(case for case in CASES if case.name == name)
    raw = _raw(case)
    for graph in (routes.fused_copy(raw), copy.deepcopy(raw)):
        _check_ours(case, raw, graph, route)
    for per_channel in (False, True):
        _check_foreign(case, _xnnpack(case, per_channel), route)


def test_names_are_unique() -> None:
    pairs = itertools.combinations([case.name for case in CASES], 2)
    assert all(first != second for first, second in pairs)
