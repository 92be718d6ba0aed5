# SPDX-License-Identifier: BSD-3-Clause
"""Checks and small readers that several operators share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from fused_quant import graph, numerics, numerics_real
from fused_quant.ops.spec import Call, Parser, Site, Tensors
from fused_quant.qparams import QParams
from fused_quant.reasons import Reason
from fused_quant.target import Target

INT8_BOUNDS = (-128, 127)
CODE_NAMES = {torch.int8: "s8", torch.int16: "s16"}  # in the payload
CODE_BOUNDS = {
    torch.int8: INT8_BOUNDS,
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
}
_ELEMENT_BYTES = 4  # of the widest tensor an operator touches: float32 at the boundary


def tensor(tensors: Tensors, name: str) -> torch.Tensor:
    """The operand of that name. ValueError if it is absent."""
    value = tensors[name]
    if value is None:
        raise ValueError(f"operand {name}: got None, expected a tensor")
    return value


def number(value: Any) -> float:
    """A Python number as a float. ValueError for anything else, such as a tensor."""
    if not isinstance(value, (int, float)):
        raise ValueError(f"argument: got {value!r}, supported: a number")
    return float(value)


def float32(value: Any) -> float:
    """The float32 number nearest to a Python number: what PyTorch computes with."""
    return float(torch.tensor(number(value), dtype=torch.float32))


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """(v, v) of a number or a one-element list, (a, b) of a two-element list."""
    if isinstance(value, int):
        return (value, value)
    first, second = (value[0], value[0]) if len(value) == 1 else (value[0], value[1])
    return (int(first), int(second))


def parser(operands: dict[str, str], attributes: dict[str, Any] | None = None) -> Parser:
    """A parser for a spelling whose arguments map one to one.

    operands: spec operand -> ATen argument. attributes: ATen argument -> how to read it (a
    function of the bound value) or, for an argument that must keep its only understood value, a
    one-element tuple. Any other argument of the schema is an error in the table, found at import
    of the test that enumerates all schemas, and refused at match time.
    """
    readers = attributes or {}

    def parse(node: Node) -> Call | Reason:
        bound = graph.bind(node)
        nodes: dict[str, Node | None] = {}
        for name, argument in operands.items():
            value = bound.pop(argument)
            if value is not None and not isinstance(value, Node):
                return Reason("operand", f"argument {argument}", repr(value), "a tensor")
            nodes[name] = value
        read: dict[str, Any] = {}
        for argument, reader in readers.items():
            value = bound.pop(argument)
            if isinstance(reader, tuple):
                if value != reader[0]:
                    return Reason("attribute", f"argument {argument}", repr(value), repr(reader[0]))
            else:
                read[argument] = reader(value)
        if bound:
            names = ", ".join(bound)
            return Reason("attribute", f"arguments not understood: {names}", repr(bound))
        return Call(nodes, read)

    return parse


def check_scales(site: Site, operands: Sequence[str]) -> Reason | None:
    """A reason if a scale of a present operand, or of the output, is outside the contract."""
    for name in operands:
        if name in site.shapes:
            reason = site.block(name).check(f"{site.name}.{name}")
            if reason is not None:
                return reason
    return None if site.out is None else site.out.check(f"{site.name}.out")


def check_int8_activations(
    site: Site,
    operands: Sequence[str],
    unsigned: bool = False,
    real: bool = False,
    wide: bool = False,
) -> Reason | None:
    """A reason unless the named operands and the output are per-tensor int8 with legal scales.

    unsigned: uint8 is legal too. real: so is an output that stays in float32. wide: so is int16
    with zero point 0, for each of them by itself (see `check_wide_activations`).
    """
    legal = (torch.int8, *[torch.uint8] * unsigned, *[torch.int16] * wide)
    for name in operands:
        block = site.qparams[name]
        if block is None:
            return Reason("float_edge", f"{name} is not quantized", "float", "int8 per tensor")
        reason = check_codes(name, site.dtypes[name], block, legal)
        if reason is not None:
            return reason
    if site.out is None and real:
        float_dtype = site.block(operands[0]).dtype
        if float_dtype != torch.float32:
            return Reason("dtype", "float dtype", str(float_dtype), "torch.float32")
        return check_scales(site, operands)
    if site.out is None:
        return Reason("float_edge", "the output is not quantized", "float", "int8 per tensor")
    return check_codes("out", site.out.dtype, site.out, legal) or check_scales(site, operands)


def check_wide_activations(
    site: Site, operands: Sequence[str], real: bool = False
) -> Reason | None:
    """A reason unless operands and output are all per-tensor int8, or all int16, with legal scales.

    int16 codes have the zero point 0. real: an output that stays in float32 is legal too.
    """
    reason = check_int8_activations(site, operands, real=real, wide=True)
    if reason is not None:
        return reason
    wanted, where = site.dtypes[operands[0]], operands[0]
    if site.out is not None:
        wanted, where = site.out.dtype, "the output"
    for name in operands:
        if site.dtypes[name] != wanted:
            return Reason("dtype", f"{name} dtype", str(site.dtypes[name]), f"{wanted}, as {where}")
    return None


def is_wide(site: Site) -> bool:
    """True if the codes of the result are int16."""
    return site.result.dtype == torch.int16


def check_codes(
    name: str, dtype: torch.dtype, block: QParams, legal: Sequence[torch.dtype]
) -> Reason | None:
    """A reason unless codes of this dtype are legal, with one zero point and bounds among them."""
    if dtype not in legal:
        return Reason("dtype", f"{name} dtype", str(dtype), ", ".join(map(str, legal)))
    if not block.is_per_tensor:
        return Reason("granularity", f"{name} scale", f"{block.scale.numel()} scales", "per tensor")
    low, high = CODE_BOUNDS[dtype]
    if dtype == torch.int16 and block.zero_point_value != 0:
        return Reason("zero_point", f"{name} zero point", str(block.zero_point_value), "0 of int16")
    if not low <= block.zero_point_value <= high:
        return Reason("zero_point", f"{name} zero point", str(block.zero_point_value), str(dtype))
    if not low <= block.quant_min <= block.quant_max <= high:
        got = f"[{block.quant_min}, {block.quant_max}]"
        return Reason("range", f"{name} quant_min, quant_max", got, f"within [{low}, {high}]")
    return None


def check_rank(site: Site, target: Target) -> Reason | None:
    """A reason if a tensor is too deep for the target, empty, or of rank 0 with no use."""
    bounds = target.bounds(site.spec.name)
    for name, shape in [*site.shapes.items(), ("out", site.out_shape)]:
        if len(shape) > bounds.rank:
            return Reason("rank", f"{name} rank", str(len(shape)), f"at most {bounds.rank}")
        if math.prod(shape) * _ELEMENT_BYTES > bounds.tensor_bytes:
            got = f"{math.prod(shape)} elements"
            return Reason("size", f"{name} size", got, f"{bounds.tensor_bytes} bytes")
        if 0 in shape:
            return Reason("empty", f"{name} has no elements", str(tuple(shape)), "1 or more")
    return None


def check_window(
    site: Site,
    target: Target,
    kernel: Sequence[int],
    *others: Sequence[int],
    dilation: Sequence[int] = (1, 1),
) -> Reason | None:
    """A reason if a kernel size, stride, padding (`others`) or dilation is beyond the target's."""
    bounds = target.bounds(site.spec.name)
    largest = max(max(values) for values in (kernel, *others, dilation))
    if largest > bounds.window:
        return Reason("window", "window attribute", str(largest), f"up to {bounds.window}")
    extent = max((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    if extent > bounds.extent:
        return Reason("window", "dilated kernel size", str(extent), f"up to {bounds.extent}")
    return None


def check_real_scales(first: float, others: Sequence[float]) -> Reason | None:
    """A reason if an accumulator of these scales has no real value in the contract."""
    for other in others:
        try:
            numerics_real.real_scale(first, other)
        except ValueError:
            got = repr(first * other)
            return Reason("scale", "scale of the accumulator", got, "a normal float32")
    return None


def check_ratio(ratio: float, what: str) -> Reason | None:
    """A reason if a scale ratio has no multiplier in the contract."""
    try:
        numerics.multiplier_from_ratio(ratio)
    except ValueError:
        return Reason("ratio", f"scale ratio of {what}", repr(ratio), "[0, 2^29)")
    return None
