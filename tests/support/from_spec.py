# SPDX-License-Identifier: BSD-3-Clause
"""Cases of a dialect operator without a builder of its own.

Parameters: op (qualified name of the dialect operator), shapes (of each operand), attributes, and
as far as wanted scales, zero_points (of each operand, then of the result), codes (of each operand)
bounds and dtype; real: a float result; the rest is drawn. An attribute {"tensor": values} is a
constant of floats or booleans, {"input": values} a further input of them. The operator lowers
itself; its integer reference says what is right.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from fused_quant import dialect, graph
from fused_quant import schema_generated as schema
from fused_quant.lowered import Storage
from fused_quant.lowering import lower_graph
from fused_quant.ops import registry
from fused_quant.qparams import QParams
from tests.support import quant
from tests.support.built import Array, Built


def _block(dtype: torch.dtype, scale: float, zero_point: int, low: int, high: int) -> QParams:
    return QParams.per_tensor(scale, zero_point, dtype, low, high)


def _blocks(p: quant.Parameters, rng: np.random.Generator, count: int) -> list[QParams]:
    scales = p.get("scales") or [quant.scale(rng) for _ in range(count)]
    scales = [float(np.float32(scale)) for scale in scales]
    zeros = p.get("zero_points") or [
        quant.zero_point(rng, {"dtype": p.get("dtype")}, "") for _ in range(count)
    ]
    low, high = quant.bounds(rng, p, zeros[-1])
    dtype = quant.dtype_of(p)
    limits = [quant.limits(dtype)] * (count - 1) + [(low, high)]
    codes = getattr(torch, dtype.name)
    return [_block(codes, s, z, *b) for s, z, b in zip(scales, zeros, limits, strict=True)]


def _constant(gm: GraphModule, name: str, value: torch.Tensor, mode: FakeTensorMode) -> Node:
    gm.register_buffer(name, value)
    node = gm.graph.get_attr(name)
    node.meta["val"] = mode.from_tensor(value, static_shapes=True)
    return node


def _placeholder(gm: GraphModule, name: str, array: Array, mode: FakeTensorMode) -> Node:
    node = gm.graph.placeholder(name)
    node.meta["val"] = mode.from_tensor(torch.from_numpy(array.copy()), static_shapes=True)
    return node


def build(opcode: str, p: quant.Parameters, rng: np.random.Generator) -> Built:
    """The operator as it lowers itself, and its eager result."""
    registry.load()
    spec = registry.find(p["op"])
    assert spec.fusion is not None
    shapes = p["shapes"]
    stored = quant.dtype_of(p)
    given = p.get("codes") or [quant.codes(rng, shape, dtype=stored) for shape in shapes]
    inputs = [np.asarray(c, stored).reshape(s) for c, s in zip(given, shapes, strict=True)]
    gm, mode = GraphModule(torch.nn.Module(), Graph()), FakeTensorMode()
    nodes: list[Any] = []
    for number, array in enumerate(inputs):
        nodes.append(_placeholder(gm, f"inp{number}", array, mode))
    blocks: list[Any] = []
    for number, block in enumerate(_blocks(p, rng, len(shapes) + 1)):
        if number == len(shapes) and p.get("real"):
            blocks.append([None, None, torch.float32, 0, 0])
            continue
        dtype = block.dtype if number == len(shapes) else torch.float32
        scale = _constant(gm, f"scale{number}", block.scale, mode)
        zero_point = _constant(gm, f"zero_point{number}", block.zero_point, mode)
        blocks.append([scale, zero_point, dtype, block.quant_min, block.quant_max])
    if spec.fusion.operands[0].many:  # one list of tensors, and lists in its block
        *each, out = blocks
        scales, zero_points, dtypes, *bounds = map(list, zip(*each, strict=True))
        nodes, blocks = [nodes], [[scales, zero_points, dtypes[0], *bounds], out]
    arguments = list(itertools.chain.from_iterable(blocks))
    for number, value in enumerate(p.get("attributes", ())):
        given = value if isinstance(value, dict) else {}
        if "tensor" in given:
            value = _constant(gm, f"attribute{number}", torch.as_tensor(given["tensor"]), mode)
        elif "input" in given:
            inputs.append(np.array(given["input"]))
            value = _placeholder(gm, f"attribute{number}", inputs[-1], mode)
        arguments.append(value)
    fused = gm.graph.call_function(dialect.define(spec), (*nodes, *arguments))
    call = fused
    with mode:
        graph.refresh_val(call)
        if spec.fusion.results > 1:
            fused = gm.graph.call_function(graph.GETITEM, (call, 0))
            graph.refresh_val(fused)
    reason = spec.fusion.covers(dialect.site_of(gm, call))
    assert reason is None, reason  # else eager mode would compute in float
    gm.graph.output((fused,))
    program = lower_graph(gm, "generic")
    op = program.ops[-1]  # a copy in front of it may add leading dimensions of size one
    assert op.opcode == opcode
    kept = [None if index < 0 else program.tensors[index] for index in op.inputs]
    operands = [
        array.reshape(tensor.shape)
        for array, tensor in zip(inputs, kept, strict=False)
        if tensor is not None
    ]
    constants = [
        None if tensor is None else tensor.data
        for tensor in kept
        if tensor is None or tensor.storage is Storage.CONSTANT
    ]
    tensors: list[Any] = [torch.from_numpy(array.copy()) for array in inputs]
    values = dict(zip(gm.graph.find_nodes(op="placeholder"), tensors, strict=True))
    known = torch.fx.map_arg(
        (*nodes, *arguments),
        lambda node: values[node] if node in values else graph.constant_of(gm, node),
    )
    expected = call.target(*known)
    if spec.fusion.results > 1:
        expected = expected[0]
    result = np.ascontiguousarray(expected.numpy())
    tosa = _tosa(p["op"], opcode, operands, constants, op.params)
    if "resize" in p:
        tosa = _resized(operands[0], op.params) | {"kind": opcode, "resize": p["resize"]}
    return Built(opcode, operands, constants, op.params, result, tosa)


def _resized(x: Array, params: Any) -> dict[str, Any]:
    """A resized image: how RESIZE says it is up to who drew the case."""
    return {
        "x": x,
        "zx": params.inputZeroPoint,
        "multiplier": params.multiplier,
        "shift": params.shift,
        "zo": params.outputZeroPoint,
        "lo": params.clampMin,
        "hi": params.clampMax,
    }


def _tosa(
    name: str, opcode: str, operands: list[Array], constants: list[Array | None], params: Any
) -> dict[str, Any]:
    """What the reference model needs to know, of operators that it can express."""
    if opcode in ("mean", "amax", "amin"):
        case = {"kind": name, "x": operands[0], "axes": params.axes, "zx": params.inputZeroPoint}
        case |= {"multiplier": [params.multiplier], "shift": [params.shift]}
        case |= {"dtype": operands[0].dtype.name}
        return case | {"zo": params.outputZeroPoint, "lo": params.clampMin, "hi": params.clampMax}
    if isinstance(params, schema.NormalizeParamsT):
        case = {"kind": opcode, "x": operands[0], "constants": constants}
        case |= {"multiplier": [params.outputMultiplier], "shift": [params.outputShift]}
        case |= {"zo": params.outputZeroPoint, "lo": params.clampMin, "hi": params.clampMax}
        mean = ([params.inputMultiplier], [params.inputShift])
        return case | {"mean": mean, "epsilon": params.epsilon, "zx": params.inputZeroPoint}
    if opcode == "lut":
        bounds = {"lo": params.clampMin, "hi": params.clampMax}
        return {"kind": "lut", "x": operands[0], "table": constants[0], **bounds}
    if getattr(params, "realScale", 0):
        return {}  # TOSA has no float result of integer operators
    if isinstance(params, schema.ElementwiseParamsT):
        multiplier = list(params.multiplier or [params.outputMultiplier])
        shift = list(params.shift or [params.outputShift])
        zero_points = list(params.inputZeroPoint)
    elif isinstance(params, schema.CatParamsT):
        multiplier, shift = list(params.multiplier), list(params.shift)
        zero_points = list(params.inputZeroPoint)
    elif isinstance(params, schema.PadParamsT):
        multiplier, shift, zero_points = (
            [params.multiplier],
            [params.shift],
            [params.inputZeroPoint],
        )
    else:
        return {}
    return {
        "kind": opcode,
        "dtype": operands[0].dtype.name,
        "operands": operands,
        "zero_points": zero_points,
        "multiplier": multiplier,
        "shift": shift,
        "zo": params.outputZeroPoint,
        "lo": params.clampMin,
        "hi": params.clampMax,
        **{
            name: getattr(params, name)
            for name in ("negate", "axis", "before", "value")
            if hasattr(params, name)
        },
    }
