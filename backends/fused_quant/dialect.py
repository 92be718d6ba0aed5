# SPDX-License-Identifier: BSD-3-Clause
"""The `fused_quant` operator library: schemas, integer eager kernels, fake kernels, parsing.

Argument order: tensor operands; one block of five (`<operand>_scale`, `_zero_point`, `_dtype`,
`_quant_min`, `_quant_max`) per operand; the `out` block; the ATen operator's other arguments.
A block whose scale and zero point are None marks a float edge.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Sequence
from typing import Any

import torch
from torch._prims_common import suggest_memory_format
from torch.fx import GraphModule, Node

from fused_quant import graph
from fused_quant.ops.spec import Fusion, OpSpec, Site
from fused_quant.qparams import BLOCK_FIELDS, BYTE_OFFSET, QParams, to_signed, to_unsigned

NAMESPACE = "fused_quant"
_UPSTREAM = "executorch.backends.fused_quant"


def _import_upstream() -> None:
    """Let an upstream frontend define its operators first: it owns the namespace."""
    try:
        found = importlib.util.find_spec(f"{_UPSTREAM}.ops") is not None
    except ModuleNotFoundError:
        found = False
    if found:
        importlib.import_module(f"{_UPSTREAM}.ops")


_import_upstream()
_library = torch.library.Library(NAMESPACE, "FRAGMENT")


def _fusion(spec: OpSpec) -> Fusion:
    if spec.fusion is None:
        raise ValueError(f"{spec.name} is not a fused operator")
    return spec.fusion


def schema_of(spec: OpSpec) -> str:
    """The schema text of a fused operator, built from its operands and attributes."""
    fusion = _fusion(spec)
    tensors = [f"Tensor{'?' if o.optional else ''} {o.name}" for o in fusion.operands]
    blocks = []
    for name in [o.name for o in fusion.operands] + ["out"]:
        blocks += [
            f"Tensor? {name}_scale",
            f"Tensor? {name}_zero_point",
            f"ScalarType {name}_dtype",
            f"int {name}_quant_min",
            f"int {name}_quant_max",
        ]
    returns = "Tensor" if fusion.indices is None else "(Tensor, Tensor)"
    arguments = ", ".join([*tensors, *blocks, *fusion.attributes])
    return f"{spec.qualified_name}({arguments}) -> {returns}"


def define(spec: OpSpec) -> Any:
    """Define the operator unless somebody else has; returns its overload.

    When an upstream frontend defined it, eager mode runs upstream's (float) kernel and the integer
    reference stays reachable through `reference`.
    """
    fusion = _fusion(spec)
    overload = fusion.overload or "default"
    packet = getattr(getattr(torch.ops, NAMESPACE), spec.name, None)
    if packet is not None and overload in packet.overloads():
        return getattr(packet, overload)
    _library.define(schema_of(spec), tags=(torch.Tag.pt2_compliant_tag,))

    def eager(*args: Any, **kwargs: Any) -> Any:
        return reference(spec, *args, **kwargs)

    def fake(*args: Any, **kwargs: Any) -> Any:
        return _fake(spec, *args, **kwargs)

    _library.impl(spec.qualified_name, eager, "CPU")
    torch.library.register_fake(f"{NAMESPACE}::{spec.qualified_name}", fake, lib=_library)
    return getattr(getattr(getattr(torch.ops, NAMESPACE), spec.name), overload)


def parse_arguments(spec: OpSpec, bound: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split bound arguments into raw blocks by operand name (and `out`) and attributes by name."""
    fusion = _fusion(spec)
    remaining = dict(bound)
    for operand in fusion.operands:
        remaining.pop(operand.name)
    blocks = {}
    for name in [o.name for o in fusion.operands] + ["out"]:
        blocks[name] = {field: remaining.pop(f"{name}_{field}") for field in BLOCK_FIELDS}
    return blocks, remaining


def _bind_call(spec: OpSpec, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    overload = _fusion(spec).overload or "default"
    op = getattr(getattr(getattr(torch.ops, NAMESPACE), spec.name), overload)
    names = [a.name for a in op._schema.arguments]
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def _dequantized(spec: OpSpec, bound: dict[str, Any], blocks: dict[str, Any]) -> dict[str, Any]:
    tensors = {}
    for operand in _fusion(spec).operands:
        value = bound[operand.name]
        params = QParams.from_block(**blocks[operand.name], name=operand.name)
        if value is not None and params is not None:
            value = params.dequantize(value)
        tensors[operand.name] = value
    return tensors


def eager_site(spec: OpSpec, bound: dict[str, Any], out_shape: tuple[int, ...]) -> Site:
    """The site of an eager call: every operand is a known tensor."""
    blocks, attributes = parse_arguments(spec, bound)
    tensors = {o.name: bound[o.name] for o in _fusion(spec).operands}
    present = {name: t for name, t in tensors.items() if t is not None}
    return Site(
        spec=spec,
        name=spec.qualified_name,
        shapes={name: tuple(t.shape) for name, t in present.items()},
        dtypes={name: t.dtype for name, t in present.items()},
        qparams={n: QParams.from_block(**blocks[n], name=n) for n in tensors},
        constants=present,
        out=QParams.from_block(**blocks["out"], name="out"),
        out_shape=out_shape,
        attributes=attributes,
    )


def rebased(site: Site) -> Site:
    """The site with int8 codes instead of uint8 ones: codes and zero points less by 128.

    The integer contract is written for int8; both sites name the same reals.
    """
    bytes_ = [
        name
        for name, dtype in site.dtypes.items()
        if dtype == torch.uint8 and site.qparams[name] is not None
    ]
    out = site.out
    if out is not None and out.dtype == torch.uint8:
        out = out.shifted(-BYTE_OFFSET, torch.int8)
    elif not bytes_:
        return site
    blocks = {name: site.block(name) for name in bytes_}
    shifted = {name: b.shifted(-BYTE_OFFSET, b.dtype) for name, b in blocks.items()}
    codes = {name: to_signed(site.constants[name]) for name in bytes_ if name in site.constants}
    return dataclasses.replace(
        site,
        dtypes={**site.dtypes, **dict.fromkeys(bytes_, torch.int8)},
        qparams={**site.qparams, **shifted},
        constants={**site.constants, **codes},
        out=out,
    )


def is_fully_quantized(site: Site) -> bool:
    """True if the output and every operand that is present have parameters."""
    return site.out is not None and all(site.qparams[name] is not None for name in site.shapes)


def reference(spec: OpSpec, *args: Any, **kwargs: Any) -> Any:
    """Run a fused operator in eager mode.

    The integer contract (docs/numerics.md) where it is defined, otherwise dequantize -> ATen ->
    quantize in float.
    """
    fusion = _fusion(spec)
    bound = _bind_call(spec, args, kwargs)
    site = eager_site(spec, bound, ())
    signed = rebased(site)
    if is_fully_quantized(site) and fusion.covers(signed) is None:
        absent = {o.name: None for o in fusion.operands}
        result = fusion.reference(signed, {**absent, **signed.constants})
        if signed is not site and site.result.dtype == torch.uint8:
            result = to_unsigned(result)
    else:
        blocks, attributes = parse_arguments(spec, bound)
        result = fusion.aten(_dequantized(spec, bound, blocks), attributes)
        if site.out is not None:
            result = site.out.quantize(result)
    result = _in_format_of(bound[fusion.operands[0].name], result)
    if fusion.indices is not None:
        blocks, attributes = parse_arguments(spec, bound)
        indices = fusion.indices(_dequantized(spec, bound, blocks), attributes)
        return result, _in_format_of(bound[fusion.operands[0].name], indices)
    return result


def _in_format_of(inp: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    if result.dim() == 4 and inp.dim() == 4:
        return result.contiguous(memory_format=suggest_memory_format(inp))
    return result.contiguous()


def _fake(spec: OpSpec, *args: Any, **kwargs: Any) -> Any:
    fusion = _fusion(spec)
    bound = _bind_call(spec, args, kwargs)
    blocks, attributes = parse_arguments(spec, bound)
    tensors = {}
    for operand in fusion.operands:
        value = bound[operand.name]
        if value is not None and blocks[operand.name]["scale"] is not None:
            value = value.to(blocks[operand.name]["dtype"])
        tensors[operand.name] = value
    result = fusion.aten(tensors, attributes)
    if blocks["out"]["scale"] is not None:
        result = result.to(blocks["out"]["dtype"])
    result = _in_format_of(bound[fusion.operands[0].name], result)
    if fusion.indices is not None:
        return result, torch.empty_like(result, dtype=torch.int64)
    return result


def blocks_of(gm: GraphModule, node: Node) -> dict[str, QParams | None]:
    """The quantization parameters on a fused node by operand name, and `out` for the result.

    This is how a pass or another backend reads scale and zero point: from the node itself.
    """
    spec = _spec_of(node)
    blocks, _ = parse_arguments(spec, graph.bind(node))
    result: dict[str, QParams | None] = {}
    for name, block in blocks.items():
        values = dict(block)
        for field in ("scale", "zero_point"):
            if isinstance(values[field], Node):
                values[field] = graph.constant_of(gm, values[field])
                if values[field] is None:
                    raise ValueError(f"{node.name}: {name}_{field} is not a constant")
        result[name] = QParams.from_block(**values, name=f"{node.name}.{name}")
    return result


def _spec_of(node: Node) -> OpSpec:
    from fused_quant.ops import registry

    spec = registry.spec_of(graph.op_of(node))
    if spec is None or spec.fusion is None:
        raise ValueError(f"{node.name}: got {node.target}, supported: a fused_quant operator")
    return spec


def site_of(gm: GraphModule, node: Node) -> Site:
    """Everything known ahead of time about a fused node. ValueError for dynamic sizes."""
    spec = _spec_of(node)
    bound = graph.bind(node)
    _, attributes = parse_arguments(spec, bound)
    qparams = blocks_of(gm, node)
    out = qparams.pop("out")
    nodes = {o.name: bound[o.name] for o in _fusion(spec).operands if bound[o.name] is not None}
    values = {name: graph.constant_of(gm, n) for name, n in nodes.items()}
    val = graph.val_of(node)
    result = val[0] if isinstance(val, (tuple, list)) else val
    return Site(
        spec=spec,
        name=node.name,
        shapes={name: graph.shape_of(n) for name, n in nodes.items()},
        dtypes={name: graph.val_of(n).dtype for name, n in nodes.items()},
        qparams=qparams,
        constants={name: v for name, v in values.items() if v is not None},
        out=out,
        out_shape=tuple(result.shape),
        attributes=attributes,
        node=node,
    )
